import type { ToolCall } from '../backend/protocol.js'
import type { Part } from '../outcome.js'

/** One accepted or duplicate post of a result, already parsed; `atMs` is the backend's monotonic clock (performance.now()). */
export interface Answer {
  readonly fcallId: string
  readonly content: string | readonly Part[]
  readonly provenance: Readonly<Record<string, unknown>>
  readonly dollars: number | null
  readonly placeholder: boolean
  /** True where the call had its answer already: the post was refused with 409 and changed nothing. */
  readonly duplicate: boolean
  /** What the request said in x-flexus-persona-id, or null. */
  readonly personaId: string | null
  readonly atMs: number
}

export interface Delta {
  readonly text: string
  readonly atMs: number
}

export interface Registration {
  readonly toolName: string
  readonly description: string
  /** The parsed parameter schema, with its `order` marks. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly fgroupId: string | null
  readonly fuserId: string | null
  readonly shared: boolean
  readonly strict: boolean
  readonly atMs: number
}

export interface Confirmation {
  readonly fcallId: string
  readonly setupKey: string
  readonly command: string
  readonly explanation: string
  readonly atMs: number
}

/** Which of the two websockets a connection speaks. */
export type SocketKind = 'graphql' | 'delta'

/** All that happens at the embedded backend, in order; for a live display and for tests that wait. */
export type BackendEvent =
  | { readonly type: 'pushed'; readonly call: ToolCall }
  | { readonly type: 'delivered'; readonly call: ToolCall; readonly delivery: number }
  | { readonly type: 'delta'; readonly fcallId: string; readonly delta: Delta }
  | { readonly type: 'delta_refused'; readonly reason: string }
  | { readonly type: 'answered'; readonly answer: Answer }
  | { readonly type: 'placeholder'; readonly answer: Answer }
  | { readonly type: 'duplicate'; readonly answer: Answer }
  | { readonly type: 'confirmation_requested'; readonly confirmation: Confirmation }
  | { readonly type: 'confirmed'; readonly fcallId: string; readonly approved: boolean }
  | { readonly type: 'registered'; readonly registration: Registration }
  /** A mutation was read; what becomes of it is not known yet. */
  | { readonly type: 'requested'; readonly operation: string }
  | { readonly type: 'request_refused'; readonly reason: string }
  | { readonly type: 'upgrade_refused'; readonly socket: SocketKind; readonly status: number }
  | { readonly type: 'connected'; readonly socket: SocketKind }
  | { readonly type: 'disconnected'; readonly socket: SocketKind; readonly code: number }
  | { readonly type: 'subscribed'; readonly toolNames: readonly string[] }
  | { readonly type: 'unsubscribed' }
