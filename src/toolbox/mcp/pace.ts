const BYTES_PER_SECOND = 5 * 1024 * 1024
const BURST_BYTES = 2 * 1024 * 1024
/** What handling any message costs, in bytes of parsing. */
const MESSAGE_BYTES = 512
/** The same for a line that is empty, or says nothing. */
const NOTHING_BYTES = 64

/**
 * How fast what nobody asked for is read from one server: notifications, garbage, answers to requests that were given up. Beyond
 * 10 000 messages or 5 MiB a second its stream stands still for a while, so that a flood costs a few hundredths of a core
 * and slows down only who sends it. Answers are never counted.
 */
export class Pace {
  readonly #now: () => number
  #debtBytes = 0
  #atMs: number

  constructor(now: () => number) {
    this.#now = now
    this.#atMs = now()
  }

  unsolicited(bytes: number): void {
    this.#decay()
    this.#debtBytes += Math.max(bytes, MESSAGE_BYTES)
  }

  /** Bytes of a line that is only thrown away: looking for its end is all that it costs. */
  discarded(bytes: number): void {
    this.#decay()
    this.#debtBytes += bytes / 8
  }

  nothing(): void {
    this.#decay()
    this.#debtBytes += NOTHING_BYTES
  }

  /** How long not to read, 0: go on. */
  get pauseMs(): number {
    this.#decay()
    const over = this.#debtBytes - BURST_BYTES
    return over <= 0 ? 0 : Math.ceil((over / BYTES_PER_SECOND) * 1_000)
  }

  #decay(): void {
    const nowMs = this.#now()
    this.#debtBytes = Math.max(0, this.#debtBytes - ((nowMs - this.#atMs) / 1_000) * BYTES_PER_SECOND)
    this.#atMs = nowMs
  }
}
