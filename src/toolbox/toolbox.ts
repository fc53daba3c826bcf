import type { Logger } from 'pino'
import type { ToolCallRecord } from '../outcome.js'
import { Broker } from './broker.js'
import { recordedFrom } from './replay.js'
import { RunCatalog } from './run-catalog.js'
import type { Snapshot } from './snapshot.js'
import type { Wanted } from './source-looks.js'
import { nameOf, type ToolEntry } from './tool-entry.js'
import type { ToolLog, ToolStep } from './tool-log.js'

export interface ToolboxOptions {
  /** The tools as they are known now. Never rejects: sources that can't be reached have no tools. */
  catalog(signal: AbortSignal, wanted: Wanted): Promise<Snapshot>
  /** The categories that a piece of code names: only their sources are started, and waited for, before it runs. */
  categoriesIn(code: string): ReadonlySet<string>
  /** Those of the tools that a piece of code mentions. */
  mentioned(code: string, entries: readonly ToolEntry[]): readonly ToolEntry[]
  /** Whether a piece of code can call tools at all, as far as its text tells: where it can't, no source is started for it. */
  mayUseTools(code: string): boolean
  /** What a model is told of the tools. */
  readonly description: string
  readonly callsMax: number
  /** Whether lines that tell of tool calls come with the output. */
  readonly progress: boolean
  mask(text: string): string
  readonly log: Logger
}

/** What one run of code did with tools, and what it may do. */
export interface ToolRun {
  /** For the sandbox: see its GuestCalls. */
  readonly calls: {
    readonly options: { readonly [name: string]: unknown }
    request(payload: Buffer, answer: (payload: Buffer) => Promise<void>): Promise<void>
    end(): void
  }
  readonly made: readonly ToolCallRecord[]
  readonly dollars: number
  /** Tools that it called and that a person has to approve first: named category.tool. */
  readonly blocked: readonly string[]
  /** Why it may not go on once it did something else than before a person was asked: a phrase for the model; null: it did not. */
  readonly diverged: string | null
  readonly isOverBudget: boolean
  /** What it did is told, and nobody is asked: of calls that end later nothing is kept. */
  close(): void
  /** What was shown of the code's output before a person was asked; see ToolStep. */
  readonly shownBefore: Extract<ToolStep, { readonly step: 'asked' }>['shown'] | null
}

const UNKNOWN =
  'a person has approved this code, but another worker asked them, or the record of it is lost: which tools they were shown, and ' +
  'what the code may have done before, is not known here'

/** The tools that sandboxed code may call, and the rules for it. */
export class Toolbox {
  readonly #options: ToolboxOptions

  constructor(options: ToolboxOptions) {
    this.#options = options
  }

  get description(): string {
    return this.#options.description
  }

  get callsMax(): number {
    return this.#options.callsMax
  }

  /** The tools that a person has to approve before this code runs, as far as its text tells; named category.tool. */
  async toApprove(code: string, signal: AbortSignal): Promise<readonly string[]> {
    const { catalog, categoriesIn, mentioned, mayUseTools } = this.#options
    if (!mayUseTools(code)) return []
    const { entries } = await catalog(signal, categoriesIn(code))
    return mentioned(
      code,
      entries.filter(entry => entry.consent === 'ask'),
    ).map(nameOf)
  }

  /**
   * Begins a run. `isApproved`: a person has said yes to what the log says that they were shown. `onBlocked`: it has called a
   * tool that nobody has approved, and has to be ended; see BrokerOptions. `onDiverged`: so too, since it does not do again what
   * it did before a person was asked; a phrase for the model. `refused`, a phrase: it may not even begin.
   */
  async begin(run: {
    readonly code: string
    readonly isApproved: boolean
    readonly signal: AbortSignal
    readonly toolLog: ToolLog
    onBlocked(answered: Promise<unknown>): void
    onDiverged(reason: string): void
  }): Promise<ToolRun | { readonly refused: string }> {
    const { catalog, callsMax, progress, mask, log } = this.#options
    const recorded = recordedFrom(await run.toolLog.earlier())
    if (!recorded.isWhole) {
      return {
        refused: 'the code has called tools before it was approved, and what they answered is not known any more',
      }
    }
    const { asked } = recorded
    if (run.isApproved && (asked?.tools ?? null) === null && (await this.#mayNeedApproval(run.code, run.signal)))
      return { refused: UNKNOWN }
    const approved = new Set(run.isApproved ? asked?.tools : [])
    const seen = new RunCatalog(catalog)
    const broker = new Broker({
      catalog: (signal, request) => seen.for(request, signal),
      callsMax,
      approved: name => approved.has(name),
      recorded: recorded.calls,
      toolLog: run.toolLog,
      mayAsk: !run.isApproved, // nobody is asked twice for one call
      mask,
      log,
      onBlocked: answered => run.onBlocked(answered),
      onDiverged: reason => run.onDiverged(reason),
    })
    return {
      calls: {
        options: { calls_max: callsMax, progress },
        request: (payload, answer) => broker.request(payload, answer),
        end: () => broker.end(),
      },
      get made() {
        return broker.calls
      },
      get dollars() {
        return broker.dollars
      },
      get blocked() {
        return broker.blocked
      },
      get diverged() {
        return broker.diverged
      },
      get isOverBudget() {
        return broker.isOverBudget
      },
      close: () => broker.close(),
      shownBefore: asked?.shown ?? null,
    }
  }

  /** Whether a person could have been asked for tools that the code calls, before it ran or later. */
  async #mayNeedApproval(code: string, signal: AbortSignal): Promise<boolean> {
    const { catalog, mayUseTools } = this.#options
    return mayUseTools(code) && (await catalog(signal, 'all')).entries.some(({ consent }) => consent === 'ask')
  }
}
