import type { Logger } from 'pino'

export interface DiskPatience {
  /** So many calls are kept in memory alone while the disk refuses; beyond, no more are taken. */
  readonly unsavedMost: number
  /** Refusing for longer, no more calls are taken either. */
  readonly refusingMostMs: number
  readonly tryAgainMs: number
}

const PATIENCE: DiskPatience = { unsavedMost: 200, refusingMostMs: 60_000, tryAgainMs: 5_000 }

export interface DiskHealthOptions {
  readonly log: Logger
  /** How many calls are in memory alone. */
  unsaved(): number
  /** Writes what is not written, or anything, and says so with wrote() or refused(). Never rejects. */
  tryAgain(): Promise<void>
  /** Too much or too long in memory alone, or (null) well again. */
  onHealth(reason: string | null): void
  readonly patience?: Partial<DiskPatience>
}

/** A disk that is full or read-only: told once, tried again until it is well, and too much for the worker after a while. */
export class DiskHealth {
  readonly #options: DiskHealthOptions
  readonly #patience: DiskPatience
  #refusingSince: number | null = null
  #reason = ''
  #told = false
  #timer: NodeJS.Timeout | null = null
  #closed = false

  constructor(options: DiskHealthOptions) {
    this.#options = options
    this.#patience = { ...PATIENCE, ...options.patience }
  }

  /** Since a write was refused, and until all is written. */
  get isRefusing(): boolean {
    return this.#refusingSince !== null
  }

  wrote(): void {
    if (this.#refusingSince === null || this.#options.unsaved() > 0) return
    this.#refusingSince = null
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#options.log.info('the journal can be written again')
    if (this.#told) this.#options.onHealth(null)
    this.#told = false
  }

  refused(error: unknown): void {
    if (this.#closed) return
    this.#reason = (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : String(error))
    if (this.#refusingSince === null) {
      this.#refusingSince = performance.now()
      const { unsavedMost, refusingMostMs } = this.#patience
      this.#options.log.error(
        { reason: this.#reason, unsavedMost, refusingMostMs },
        'the journal can not be written: calls are kept in memory only, and kill -9 would lose them',
      )
    }
    this.#tryLater()
    this.judge()
  }

  /** Whether it has been too much or too long by now. */
  judge(): void {
    if (this.#refusingSince === null || this.#told) return
    const isTooLong = performance.now() - this.#refusingSince > this.#patience.refusingMostMs
    if (!isTooLong && this.#options.unsaved() <= this.#patience.unsavedMost) return
    this.#told = true
    this.#options.onHealth(`can not be written: ${this.#reason}`)
  }

  #tryLater(): void {
    this.#timer ??= setTimeout(async () => {
      this.#timer = null
      await this.#options.tryAgain()
      if (this.#refusingSince !== null && !this.#closed) this.#tryLater()
    }, this.#patience.tryAgainMs)
    this.#timer.unref() // a worker that does not come up, or has stopped, must not be held by it
  }

  close(): void {
    this.#closed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
  }
}
