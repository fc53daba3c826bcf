/** `work` took longer than it may. */
export class TimeLimitError extends Error {
  readonly limitMs: number

  constructor(limitMs: number) {
    super(`no answer within ${Number((limitMs / 1_000).toFixed(1))} s`)
    this.name = 'TimeLimitError'
    this.limitMs = limitMs
  }
}

/** Runs `work`, which tells of its steps: no step may take longer than `limitMs`, all together may. Rejects with TimeLimitError. */
export async function withStepLimit<T>(limitMs: number, work: (onStep: () => void) => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeLimitError(limitMs)), limitMs)
  })
  try {
    return await Promise.race([work(() => timer?.refresh()), expired])
  } finally {
    clearTimeout(timer)
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
