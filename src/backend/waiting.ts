/** Waiting that can be injected and aborted. */

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
