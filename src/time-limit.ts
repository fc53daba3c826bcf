/** `work` took longer than it may. */
export class TimeLimitError extends Error {
  readonly limitMs: number

  constructor(limitMs: number) {
    super(`no answer within ${Number((limitMs / 1_000).toFixed(1))} s`)
    this.name = 'TimeLimitError'
    this.limitMs = limitMs
  }
}

/**
 * Runs `work` with a signal that aborts with the caller's (null: there is none) or after `limitMs`, and settles then even if `work` does
 * not listen. Rejects with TimeLimitError or the caller's reason. Not AbortSignal.any: on a signal that lives as long as the
 * worker it keeps one entry per call on some Node 20 releases.
 */
export async function withTimeLimit<T>(
  limitMs: number,
  signal: AbortSignal | null,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted()
  const controller = new AbortController()
  const forward = () => controller.abort(signal?.reason)
  signal?.addEventListener('abort', forward, { once: true })
  const timer = setTimeout(() => controller.abort(new TimeLimitError(limitMs)), limitMs)
  const aborted = new Promise<never>((_, reject) => {
    controller.signal.addEventListener('abort', () => reject(controller.signal.reason), { once: true })
  })
  try {
    return await Promise.race([work(controller.signal), aborted])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', forward)
  }
}
