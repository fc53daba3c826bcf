/** The calls that are being handled: to cancel them, and to wait until they are done. */
export class RunningCalls {
  readonly #calls = new Set<{
    readonly fcallId: string
    readonly cancel: AbortController
    readonly done: Promise<void>
  }>()
  #unanswered = 0

  /** `handle` gets the call's cancel signal and resolves with whether the call is answered; must not reject. */
  add(fcallId: string, handle: (cancel: AbortSignal) => Promise<boolean>): void {
    const cancel = new AbortController()
    const done = handle(cancel.signal).then(answered => {
      if (!answered) this.#unanswered++
      this.#calls.delete(call)
    })
    const call = { fcallId, cancel, done }
    this.#calls.add(call)
  }

  /** How many ended without an answer that the backend has taken. */
  get unanswered(): number {
    return this.#unanswered
  }

  /**
   * Aborts every handling of the call; false if there is none. One call can be handled more than once: it is delivered anew
   * with a person's word while its request for that is still on its way.
   */
  cancel(fcallId: string, reason: unknown): boolean {
    const found = [...this.#calls].filter(call => call.fcallId === fcallId)
    for (const call of found) call.cancel.abort(reason)
    return found.length > 0
  }

  cancelAll(reason: unknown): void {
    for (const call of this.#calls) call.cancel.abort(reason)
  }

  /** Resolves with true once all that are here now are done, with false after `ms`. */
  async allDoneWithin(ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined
    const expired = new Promise<boolean>(resolve => {
      timer = setTimeout(() => resolve(false), ms)
    })
    const all = Promise.all([...this.#calls].map(call => call.done)).then(() => true)
    try {
      return await Promise.race([all, expired])
    } finally {
      clearTimeout(timer)
    }
  }
}
