import type { Logger } from 'pino'
import { type BackendError, classifyBackendError, isAlreadyAnswered } from './errors.js'
import { fullJitterMs, sleep as realSleep, type Sleep } from './waiting.js'

const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 30_000
/** A backend that names a longer Retry-After than we have time for would otherwise never get the answer. */
const LONGEST_RETRY_AFTER_MS = 60_000

export type Delivery =
  | { readonly delivered: true; readonly alreadyAnswered: boolean; readonly attempts: number }
  /** refused: repeating is useless (error.kind is model, final or never). gave_up: time ran out, try again later. */
  | {
      readonly delivered: false
      readonly why: 'refused' | 'gave_up'
      readonly error: BackendError
      readonly attempts: number
    }
  | { readonly delivered: false; readonly why: 'aborted'; readonly attempts: number }

export interface DeliverOptions {
  /** With the call's id in its bindings. */
  readonly log: Logger
  readonly signal: AbortSignal
  /** From the first attempt until the last begins. */
  readonly giveUpAfterMs: number
  /** How it waits where the backend has not said how long, default as `sleep`; may be over before. */
  readonly rest?: Sleep
  /** Whether the trouble is known: then it is told at debug level only. */
  readonly isKnownTrouble?: () => boolean
  readonly random?: () => number
  readonly sleep?: Sleep
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/**
 * Repeats `attempt` until the backend has taken it, refuses it for good, or time runs out. Waits with full jitter from 1 s
 * doubling to 30 s, not less than the backend's Retry-After up to 60 s, and not beyond the end, where the last attempt is made. A
 * refused key (auth) is retried as well: the HTTP side has thrown its cached token away by then. Never throws.
 */
export async function deliverWithRetry(
  attempt: (signal: AbortSignal) => Promise<void>,
  options: DeliverOptions,
): Promise<Delivery> {
  const { log, signal, giveUpAfterMs } = options
  const { random = Math.random, sleep = realSleep, now = () => performance.now() } = options
  const { rest = sleep, isKnownTrouble = () => false } = options
  const startedMs = now()

  for (let attempts = 1; ; attempts += 1) {
    if (signal.aborted) return { delivered: false, why: 'aborted', attempts: attempts - 1 }
    const error = await attempt(signal).then(
      () => null,
      (thrown: unknown) => classifyBackendError(thrown),
    )
    if (error === null) {
      if (attempts > 1) log.info({ attempts, ms: now() - startedMs }, 'delivered after retries')
      return { delivered: true, alreadyAnswered: false, attempts }
    }
    if (isAlreadyAnswered(error)) return { delivered: true, alreadyAnswered: true, attempts }
    switch (error.kind) {
      case 'model':
      case 'final':
      case 'never':
        return { delivered: false, why: 'refused', error, attempts }
      case 'auth':
      case 'retry':
        break
    }
    if (signal.aborted) return { delivered: false, why: 'aborted', attempts }
    const leftMs = giveUpAfterMs - (now() - startedMs)
    if (leftMs <= 0) return { delivered: false, why: 'gave_up', error, attempts }
    const askedMs = Math.min(error.retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS, leftMs)
    const restMs = Math.min(fullJitterMs(attempts, FIRST_DELAY_MS, LONGEST_DELAY_MS, random), leftMs) - askedMs
    const level = isKnownTrouble() ? 'debug' : 'warn'
    if (attempts === 1) log[level]({ reason: error.message, kind: error.kind }, 'delivery failed, will be retried')
    if (askedMs > 0) await sleep(askedMs, signal)
    if (restMs > 0) await rest(restMs, signal)
  }
}
