import { ClientError } from 'graphql-request'
import { TimeLimitError } from '../time-limit.js'

/**
 * Every foreign error of the backend edge becomes a BackendError here, and nowhere else. The message is the backend's own
 * text or a phrase of ours, never the error object's: graphql-request puts query and variables, and with them the
 * call's untrusted key, into its messages, and fetch quotes a header that it refuses.
 */

/**
 * What the caller must do:
 * - model: a numbered 4xx, its text is written for the model; repeating won't help.
 * - final: refused without such a text (a request the schema rejects, 413); repeating won't help.
 * - auth: the key does not work (401, 403); fetch it afresh, then try again seldom.
 * - never: this client may not work (460); stop.
 * - retry: the backend's or the network's trouble; try again, not before `retryAfterMs` if that is known.
 */
export type BackendErrorKind = 'model' | 'final' | 'auth' | 'never' | 'retry'

export class BackendError extends Error {
  readonly kind: BackendErrorKind
  /** The number in the backend's text, else the HTTP status; null where there was no answer. */
  readonly status: number | null
  readonly retryAfterMs: number | null
  /** Nothing came within the time that the request had. */
  readonly timedOut: boolean

  constructor(
    kind: BackendErrorKind,
    message: string,
    details: { status?: number | null; retryAfterMs?: number | null; timedOut?: boolean } = {},
  ) {
    super(message)
    this.name = 'BackendError'
    this.kind = kind
    this.status = details.status ?? null
    this.retryAfterMs = details.retryAfterMs ?? null
    this.timedOut = details.timedOut ?? false
  }
}

const MESSAGE_MAX = 500

/**
 * Makes a foreign text fit to be logged: secrets out first (a cut could leave half of one), then bounded. GraphQL servers
 * answer a wrong variable with "got invalid value" and a dump of the variable, key included, in full or shortened in the
 * middle, so the dump goes altogether.
 */
export function cleanText(text: string, secrets: readonly string[] = []): string {
  let clean = text
  for (const secret of secrets) {
    if (secret === '') continue
    clean = clean.replaceAll(secret, '[redacted]')
    const escaped = JSON.stringify(secret).slice(1, -1)
    if (escaped !== secret) clean = clean.replaceAll(escaped, '[redacted]')
  }
  clean = clean.replace(/(got invalid value).*?(; (?=[^;]*$)|$)/s, '$1 [redacted]$2')
  clean = clean.replace(/\p{Cc}+/gu, ' ').trim()
  return clean.length <= MESSAGE_MAX ? clean.toWellFormed() : `${clean.slice(0, MESSAGE_MAX - 1).toWellFormed()}…`
}

/** The number that the backend's error texts start with, as in "403: …"; null if there is none. */
function leadingNumber(text: string): number | null {
  const match = /^\s*([1-5]\d\d)\s*(?::|$)/.exec(text)
  return match?.[1] === undefined ? null : Number(match[1])
}

function kindOfNumber(number: number): BackendErrorKind {
  if (number === 460) return 'never'
  if (number === 401 || number === 403) return 'auth'
  if (number === 408 || number === 425 || number === 429) return 'retry'
  return number >= 400 && number < 500 ? 'model' : 'retry'
}

/**
 * An HTTP status without a numbered text. A 404 or 405 that no GraphQL server wrote comes from a proxy whose backend is being
 * replaced; taking that for a refusal would lose an answer on each deployment.
 */
function kindOfStatus(status: number, fromGraphql: boolean): BackendErrorKind {
  if (!fromGraphql && (status === 404 || status === 405)) return 'retry'
  const kind = kindOfNumber(status)
  return kind === 'model' ? 'final' : kind
}

/** Classifies a text of the backend's, such as a GraphQL error message or the reason of a websocket close. */
export function classifyBackendText(text: string, secrets: readonly string[] = []): BackendError {
  const number = leadingNumber(text)
  return new BackendError(number === null ? 'retry' : kindOfNumber(number), cleanText(text, secrets), {
    status: number,
  })
}

/** Classifies an HTTP status and what text came with it ("" for none). Used for refused upgrades as well. */
export function classifyHttpRefusal(
  status: number,
  text: string,
  details: { fromGraphql?: boolean; retryAfterMs?: number | null; secrets?: readonly string[] } = {},
): BackendError {
  const number = leadingNumber(text)
  const kind = number === null ? kindOfStatus(status, details.fromGraphql ?? false) : kindOfNumber(number)
  const message = cleanText(text, details.secrets) || `HTTP ${status}`
  return new BackendError(kind, message, { status: number ?? status, retryAfterMs: details.retryAfterMs ?? null })
}

