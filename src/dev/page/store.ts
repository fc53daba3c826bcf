import type { Activity, BackendState, CallDetail, CallSummary, Hello, PageMessage } from '../page-protocol.js'

/** A piece of what a call streamed, and where in it the piece begins. */
interface Piece {
  readonly at: number
  readonly text: string
}

/** A call as far as the page knows it. */
export interface KnownCall {
  readonly summary: CallSummary
  /** What was streamed, from its beginning; may lack its end until the detail is asked for. */
  readonly output: string
  /** What came while there was a gap before it, until the detail fills that. */
  readonly ahead: Piece | null
  readonly detail: CallDetail | null
  /** Of a server that was ended since: nothing more will be known of it. */
  readonly isGone: boolean
}

/** `lost`: the server does not answer, and is asked again every second. */
export type Link = 'connecting' | 'open' | 'lost'

export interface PageState {
  readonly link: Link
  readonly instance: string | null
  /** The server was started anew while this page was open. */
  readonly wasRestarted: boolean
  readonly worker: string | null
  readonly parameters: Hello['parameters']
  readonly backend: BackendState
  /** What to add to this browser's clock to get the server's, in ms. */
  readonly clockOffsetMs: number
  /** In the order in which they came. */
  readonly calls: ReadonlyMap<string, KnownCall>
  readonly selected: string | null
  readonly activity: readonly Activity[]
}

export type Action =
  | { readonly type: 'message'; readonly message: PageMessage; readonly now: number }
  | { readonly type: 'link'; readonly link: Link }
  | { readonly type: 'select'; readonly id: string }
  | { readonly type: 'detail'; readonly detail: CallDetail }

const ACTIVITY_SHOWN = 100

export const EMPTY: PageState = {
  link: 'connecting',
  instance: null,
  wasRestarted: false,
  worker: null,
  parameters: null,
  backend: { graphql: 0, delta: 0, subscribed: false, faults: [] },
  clockOffsetMs: 0,
  calls: new Map(),
  selected: null,
  activity: [],
}

/** What follows from what came or was done. Pure. */
export function reduce(state: PageState, action: Action): PageState {
  switch (action.type) {
    case 'link':
      return state.link === action.link ? state : { ...state, link: action.link }
    case 'select':
      return { ...state, selected: action.id }
    case 'detail':
      return withDetail(state, action.detail)
    case 'message':
      return withMessage(state, action.message, action.now)
  }
}

function withMessage(state: PageState, message: PageMessage, now: number): PageState {
  switch (message.type) {
    case 'hello':
      return withHello(state, message, now)
    case 'call':
      return withCalls(state, [message.call])
    case 'delta':
      return withDelta(state, message)
    case 'backend':
      return { ...state, backend: message.backend }
    case 'activity': {
      const last = state.activity.at(-1)
      const before = last?.number === message.activity.number ? state.activity.slice(0, -1) : state.activity
      return { ...state, activity: [...before, message.activity].slice(-ACTIVITY_SHOWN) }
    }
    case 'tool':
      return { ...state, worker: message.worker, parameters: message.parameters ?? state.parameters }
    case 'closing':
      return { ...state, link: 'lost' }
  }
}

function withHello(state: PageState, hello: Hello, now: number): PageState {
  const isOther = state.instance !== null && state.instance !== hello.instance
  const calls = isOther
    ? new Map([...state.calls].map(([id, call]) => [id, { ...call, isGone: true }] as const))
    : state.calls
  const greeted: PageState = {
    ...state,
    link: 'open',
    instance: hello.instance,
    wasRestarted: state.wasRestarted || isOther,
    worker: hello.worker,
    parameters: hello.parameters ?? state.parameters,
    backend: hello.backend,
    clockOffsetMs: hello.now - now,
    calls,
    activity: hello.activity,
  }
  return withCalls(greeted, hello.calls)
}

function withCalls(state: PageState, summaries: readonly CallSummary[]): PageState {
  if (summaries.length === 0) return state
  const calls = new Map(state.calls)
  for (const summary of summaries) {
    const known = calls.get(summary.id) ?? { output: '', ahead: null, detail: null, isGone: false }
    calls.set(summary.id, { ...known, summary })
  }
  return { ...state, calls }
}

function withDelta(state: PageState, { id, at, text }: Extract<PageMessage, { type: 'delta' }>): PageState {
  const call = state.calls.get(id)
  if (call === undefined) return state
  const summary = { ...call.summary, streamed: Math.max(call.summary.streamed, at + text.length) }
  const output = joined({ at: 0, text: call.output }, { at, text })
  // With a gap the output stays as it is, shorter than what was streamed, and the detail is asked for.
  const changed =
    output === null
      ? { ahead: (call.ahead && joined(call.ahead, { at, text })) ?? { at, text } }
      : { output: output.text }
  return { ...state, calls: new Map(state.calls).set(id, { ...call, summary, ...changed }) }
}

function withDetail(state: PageState, detail: CallDetail): PageState {
  const call = state.calls.get(detail.id)
  if (call === undefined) return state
  const text = detail.output.length > call.output.length ? detail.output : call.output
  // The detail is from before its way here: what came meanwhile is not asked for again.
  const whole = call.ahead && joined({ at: 0, text }, call.ahead)
  const changed = whole === null ? { output: text } : { output: whole.text, ahead: null }
  return { ...state, calls: new Map(state.calls).set(detail.id, { ...call, detail, ...changed }) }
}

/** The first with what the second has beyond it; null: there is a gap between them. */
function joined(first: Piece, second: Piece): Piece | null {
  const known = first.at + first.text.length - second.at
  return known < 0 ? null : { at: first.at, text: first.text + second.text.slice(known) }
}

/** The call that is shown: the chosen one, else the newest. */
export function shownCall({ calls, selected }: PageState): KnownCall | null {
  const chosen = selected === null ? undefined : calls.get(selected)
  return chosen ?? [...calls.values()].at(-1) ?? null
}

/** Whether the server knows more of this call than the page. */
export function lacksDetail({ summary, output, detail, isGone }: KnownCall): boolean {
  if (isGone) return false
  if (detail === null || output.length < summary.streamed) return true
  return summary.state === 'answered' && detail.provenance === null
}
