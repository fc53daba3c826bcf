import type { BackendEvent } from './records.js'

export interface Events {
  emit(event: BackendEvent): void
  /** Listeners run in the order in which they came; the returned function takes this one off again. */
  onEvent(listener: (event: BackendEvent) => void): () => void
  /**
   * Resolves once `predicate` holds. It is asked again after each event and every 10 ms, since it may look at things that make
   * no event here. Rejects with `describe()` in the message after `timeoutMs`, and with the signal's reason when that aborts.
   */
  waitFor(predicate: () => boolean, timeoutMs: number, describe?: () => string, signal?: AbortSignal): Promise<void>
}

export function createEvents(): Events {
  const listeners = new Set<(event: BackendEvent) => void>()

  function onEvent(listener: (event: BackendEvent) => void): () => void {
    // Wrapped, so that the same function given twice is two listeners.
    const own = (event: BackendEvent): void => listener(event)
    listeners.add(own)
    return () => {
      listeners.delete(own)
    }
  }

  function waitFor(
    predicate: () => boolean,
    timeoutMs: number,
    describe?: () => string,
    signal?: AbortSignal,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const finish = (error: Error | null): void => {
        clearInterval(poll)
        clearTimeout(limit)
        signal?.removeEventListener('abort', abort)
        forget()
        if (error === null) resolve()
        else reject(error)
      }
      const abort = (): void => {
        const reason: unknown = signal?.reason
        finish(reason instanceof Error ? reason : new Error(String(reason)))
      }
      const check = (): void => {
        try {
          if (predicate()) finish(null)
        } catch (error) {
          finish(error instanceof Error ? error : new Error(String(error)))
        }
      }
      const forget = onEvent(check)
      const poll = setInterval(check, 10)
      const limit = setTimeout(() => {
        finish(new Error(`${describe?.() ?? 'what was waited for did not happen'} within ${timeoutMs} ms`))
      }, timeoutMs)
      signal?.addEventListener('abort', abort, { once: true })
      check()
      if (signal?.aborted === true) abort()
    })
  }

  return {
    emit(event) {
      for (const listener of [...listeners]) listener(event)
    },
    onEvent,
    waitFor,
  }
}