/** A longer Retry-After is taken for a mistake that must not park the worker for days. */
const LONGEST_RETRY_AFTER_MS = 3_600_000

/** Retry-After as milliseconds from now, at most an hour: it is either seconds or a date. null if absent or nonsense. */
export function parseRetryAfter(value: string | null | undefined, nowEpochMs: number): number | null {
  if (value === null || value === undefined || value.trim() === '') return null
  const inMs = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowEpochMs
  return Number.isNaN(inMs) ? null : Math.min(LONGEST_RETRY_AFTER_MS, Math.max(0, inMs))
}

/** The text of a body that is no GraphQL answer: what common servers call it in JSON, or short plain text. */
export function textOfBody(body: string, contentType: string | null): string {
  if (/json/i.test(contentType ?? '')) {
    try {
      const parsed: unknown = JSON.parse(body)
      if (typeof parsed === 'string') return parsed
      if (typeof parsed !== 'object' || parsed === null) return ''
      const fields = parsed as Record<string, unknown>
      const text = [fields['detail'], fields['message'], fields['error']].find(field => typeof field === 'string')
      return typeof text === 'string' ? text : ''
    } catch {
      return ''
    }
  }
  return /^text\/plain/i.test(contentType ?? '') ? body : ''
}

function classifyResponse(error: ClientError, secrets: readonly string[], nowEpochMs: number): BackendError {
  const { status, headers, body } = error.response
  const errors: unknown = error.response.errors
  const messages = (Array.isArray(errors) ? errors : [])
    .map((entry: unknown) => (entry as { message?: unknown } | null)?.message)
    .filter(message => typeof message === 'string')
  const text = messages.find(message => leadingNumber(message) !== null) ?? messages[0]
  const retryAfterMs = parseRetryAfter(headers.get('retry-after'), nowEpochMs)
  return classifyHttpRefusal(status, text ?? textOfBody(body, headers.get('content-type')), {
    fromGraphql: text !== undefined,
    retryAfterMs,
    secrets,
  })
}

/** The system's name for a network failure, such as ECONNREFUSED, from the error or whatever caused it. */
export function networkCode(error: unknown, depth = 0): string | null {
  if (typeof error !== 'object' || error === null || depth > 5) return null
  const { code, cause, errors } = error as { code?: unknown; cause?: unknown; errors?: unknown }
  if (typeof code === 'string' && /^[A-Z][A-Z0-9_]{2,60}$/.test(code)) return code
  return networkCode(cause, depth + 1) ?? (Array.isArray(errors) ? networkCode(errors[0], depth + 1) : null)
}

/**
 * Makes a BackendError of whatever was thrown on this edge. `secrets` are cut out of the backend's text, should it echo
 * them.
 */
export function classifyBackendError(
  error: unknown,
  secrets: readonly string[] = [],
  nowEpochMs = Date.now(),
): BackendError {
  if (error instanceof BackendError) return error
  if (error instanceof ClientError) return classifyResponse(error, secrets, nowEpochMs)
  if (error instanceof TimeLimitError) return new BackendError('retry', error.message, { timedOut: true })
  const code = networkCode(error)
  if (code !== null) return new BackendError('retry', `network: ${code}`)
  const name = error instanceof Error ? error.name : typeof error
  if (name === 'AbortError') return new BackendError('retry', 'aborted')
  // Foreign messages may hold anything, so only the kind of error is told.
  return new BackendError('retry', `no usable answer (${cleanText(name, secrets)})`)
}

const ALREADY_ANSWERED = [
  /already (has|had|have|got|contains) (a |an |its |the )?(result|answer)/i,
  /already (been )?(answered|posted)/i,
  /(result|answer) (has |was |is )?already (been )?(exist|posted|set|there|given|received|present|recorded|submitted|stored)/i,
  /duplicate (result|answer)/i,
]

/** A 4xx that says that the call has its answer: what was to be reached is reached. docs/protocol.md, "Errors". */
export function isAlreadyAnswered(error: BackendError): boolean {
  const status = error.status ?? 0
  if (status < 400 || status > 499 || error.kind === 'never') return false
  return ALREADY_ANSWERED.some(pattern => pattern.test(error.message))
}

/** Asking a person twice is as good as once. docs/protocol.md, "Asking a person". */
export function isAlreadyRequested(error: BackendError): boolean {
  return /confirmation already requested/i.test(error.message)
}
