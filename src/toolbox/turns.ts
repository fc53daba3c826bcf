/** What one run's requests may take of the event loop at a time; then others have their turn. */
const SLICE_MS = 5
/** What they may take in all before they are slowed down, and the share of all time that they then have. */
const BURST_MS = 2_000
const SHARE = 0.1

/** A piece of work. Neither throws. */
export interface Turn {
  work(): void
  /** Instead, where the run is over before it came to be its turn. */
  left(): void
}

/**
 * Works on the requests of one run, in the order in which they came, in small pieces of the event loop's time: a run that asks
 * without end has a tenth of the worker's time in the long run, and no more. None of it gets lost or is refused.
 */
export class Turns {
  readonly #waiting: Turn[] = []
  #isFinished = false
  #sliceMs = 0
  #next: NodeJS.Immediate | undefined
  #rest: NodeJS.Timeout | undefined
  #leftMs = BURST_MS
  #countedAt = performance.now()

  /** Its work is done now, where it does not have to wait. */
  add(turn: Turn): void {
    if (this.#isFinished) {
      turn.work()
      return
    }
    this.#waiting.push(turn)
    this.#run()
  }

  /** Nothing waits any more. */
  finish(): void {
    this.#isFinished = true
    clearImmediate(this.#next)
    clearTimeout(this.#rest)
    for (const turn of this.#waiting.splice(0)) turn.left()
  }

  #run(): void {
    while (!this.#isFinished && this.#rest === undefined && this.#sliceMs < SLICE_MS) {
      const startedMs = performance.now()
      this.#leftMs = Math.min(BURST_MS, this.#leftMs + (startedMs - this.#countedAt) * SHARE)
      this.#countedAt = startedMs
      if (this.#waiting.length === 0) return
      if (this.#leftMs <= 0) {
        this.#pause()
        return
      }
      const turn = this.#waiting.shift()
      this.#next ??= setImmediate(() => {
        this.#next = undefined
        this.#sliceMs = 0
        this.#run()
      })
      turn?.work()
      const tookMs = performance.now() - startedMs
      this.#sliceMs += tookMs
      this.#leftMs -= tookMs
    }
  }

  /** Until it may take one slice again. */
  #pause(): void {
    this.#rest = setTimeout(
      () => {
        this.#rest = undefined
        this.#run()
      },
      (SLICE_MS - this.#leftMs) / SHARE,
    )
  }
}
