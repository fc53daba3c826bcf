import type { Activity, BackendState, CallDetail, CallSummary, Hello, PageMessage } from '../page-protocol.js'

/** A call as far as the page knows it. */
export interface KnownCall {
  readonly summary: CallSummary
  /** What was streamed, from its beginning; may lack its end until the detail is asked for. */
  readonly output: string
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
    const known = calls.get(summary.id) ?? { output: '', detail: null, isGone: false }
    calls.set(summary.id, { ...known, summary })
  }
  return { ...state, calls }
}

function withDelta(state: PageState, { id, at, text }: Extract<PageMessage, { type: 'delta' }>): PageState {
  const call = state.calls.get(id)
  if (call === undefined) return state
  const summary = { ...call.summary, streamed: Math.max(call.summary.streamed, at + text.length) }
  // With a gap the output stays as it is, shorter than what was streamed, and the detail is asked for.
  const missing = text.slice(Math.max(0, call.output.length - at))
  const output = at > call.output.length ? call.output : call.output + missing
  return { ...state, calls: new Map(state.calls).set(id, { ...call, summary, output }) }
}

function withDetail(state: PageState, detail: CallDetail): PageState {
  const call = state.calls.get(detail.id)
  if (call === undefined) return state
  const output = detail.output.length > call.output.length ? detail.output : call.output
  return { ...state, calls: new Map(state.calls).set(detail.id, { ...call, detail, output }) }
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
