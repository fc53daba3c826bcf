import type { Logger } from 'pino'
import { type FairLimit, fairLimit } from '../fair-limit.js'
import { type Consent, type Json, type ToolEntry, ToolFailure, type ToolSource } from '../tool-entry.js'
import { Backoff } from './backoff.js'
import { SessionLost } from './connection.js'
import { type Annotations, consentOf, unmatchedGlobs } from './consent.js'
import { maskerOf } from './secrets.js'
import type { McpServerConfig } from './server-config.js'
import { CallCutOff, CallTimedOut, detailOf, Session } from './session.js'
import type { ListedTool, ToolList } from './tool-list.js'

export interface McpSourceOptions {
  readonly config: McpServerConfig
  readonly log: Logger
  /** Of parseToolServers: masked in what is logged of a server's own words. */
  readonly secrets: readonly string[]
  /** The worker's environment, of which a server that is started gets PATH, HOME, LANG and TMPDIR. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The worker's version, told to servers. */
  readonly version: string
  /** Monotonic milliseconds. */
  readonly now?: () => number
  readonly random?: () => number
  /** How often a server over HTTP is asked whether it is there, while no call is with it. */
  readonly pingEveryMs?: number
  readonly pingLimitMs?: number
}

/**
 *            first use               initialised, tools listed
 *   idle ──────────────▶ starting ──────────────────────────▶ up
 *     ▲                      │                                │
 *     │ use after the pause  ▼ failed                         ▼ ended, or silent
 *     └─────────────────── waiting ◀──────────────────────────┘          (from anywhere) ──▶ closed
 */
type State =
  | { readonly name: 'idle' }
  | { readonly name: 'starting'; readonly session: Session; readonly done: Promise<void> }
  | { readonly name: 'up'; readonly session: Session; readonly sinceMs: number }
  | { readonly name: 'waiting'; readonly words: string; readonly untilMs: number }
  | { readonly name: 'closed' }

const LIST_AFTER_MS = 200
const LIST_EVERY_MS = 5_000

/** The tools of one MCP server, which is started at the first use, looked after, and started again at a later use when it died. */
export class McpSource implements ToolSource {
  readonly category: string
  readonly description: string

  readonly #options: McpSourceOptions
  readonly #log: Logger
  readonly #mask: (text: string) => string
  readonly #now: () => number
  readonly #backoff: Backoff
  readonly #consent: (name: string, annotations: Annotations) => Consent
  readonly #limit: FairLimit
  #state: State = { name: 'idle' }
  #entries: readonly ToolEntry[] = []
  #leftOut: readonly string[] = []
  #unmatched: readonly string[] = []
  #inFlight = 0
  #relist: NodeJS.Timeout | undefined
  #listedAtMs = Number.NEGATIVE_INFINITY
  #ping: NodeJS.Timeout | undefined
  #probing = false
  #outageTold = false
  /** Sessions that are being ended: close() waits for them. */
  readonly #leaving = new Set<Promise<void>>()

  constructor(options: McpSourceOptions) {
    const { config, log, secrets, now = () => performance.now(), random = Math.random } = options
    this.category = config.name
    this.description = config.description
    this.#options = options
    this.#log = log
    this.#mask = maskerOf(secrets)
    this.#now = now
    this.#backoff = new Backoff(random)
    this.#consent = consentOf(config.consent)
    this.#limit = fairLimit(config.maxConcurrent)
  }

