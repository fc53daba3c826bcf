import pLimit from 'p-limit'

/** What takes longer, as on a network share that has gone, may take for ever. */
const HANGS_AFTER_MS = 10_000

/**
 * What is done on the disk of a store, one after the other: a disk that hangs keeps the thread of an operation, Node has four of them, the
 * journal may lose two, and without the last one no name is looked up and no ticket read.
 */
export class Disk {
  readonly #limit = pLimit(1)
  readonly #hangsAfterMs: number
  #startedMs: number | null = null

  constructor(hangsAfterMs = HANGS_AFTER_MS) {
    this.#hangsAfterMs = hangsAfterMs
  }

  /** `work` is not to do two things on the disk at the same time. Rejects as it does. */
  run<T>(work: () => Promise<T>): Promise<T> {
    return this.#limit(async () => {
      this.#startedMs = performance.now()
      try {
        return await work()
      } finally {
        this.#startedMs = null
      }
    })
  }

  /** Whether the disk has not answered for so long that nothing more should wait for it. */
  get hangs(): boolean {
    return this.#startedMs !== null && performance.now() - this.#startedMs > this.#hangsAfterMs
  }
}
