/** The backend gives a call up after 10 minutes, so it asks for none that was answered longer ago than this. */
export const KEPT_MS = 15 * 60_000
/** 110 a second in that time; 120 to 165 bytes each. */
const NAMES_MOST = 100_000
/** The clock of the backend, and ours. */
const SKEW_MS = 60_000

/** Names of calls that are over, for 15 minutes. Beyond `most` the oldest go, and it can be said of which calls that leaves in doubt. */
export class RecentNames {
  readonly #most: number
  /** When it was over, in milliseconds since the epoch; the oldest first. */
  readonly #at = new Map<string, number>()
  #forgottenAt = 0

  constructor(most = NAMES_MOST) {
    this.#most = most
  }

  get size(): number {
    return this.#at.size
  }

  /** When the last of those was over that went for their number alone. */
  get forgottenAt(): number {
    return this.#forgottenAt
  }

  has(name: string): boolean {
    return this.#at.has(name)
  }

  entries(): IterableIterator<[name: string, at: number]> {
    return this.#at.entries()
  }

  add(name: string, at: number): void {
    this.#at.delete(name)
    this.#at.set(name, at)
    for (const [oldest, oldestAt] of this.#at) {
      if (this.#at.size <= this.#most) break
      this.#at.delete(oldest)
      this.forget(oldestAt)
    }
  }

  /** Some that were over then are not here. */
  forget(at: number): void {
    this.#forgottenAt = Math.max(this.#forgottenAt, at)
  }

  prune(now: number): void {
    for (const [name, at] of this.#at) {
      if (at >= now - KEPT_MS) break
      this.#at.delete(name)
    }
  }

  /** Whether a call that was made then, and whose name is not here, may have been over all the same. */
  mayHaveForgotten(createdAt: number, now: number): boolean {
    return this.#forgottenAt >= now - KEPT_MS && createdAt <= this.#forgottenAt + SKEW_MS
  }
}
