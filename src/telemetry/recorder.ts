import type { Logger } from 'pino'
import { Metrics } from './metrics.js'
import type { HandledCall, Telemetry, WorkerIdentity, WorkerStatus } from './status.js'

const CALLS_KEPT = 50
const MINUTE_MS = 60_000

export interface RecorderOptions {
  /** null: there is no worker yet. */
  readonly status: () => WorkerStatus | null
  readonly log: Logger
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/** Remembers what has happened, as metrics and for the page, and logs each minute how busy the slots were. */
export class Recorder implements Telemetry {
  readonly #metrics: Metrics
  readonly #status: () => WorkerStatus | null
  readonly #log: Logger
  readonly #now: () => number
  readonly #calls: HandledCall[] = []
  /** When the calls of the last minute ended. */
  #ends: number[] = []
  #timer: NodeJS.Timeout
  /** Since the last line: milliseconds with no slot in use, and with all. */
  #load = { since: 0, changed: 0, idleMs: 0, fullMs: 0, was: 'idle' as 'idle' | 'full' | 'between' }

  constructor({ status, log, now = () => performance.now() }: RecorderOptions) {
    this.#metrics = new Metrics(status)
    this.#status = status
    this.#log = log
    this.#now = now
    this.#load.since = this.#load.changed = now()
    this.#timer = setInterval(() => this.#logLoad(), MINUTE_MS)
    this.#timer.unref()
  }

  /** Once it is known what the worker runs on. */
  identify(identity: WorkerIdentity): void {
    this.#metrics.identify(identity)
  }

  callHandled(call: HandledCall): void {
    this.#calls.unshift(call)
    this.#calls.length = Math.min(this.#calls.length, CALLS_KEPT)
    this.#ends.push(this.#now())
    this.#metrics.callHandled(call)
  }

  postFailed(why: string): void {
    this.#metrics.postFailed(why)
  }

  answerLost(): void {
    this.#metrics.answerLost()
  }

  sessionEnded(reason: string): void {
    this.#metrics.sessionEnded(reason)
  }

  slotsChanged(running: number, slots: number): void {
    const now = this.#now()
    const passed = now - this.#load.changed
    if (this.#load.was === 'idle') this.#load.idleMs += passed
    if (this.#load.was === 'full') this.#load.fullMs += passed
    this.#load.changed = now
    this.#load.was = running === 0 ? 'idle' : running >= slots ? 'full' : 'between'
  }

  /** The newest first, at most 50. */
  get lastCalls(): readonly HandledCall[] {
    return this.#calls
  }

  get callsPerMinute(): number {
    const from = this.#now() - MINUTE_MS
    this.#ends = this.#ends.filter(end => end > from)
    return this.#ends.length
  }

  async metrics(): Promise<{ readonly contentType: string; readonly text: string }> {
    return { contentType: this.#metrics.contentType, text: await this.#metrics.text() }
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #logLoad(): void {
    const status = this.#status()
    if (status === null) return
    const { running, waiting, slots } = status
    this.slotsChanged(running, slots)
    const passed = Math.max(1, this.#now() - this.#load.since)
    const percent = (ms: number) => Math.round((100 * ms) / passed)
    this.#log.info(
      {
        slots,
        running,
        waiting,
        idle_percent: percent(this.#load.idleMs),
        full_percent: percent(this.#load.fullMs),
        calls: this.callsPerMinute,
      },
      'load of the last minute',
    )
    this.#load = { ...this.#load, since: this.#now(), idleMs: 0, fullMs: 0 }
  }
}
