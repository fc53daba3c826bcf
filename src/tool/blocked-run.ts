/** For code that calls a tool which nobody has approved to end by the exception that tells it so. */
const GRACE_MS = 500
/** What a tool that was called before has not answered by then is not known when the approved code runs again. */
const ANSWERS_WITHIN_MS = 30_000

/**
 * Ends a run that has called a tool which nobody has approved, whatever the code makes of it: half a second after `answered`, the
 * answers to its other calls, which it needs when it runs again once it is approved.
 */
export class BlockedRun {
  readonly #end: () => void
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor(end: () => void) {
    this.#end = end
  }

  begin(answered: Promise<unknown>): void {
    this.#timer = setTimeout(this.#end, ANSWERS_WITHIN_MS)
    void answered.then(() => {
      if (this.#isOver) return
      clearTimeout(this.#timer)
      this.#timer = setTimeout(this.#end, GRACE_MS)
    })
  }

  /** The run is over. */
  over(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
  }
}
