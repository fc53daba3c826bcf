/** Beyond, calls wait before they are made, so that few results meet the bound below. */
const CALM_BYTES = 32 * 1024 * 1024
/** With those of calls that were under way by then. Bounds what one run can pile up in the worker. */
const MOST_BYTES = 96 * 1024 * 1024

/** The answers that the code of one run has not read yet. */
export class UnreadAnswers {
  #bytes = 0
  #isEnded = false
  readonly #waiting: (() => void)[] = []

  hasRoomFor(bytes: number): boolean {
    return this.#bytes + bytes <= MOST_BYTES
  }

  add(bytes: number): void {
    this.#bytes += bytes
  }

  read(bytes: number): void {
    this.#bytes -= bytes
    if (this.#bytes <= CALM_BYTES) this.#goOn()
  }

  /** Resolves when there are few, or the run has ended. */
  async areFew(): Promise<void> {
    while (this.#bytes > CALM_BYTES && !this.#isEnded) {
      await new Promise<void>(resolve => this.#waiting.push(resolve))
    }
  }

  end(): void {
    this.#isEnded = true
    this.#goOn()
  }

  #goOn(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
