/** Answers that the backend has not taken, on disk and in memory, and their bytes: beyond, what runs would run for nobody. */
const ANSWERS_MOST = 2_000
const BYTES_MOST = 256 * 1024 * 1024
/** The same where they are fewer, but for so long none was taken. Of this many not each is at fault itself. */
const HELD_UP_MOST_MS = 5 * 60_000
const HELD_UP_ANSWERS = 20
const LOOK_EVERY_MS = 1_000

export interface OutboxWatchOptions {
  outbox(): { readonly answers: number; readonly bytes: number }
  /** For how long the backend has taken no answer; null: it does. */
  heldUpMs(): number | null
  /** Default 2 000. */
  readonly answersMost?: number
  /** It is over a bound, with a phrase for operators; or (null) half of it is gone. */
  onFull(reason: string | null): void
}

/** Bounds what is left unposted while calls come in and the backend takes no answers. */
export class OutboxWatch {
  readonly #options: OutboxWatchOptions
  readonly #timer: NodeJS.Timeout
  #isFull = false

  constructor(options: OutboxWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const { outbox, heldUpMs, answersMost = ANSWERS_MOST, onFull } = this.#options
    const { answers, bytes } = outbox()
    const share = this.#isFull ? 1 / 2 : 1
    const isTooMuch = answers > answersMost * share || bytes > BYTES_MOST * share
    const isTooLong = (heldUpMs() ?? 0) > HELD_UP_MOST_MS && answers > HELD_UP_ANSWERS
    const isFull = isTooMuch || isTooLong
    if (isFull === this.#isFull) return
    this.#isFull = isFull
    const mib = Math.ceil(bytes / 1024 / 1024)
    onFull(isFull ? `${answers} answers (${mib} MiB) wait for the backend to take them` : null)
  }
}
