const FIRST_MS = 1_000
const LONGEST_MS = 60_000
/** What was well for so long starts from the shortest pause again. */
const HEALTHY_MS = 60_000

/** Pauses between the starts of one server: full jitter within 1 s, doubled with each failure up to 60 s. */
export class Backoff {
  readonly #random: () => number
  #failures = 0

  constructor(random: () => number) {
    this.#random = random
  }

  /** The server failed after having been up for `upMs`, 0: it did not come up. Returns the pause. */
  failed(upMs: number): number {
    if (upMs >= HEALTHY_MS) this.#failures = 0
    this.#failures += 1
    return this.#random() * Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#failures - 1, 10))
  }
}
