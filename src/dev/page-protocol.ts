/** What the page and `dev` say to each other: JSON over GET /dev/events (server-sent events), GET /dev/detail and some POSTs. */

/** `waiting`: no worker has it so far; `running`: a worker has it, and may let it wait for its turn. */
type CallState = 'waiting' | 'running' | 'needs_approval' | 'answered'

/** One line of the list of calls. Times are milliseconds since the epoch by the server's clock. */
export interface CallSummary {
  readonly id: string
  readonly state: CallState
  /** What the result calls its end; null where there is none yet. */
  readonly status: string | null
  readonly thread: string
  readonly createdAt: number
  /** When its answer came, or null. */
  readonly endedAt: number | null
  /** UTF-16 units that were streamed so far. */
  readonly streamed: number
  readonly deliveries: number
  /** What the worker asks a person, where it did; stays after the answer to it. */
  readonly approval: { readonly command: string; readonly explanation: string } | null
  /** What the person said, or null. */
  readonly approved: boolean | null
  readonly dollars: number | null
  /** The first line of its code that is neither an import nor a comment. */
  readonly title: string
}

/** What is asked for when a call is looked at. */
export interface CallDetail {
  readonly id: string
  /** The arguments as the worker got them: JSON text. */
  readonly arguments: string
  readonly output: string
  /** Text, or parts as the backend takes them: docs/protocol.md, "Answering". */
  readonly content: string | readonly { readonly m_type: string; readonly m_content: string }[] | null
  readonly provenance: Readonly<Record<string, unknown>> | null
}

/** The faults that the backend can be told to have; each stays until it is taken away. */
export const FAULTS = ['refuse_posts', 'refuse_connections', 'silence'] as const
export type Fault = (typeof FAULTS)[number]

export interface BackendState {
  /** Open websockets. */
  readonly graphql: number
  readonly delta: number
  /** Whether a worker asks for calls. */
  readonly subscribed: boolean
  readonly faults: readonly Fault[]
}

/** One line of what happened at the backend. `times`: how often in a row. */
export interface Activity {
  readonly number: number
  readonly at: number
  readonly text: string
  readonly times: number
}

export interface Hello {
  /** Another one after each start of the server. */
  readonly instance: string
  readonly now: number
  /** One line about the worker; null while it starts. */
  readonly worker: string | null
  /** JSON schema of the tool's arguments; null until it is registered. */
  readonly parameters: Readonly<Record<string, unknown>> | null
  readonly backend: BackendState
  readonly calls: readonly CallSummary[]
  readonly activity: readonly Activity[]
}

export type PageMessage =
  | ({ readonly type: 'hello' } & Hello)
  | { readonly type: 'call'; readonly call: CallSummary }
  /** `at`: UTF-16 units that came before. */
  | { readonly type: 'delta'; readonly id: string; readonly at: number; readonly text: string }
  | { readonly type: 'backend'; readonly backend: BackendState }
  | { readonly type: 'activity'; readonly activity: Activity }
  | { readonly type: 'tool'; readonly worker: string | null; readonly parameters: Hello['parameters'] }
  /** The server is about to end. */
  | { readonly type: 'closing' }
