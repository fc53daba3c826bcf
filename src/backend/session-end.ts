import { type BackendError, classifyBackendText, classifyHttpRefusal, cleanText, networkCode } from './errors.js'

/** How a session ended, seen by what the supervisor must do next. */
export interface SessionEnd {
  /** stopped: we ended it. The others as in BackendErrorKind. */
  readonly kind: 'retry' | 'auth' | 'never' | 'stopped'
  /**
   * directed: something at the other end answered and sent us away, so coming back soon is rude. network: nothing
   * answered, or the connection broke: coming back soon is how an outage ends quickly.
   */
  readonly cause: 'network' | 'directed'
  /** Fit for a log: the backend's own text or a phrase of ours, bounded, without secrets. */
  readonly reason: string
  /** For how long the subscription stood; 0 if it never did. */
  readonly stableMs: number
  /** What the backend asked for, or null. */
  readonly retryAfterMs: number | null
}

/** The end without the time, which only the session knows. */
export type EndCause = Omit<SessionEnd, 'stableMs'>

export function endByUs(reason: string): EndCause {
  return { kind: 'stopped', cause: 'network', reason, retryAfterMs: null }
}

export function endByNetwork(reason: string): EndCause {
  return { kind: 'retry', cause: 'network', reason, retryAfterMs: null }
}

function endDirected(reason: string): EndCause {
  return { kind: 'retry', cause: 'directed', reason, retryAfterMs: null }
}

/** A 4xx for a session has no model to read it: it is retried, seldom. */
export function endByBackendError(error: BackendError): EndCause {
  const kind = error.kind === 'auth' || error.kind === 'never' ? error.kind : 'retry'
  return { kind, cause: 'directed', reason: error.message, retryAfterMs: error.retryAfterMs }
}

/** The upgrade was answered with an HTTP status. A 5xx is a proxy whose backend is gone: as good as no answer. */
export function endByRefusedUpgrade(status: number, text: string, retryAfterMs: number | null): EndCause {
  const error = classifyHttpRefusal(status, text, { retryAfterMs })
  const end = endByBackendError(error)
  const reason = error.message.startsWith('HTTP ') ? `upgrade refused: ${error.message}` : error.message
  return { ...end, cause: status >= 500 && retryAfterMs === null ? 'network' : 'directed', reason }
}

/** Going away, service restart, try again later, and a connection that broke: what a restarting backend leaves behind. */
const RESTART_CODES: ReadonlySet<number> = new Set([1000, 1001, 1005, 1006, 1012, 1013, 1014, 4408])

/**
 * The socket was closed. A numbered text in the reason counts most ("403: …" under 4500 is how graphql-ws servers say what
 * their connect hook threw), then the code; 44xx codes follow HTTP's 4xx.
 */
export function endByClose(code: number, reason: string, secrets: readonly string[]): EndCause {
  const said = classifyBackendText(reason, secrets)
  if (said.status !== null) return endByBackendError(said)
  const text = said.message === '' ? `closed with ${code}` : `closed with ${code}: ${said.message}`
  switch (code) {
    case 4401:
    case 4403:
      return { kind: 'auth', cause: 'directed', reason: text, retryAfterMs: null }
    case 4460:
      return { kind: 'never', cause: 'directed', reason: text, retryAfterMs: null }
    default:
      return RESTART_CODES.has(code) ? endByNetwork(text) : endDirected(text)
  }
}

/** Whether an `error` event of the client says that a message was larger than maxPayload. */
export function isOverMaxPayload(event: unknown): boolean {
  return networkCode((event as { error?: unknown }).error) === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH'
}

/**
 * An `error` event of the client. A plain Error comes from parsing a message and may quote it (a call with its key), so its
 * text is not used; an event of ws holds the system's or ws's own words.
 */
export function endByErrorEvent(event: unknown): EndCause {
  if (event instanceof Error) return endDirected('the backend sent a message that is not graphql-transport-ws')
  const { error, message } = event as { error?: unknown; message?: unknown }
  const code = networkCode(error)
  // WS_ERR_…: the peer broke the websocket protocol or sent more than we take.
  if (code?.startsWith('WS_ERR_')) return endDirected(`websocket: ${code}`)
  if (code !== null) return endByNetwork(`network: ${code}`)
  return endDirected(`websocket: ${cleanText(typeof message === 'string' ? message : 'unknown error')}`)
}
