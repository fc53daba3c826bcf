/** Answers that are being posted, in memory; a few more are while those on disk have their turn. */
const POSTING_MOST_BYTES = 64 * 1024 * 1024

export interface PostingRoomOptions {
  /** Default 64 MiB. */
  readonly mostBytes?: number
  /** Somebody was turned away, and half of the room is free again. */
  onRoom(): void
  /** More is held than fits, as nothing else can keep it, with a phrase for operators; or (null) half of the room is free again. */
  onFull(reason: string | null): void
}

/** How many bytes of answers are held in memory at a time until the backend has taken them. */
export class PostingRoom {
  readonly #options: PostingRoomOptions
  readonly #mostBytes: number
  #bytes = 0
  #turnedAway = false
  #full = false

  constructor(options: PostingRoomOptions) {
    this.#options = options
    this.#mostBytes = options.mostBytes ?? POSTING_MOST_BYTES
  }

  /** False: there is no room; one alone always has it. */
  take(bytes: number): boolean {
    const fits = this.#bytes === 0 || this.#bytes + bytes <= this.#mostBytes
    if (fits) this.#bytes += bytes
    else this.#turnedAway = true
    return fits
  }

  /** Takes it although there is no room. */
  squeeze(bytes: number): void {
    this.#bytes += bytes
    if (this.#full) return
    this.#full = true
    const mib = Math.round(this.#mostBytes / 1024 / 1024)
    this.#options.onFull(`${mib} MiB of answers wait in memory alone for the backend to take them`)
  }

  give(bytes: number): void {
    this.#bytes -= bytes
    if (this.#bytes > this.#mostBytes / 2) return
    if (this.#full) {
      this.#full = false
      this.#options.onFull(null)
    }
    if (this.#turnedAway) {
      this.#turnedAway = false
      this.#options.onRoom()
    }
  }
}