  async tools(signal: AbortSignal): Promise<readonly ToolEntry[]> {
    await settledOrAborted(this.#useable(), signal)
    return this.#entries
  }

  get problem(): string | null {
    const state = this.#state
    if (state.name === 'closed') return `the tool server '${this.category}' is closed`
    // Without the time that is left: what a model is told of the tools is made anew at each change.
    if (state.name === 'waiting')
      return `the tool server '${this.category}' ${state.words}, it is ${this.#started()} again when it is used a little later`
    return this.#leftOut.length === 0 ? null : `left out of its tools: ${this.#leftOut.join('; ')}`
  }

  get isReady(): boolean {
    const state = this.#state
    if (state.name === 'waiting') return state.untilMs > this.#now()
    return state.name === 'up' || state.name === 'closed'
  }

  async close(): Promise<void> {
    const state = this.#state
    this.#state = { name: 'closed' }
    clearTimeout(this.#relist)
    clearInterval(this.#ping)
    if ('session' in state) this.#leave(state.session, 'is closed')
    await Promise.all([...this.#leaving])
  }

  /** Starts the server where that is due; resolves when it is up or can not be used for now. */
  #useable(): Promise<void> {
    const state = this.#state
    switch (state.name) {
      case 'up':
      case 'closed':
        return Promise.resolve()
      case 'starting':
        return state.done
      case 'waiting':
        return state.untilMs > this.#now() ? Promise.resolve() : this.#start()
      case 'idle':
        return this.#start()
    }
  }

  #start(): Promise<void> {
    const { config, environment, version } = this.#options
    const session: Session = new Session(
      config,
      {
        server: config.name,
        log: this.#log,
        mask: this.#mask,
        environment,
        now: this.#now,
        onToolsChanged: () => this.#listSoon(session),
      },
      version,
    )
    const done = this.#open(session)
    this.#state = { name: 'starting', session, done }
    return done
  }

  async #open(session: Session): Promise<void> {
    const startMs = this.#now()
    try {
      await session.open()
      this.#take(await session.listTools())
    } catch (error) {
      this.#over(session, error instanceof Error ? error.message : String(error), detailOf(error))
      return
    }
    if (!this.#isCurrent(session)) return
    const { config, pingEveryMs = 30_000 } = this.#options
    this.#state = { name: 'up', session, sinceMs: this.#now() }
    this.#outageTold = false
    const ms = Math.round(this.#now() - startMs)
    this.#log.info({ server: this.category, tools: this.#entries.length, ms }, 'tool server is up')
    void session.connection.ended.then(words => this.#over(session, words))
    if (config.connection.kind !== 'http') return
    this.#ping = setInterval(() => {
      if (this.#inFlight === 0) void this.#probe(session)
    }, pingEveryMs)
    this.#ping.unref()
  }

  #isCurrent(session: Session): boolean {
    return 'session' in this.#state && this.#state.session === session
  }

  /** A session has come to its end, or never came up. */
  #over(session: Session, words: string, detail: string | null = null): void {
    this.#leave(session, words)
    if (!this.#isCurrent(session)) return
    const upMs = this.#state.name === 'up' ? this.#now() - this.#state.sinceMs : 0
    clearTimeout(this.#relist)
    this.#relist = undefined
    clearInterval(this.#ping)
    const pauseMs = this.#backoff.failed(upMs)
    const reason = this.#mask(words)
    this.#state = { name: 'waiting', words: reason, untilMs: this.#now() + pauseMs }
    const level = this.#outageTold ? 'debug' : 'warn'
    this.#outageTold = true
    const more = detail === null ? {} : { detail: this.#mask(detail) }
    const fields = { server: this.category, reason, ...more, upMs: Math.round(upMs) }
    this.#log[level]({ ...fields, pauseMs: Math.round(pauseMs) }, 'tool server can not be used')
  }

  #leave(session: Session, words: string): void {
    const left = session.end(words)
    this.#leaving.add(left)
    void left.finally(() => this.#leaving.delete(left))
  }

  #started(): string {
    return this.#options.config.connection.kind === 'http' ? 'connected' : 'started'
  }

  /** "it is started again in 4 s" */
  #again(): string {
    const verb = this.#started()
    if (this.#state.name !== 'waiting') return `it is ${verb} again`
    const seconds = Math.ceil((this.#state.untilMs - this.#now()) / 1_000)
    return seconds > 0 ? `it is ${verb} again in ${seconds} s` : `it is ${verb} again at its next use`
  }

  #take(list: ToolList): void {
    this.#listedAtMs = this.#now()
    this.#entries = list.tools.map(tool => this.#entry(tool))
    if (list.leftOut.length > 0 && list.leftOut.join() !== this.#leftOut.join()) {
      this.#log.warn({ server: this.category, leftOut: list.leftOut }, 'not all tools of a server can be used')
    }
    this.#leftOut = list.leftOut
    const names = list.tools.map(({ name }) => name)
    const globs = unmatchedGlobs(this.#options.config.consent, names)
    if (globs.length > 0 && globs.join() !== this.#unmatched.join()) {
      this.#log.warn({ server: this.category, globs }, 'lists of a server name tools that it does not have')
    }
    this.#unmatched = globs
  }

  #entry(tool: ListedTool): ToolEntry {
    return {
      category: this.category,
      name: tool.name,
      description: tool.description,
      parameters: tool.parameters,
      ...(tool.returns === null ? {} : { returns: tool.returns }),
      consent: this.#consent(tool.name, tool.annotations),
      call: async (args, { signal }) => ({ value: await this.#call(tool.name, args, signal) }),
    }
  }

  #call(tool: string, args: { readonly [name: string]: Json }, signal: AbortSignal): Promise<Json> {
    const work = this.#limit(signal, async () => {
      if (signal.aborted) throw new ToolFailure('the run has ended')
      this.#inFlight += 1
      try {
        return await this.#callOnce(tool, args, signal, true)
      } finally {
        this.#inFlight -= 1
      }
    })
    return settledOrAborted(work, signal).then(() => {
      if (!signal.aborted) return work
      work.catch(() => {}) // nobody waits for it any more
      throw new ToolFailure('the run has ended')
    })
  }

  async #callOnce(
    tool: string,
    args: { readonly [name: string]: Json },
    signal: AbortSignal,
    mayRepeat: boolean,
  ): Promise<Json> {
    await settledOrAborted(this.#useable(), signal)
    const state = this.#state
    if (state.name === 'waiting') throw this.#failure(`${state.words}, ${this.#again()}`)
    if (state.name !== 'up') throw new ToolFailure(this.problem ?? `the tool server '${this.category}' is starting`)
    const { session } = state
    try {
      return await session.call(tool, args, signal)
    } catch (error) {
      if (error instanceof SessionLost) {
        // The server did not look at the call, so nothing is done twice. A new session is no restart: no pause.
        if (this.#isCurrent(session)) this.#state = { name: 'idle' }
        clearInterval(this.#ping)
        this.#leave(session, error.message)
        if (mayRepeat) return await this.#callOnce(tool, args, signal, false)
        throw this.#failure(error.message)
      }
      if (error instanceof CallTimedOut) {
        void this.#probe(session)
        throw this.#failure(error.message)
      }
      if (!(error instanceof CallCutOff)) throw error
      if (session.endedWords !== null) this.#over(session, session.endedWords)
      // Runs end before calls do that hang: then it is seen whether the server does. Not beside others, which tell by themselves.
      else if (!signal.aborted || this.#inFlight === 1) void this.#probe(session)
      const again = this.#state.name === 'waiting' ? `, ${this.#again()}` : ''
      throw this.#failure(`${error.message}${again}`)
    }
  }

  #failure(words: string): ToolFailure {
    return new ToolFailure(`the tool server '${this.category}' ${this.#mask(words)}`)
  }

  /** Ends a session in which nothing comes back any more; a server that is only slow with one call answers a ping. */
  async #probe(session: Session): Promise<void> {
    if (this.#probing || !this.#isCurrent(session)) return
    this.#probing = true
    const silence = await session.silence(this.#options.pingLimitMs ?? 10_000)
    this.#probing = false
    if (silence !== null) this.#over(session, silence)
  }

  /** Lists anew soon, and not more often than each 5 s, however many changes a server tells of. */
  #listSoon(session: Session): void {
    if (this.#relist !== undefined || !this.#isCurrent(session)) return
    const delayMs = Math.max(LIST_AFTER_MS, this.#listedAtMs + LIST_EVERY_MS - this.#now())
    this.#relist = setTimeout(async () => {
      this.#relist = undefined
      // What changes while it is being listed is a change of its own.
      this.#listedAtMs = this.#now()
      try {
        const list = await session.listTools()
        if (!this.#isCurrent(session)) return
        this.#take(list)
        this.#log.info({ server: this.category, tools: list.tools.length }, 'tools of a server have changed')
      } catch (error) {
        const reason = this.#mask(error instanceof Error ? error.message : String(error))
        this.#log.warn({ server: this.category, reason }, 'tools of a server could not be listed again')
      }
    }, delayMs)
    this.#relist.unref()
  }
}

/** Resolves when `work` has settled or the signal aborts; never rejects. */
function settledOrAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve()
    const finish = () => {
      signal.removeEventListener('abort', finish)
      resolve()
    }
    signal.addEventListener('abort', finish, { once: true })
    work.then(finish, finish)
  })
}
