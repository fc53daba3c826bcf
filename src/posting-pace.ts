import type { Logger } from 'pino'
import { BackendError, classifyBackendError } from './backend/errors.js'
import { fullJitterMs, type Sleep } from './backend/waiting.js'

/** As many as there are connections: of more the time limits would run while they wait for one. */
const AT_ONCE = 64
/** So many failures in a row, of whichever answers, are the backend's and not an answer's. */
const FAILURES_MOST = 3
const FIRST_PAUSE_MS = 1_000
/** One attempt each 2 s on average costs a sick backend nothing, and its recovery is noticed within 4 s. */
const LONGEST_PAUSE_MS = 4_000
/** While the websocket is away too each attempt takes a connection, besides its own; it tells when the backend is back. */
const LONGEST_PAUSE_AWAY_MS = 15_000
/** As in deliver.ts. */
const LONGEST_RETRY_AFTER_MS = 60_000
const TELL_EVERY_MS = 60_000

export interface PostingPaceOptions {
  readonly log: Logger
  /** One got through: all may go. */
  onOpen(): void
  readonly random?: () => number
}

/**
 * When answers may be posted, one pace for all, as it is one backend that takes them:
 *
 *     trying ─── one got through ──▶ open ─── three failures in a row, or the websocket is lost ──▶ trying
 *
 * open: up to 64 at once. trying: one at a time after a pause with full jitter, whoever has waited longest. Begins with trying.
 */
export class PostingPace {
  readonly #options: PostingPaceOptions
  readonly #line = new Set<() => void>()
  readonly #resting = new Set<() => void>()
  #isOpen = false
  #isAway = false
  #underWay = 0
  /** In a row. */
  #failures = 0
  /** Since it was open. */
  #pauses = 0
  #notBeforeMs = Number.NEGATIVE_INFINITY
  /** By Retry-After. */
  #askedUntilMs = Number.NEGATIVE_INFINITY
  #heldUp: { readonly sinceMs: number; failed: number; tellAtMs: number } | null = null
  #timer: NodeJS.Timeout | undefined

  constructor(options: PostingPaceOptions) {
    this.#options = options
  }

  /** For how long the backend has taken nothing; null: it has, or has not failed for long enough to say so. */
  get heldUpMs(): number | null {
    return this.#heldUp === null ? null : performance.now() - this.#heldUp.sinceMs
  }

  /** Does `work` when its turn has come, however long that takes. `leave` ends the waiting, not the work. Errors: its own; BackendError. */
  async go<T>(work: () => Promise<T>, leave: AbortSignal): Promise<T> {
    await this.#turn(leave)
    try {
      const result = await work()
      this.#succeeded()
      return result
    } catch (error) {
      if (!leave.aborted) this.#failed(classifyBackendError(error))
      throw error
    } finally {
      this.#underWay--
      this.#next()
    }
  }

  /** The pause of one answer between its own attempts, over as soon as the backend takes others again. */
  readonly rest: Sleep = (ms, signal) =>
    new Promise(resolve => {
      if (signal.aborted) return resolve()
      const finish = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', finish)
        this.#resting.delete(finish)
        resolve()
      }
      const timer = setTimeout(finish, ms)
      signal.addEventListener('abort', finish, { once: true })
      this.#resting.add(finish)
    })

  /** Whether the websocket is down, and not by our own wish. */
  setAway(isAway: boolean): void {
    if (isAway === this.#isAway) return
    this.#isAway = isAway
    if (isAway !== this.#isOpen) return
    this.#isOpen = false
    this.#pauses = 0
    this.#notBeforeMs = Number.NEGATIVE_INFINITY
    if (!isAway) this.#wake()
    this.#next()
  }

  #turn(leave: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = () => {
        leave.removeEventListener('abort', quit)
        this.#line.delete(go)
        this.#underWay++
        resolve()
      }
      const quit = () => {
        this.#line.delete(go)
        this.#next()
        reject(new BackendError('retry', 'the worker is stopping'))
      }
      if (leave.aborted) return quit()
      leave.addEventListener('abort', quit, { once: true })
      this.#line.add(go)
      this.#next()
    })
  }

  /** Lets go who may. */
  #next(): void {
    clearTimeout(this.#timer)
    for (const go of this.#line) {
      if (this.#underWay >= AT_ONCE) return
      if (!this.#isOpen) {
        const waitMs = Math.max(this.#notBeforeMs, this.#askedUntilMs) - performance.now()
        if (waitMs > 0) {
          this.#timer = setTimeout(() => this.#next(), Math.ceil(waitMs))
          return
        }
        this.#pause()
      }
      go()
    }
  }

  #pause(): void {
    const { random = Math.random } = this.#options
    const longestMs = this.#isAway ? LONGEST_PAUSE_AWAY_MS : LONGEST_PAUSE_MS
    this.#pauses++
    this.#notBeforeMs = performance.now() + fullJitterMs(this.#pauses, FIRST_PAUSE_MS, longestMs, random)
  }

  #succeeded(): void {
    const { log, onOpen } = this.#options
    this.#failures = 0
    this.#askedUntilMs = Number.NEGATIVE_INFINITY
    if (this.#heldUp !== null) {
      const { failed } = this.#heldUp
      log.info({ heldUpMs: Math.round(this.heldUpMs ?? 0), failed }, 'the backend takes answers again')
    }
    this.#heldUp = null
    if (this.#isOpen) return
    this.#isOpen = true
    this.#wake()
    onOpen()
  }

  #failed(error: BackendError): void {
    // It has looked at this one, and so takes others.
    if (error.kind === 'model' || error.kind === 'final') {
      this.#succeeded()
      return
    }
    this.#failures++
    const askedMs = Math.min(error.retryAfterMs ?? 0, LONGEST_RETRY_AFTER_MS)
    if (askedMs > 0) this.#askedUntilMs = performance.now() + askedMs
    if (this.#failures < FAILURES_MOST) return
    if (this.#isOpen) {
      this.#isOpen = false
      this.#pauses = 0
      this.#pause()
    }
    this.#tell(error)
  }

  #tell({ message: reason, kind }: BackendError): void {
    const { log } = this.#options
    const now = performance.now()
    if (this.#heldUp === null) {
      this.#heldUp = { sinceMs: now, failed: this.#failures, tellAtMs: now + TELL_EVERY_MS }
      log.warn({ reason, kind }, 'the backend takes no answers for now')
      return
    }
    this.#heldUp.failed++
    if (now < this.#heldUp.tellAtMs) return
    this.#heldUp.tellAtMs = now + TELL_EVERY_MS
    const { failed, sinceMs } = this.#heldUp
    const heldUpMs = Math.round(now - sinceMs)
    log.warn({ reason, kind, heldUpMs, failed, waiting: this.#line.size }, 'the backend still takes no answers')
  }

  #wake(): void {
    for (const finish of this.#resting) finish()
  }
}
