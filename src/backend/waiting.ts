/** Waiting that can be injected, aborted and bounded. */

/** Resolves after `ms`, or at once when the signal aborts; never rejects, so that callers look at the signal. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>

/** Node fires a timer beyond 2^31-1 ms at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const sleep: Sleep = (ms, signal) =>
  new Promise(resolve => {
    if (signal.aborted) return resolve()
    const finish = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, Math.min(ms, LONGEST_TIMER_MS))
    signal.addEventListener('abort', finish, { once: true })
  })

/**
 * Full jitter: anywhere between nothing and `firstMs` doubled with each failure, up to `capMs`. Clients that lost the same
 * backend at the same moment come back spread over the whole span. `failures` counts from 1.
 */
export function fullJitterMs(failures: number, firstMs: number, capMs: number, random: () => number): number {
  return random() * Math.min(capMs, firstMs * 2 ** Math.min(failures - 1, 30))
}

/** `work` took longer than it may. */
export class TimeLimitError extends Error {
  readonly limitMs: number

  constructor(limitMs: number) {
    super(`no answer within ${limitMs / 1000} s`)
    this.name = 'TimeLimitError'
    this.limitMs = limitMs
  }
}

/**
 * Runs `work` with a signal that aborts with the caller's or after `limitMs`, and settles then even if `work` does not
 * listen. Rejects with TimeLimitError or the caller's reason. Not AbortSignal.any: on a signal that lives as long as the
 * worker it keeps one entry per call on some Node 20 releases.
 */
export async function withTimeLimit<T>(
  limitMs: number,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const controller = new AbortController()
  const forward = () => controller.abort(signal.reason)
  signal.addEventListener('abort', forward, { once: true })
  const timer = setTimeout(() => controller.abort(new TimeLimitError(limitMs)), limitMs)
  const aborted = new Promise<never>((_, reject) => {
    controller.signal.addEventListener('abort', () => reject(controller.signal.reason), { once: true })
  })
  try {
    return await Promise.race([work(controller.signal), aborted])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', forward)
  }
}
