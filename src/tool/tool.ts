import type { ThreadKey } from '../files/store.js'
import type { CalledTools, Outcome, Part } from '../outcome.js'
import type { ToolLog } from '../toolbox/tool-log.js'

/** A JSON schema in the strict subset of docs/protocol.md, "Strict schemas". */
export type JsonSchema = { readonly [key: string]: unknown }

/** The worker ends a call that nobody cancelled, or keeps it from starting. The message is a phrase for the model. */
export class Interruption extends Error {
  override readonly name = 'Interruption'
}

/** What a tool is told of a call: nothing of the wire but what a handler needs. */
export interface Invocation<Args> {
  readonly args: Args
  /** null: not asked; true: approved; false: declined. */
  readonly confirmedByHuman: boolean | null
  /** Scenario name, "" outside tests. */
  readonly scenario: string
  /** Milliseconds that are left for the code before the call's deadline. */
  readonly remainingMs: number
  /** Milliseconds the call waited for its slot. */
  readonly queueMs: number
  /** Aborts when the call is cancelled, with a phrase for the model as its reason; with an Interruption when nobody did that. */
  readonly signal: AbortSignal
  /** The thread that the call belongs to, whose files it gets; null: none. */
  readonly thread: ThreadKey | null
  /** Where tool calls of the code are written down. */
  readonly toolLog: ToolLog
  /** The tools that the code has called so far. Never rejects. */
  calledBefore(): Promise<CalledTools>
  /** Sends text to the person watching, a courtesy. */
  stream(text: string): void
}

/** What a handler may come back with. */
export type Reply =
  | {
      readonly kind: 'answer'
      readonly content: string | readonly Part[]
      /** Goes to ftm_provenance; `system` is added if it is not there. */
      readonly provenance: Readonly<Record<string, unknown>>
      readonly dollars: number
      /** The whole outcome where there is one (exec prints it, the call's log event is made from it). */
      readonly outcome: Outcome | null
    }
  | { readonly kind: 'placeholder'; readonly subchats: readonly string[] }
  | { readonly kind: 'later' }
  | { readonly kind: 'already_answered' }
  | {
      readonly kind: 'confirm'
      readonly setupKey: string
      readonly command: string
      readonly explanation: string
      /** What has run already, and the answer where nobody can be asked; null: nothing has. */
      readonly outcome: Outcome | null
    }

/** One tool: a file of its own, and one line in the list that the worker is given. */
export interface Tool<Args = unknown> {
  readonly name: string
  readonly description: string
  readonly parameters: JsonSchema
  /** Parses what the model sent; see arguments.ts. */
  parse(text: string): { readonly ok: true; readonly args: Args } | { readonly ok: false; readonly message: string }
  /** Asked before a slot is taken: null to run, or the reply that needs no slot (a confirmation request, "declined"). */
  before(invocation: Invocation<Args>): Reply | null | Promise<Reply | null>
  handle(invocation: Invocation<Args>): Promise<Reply>
}
