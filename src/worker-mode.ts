import type { Logger } from 'pino'
import type { BackendLink } from './backend/link.js'
import type { Impairment } from './telemetry/status.js'

/** Full for less than this, a worker keeps its subscription: with one slot every call would close and open it again. */
const FULL_AFTER_MS = 250
/** Share of the slots that has to be free again before a full worker takes calls again. */
const REOPEN_SHARE = 1 / 4

/**
 *     starting ─▶ serving ⇄ full
 *                   ⇅        ⇅
 *                 impaired ──┴──▶ draining ─▶ stopped        (draining from any state)
 *
 * serving: subscribed, or on the way to be. full: no slot free for a while, subscription completed until there are. impaired: something is
 * wrong that more calls would not mend: no subscription, no registration, accepted calls are answered.
 */
export type WorkerState = 'starting' | 'serving' | 'full' | 'impaired' | 'draining' | 'stopped'

export interface WorkerModeOptions {
  readonly slots: number
  /** Calls that run and that wait. */
  load(): { readonly running: number; readonly waiting: number }
  /** Not asked before begin(). */
  link(): Omit<BackendLink, 'api'>
  readonly log: Logger
}

/** The state of a worker; the only place that pauses and resumes its subscription. */
export class WorkerMode {
  readonly #options: WorkerModeOptions
  #state: WorkerState = 'starting'
  /** Why it is impaired, by what is wrong. */
  readonly #impairments = new Map<Impairment, string>()
  /** Runs while no slot is free and that is not yet called full. */
  #fullTimer: NodeJS.Timeout | null = null

  constructor(options: WorkerModeOptions) {
    this.#options = options
  }

  get state(): WorkerState {
    return this.#state
  }

  get impairments(): readonly Impairment[] {
    return [...this.#impairments.keys()]
  }

  get isEnding(): boolean {
    return this.#state === 'draining' || this.#state === 'stopped'
  }

  /** Why it takes no calls; none where it does, or would. */
  get reasons(): string[] {
    if (this.isEnding) return [this.#state]
    const { supervisor, registration, address, trouble } = this.#options.link()
    const reasons = [...this.#impairments].map(([what, reason]) => `${what}: ${reason}`)
    const connection = supervisor.state.name
    // Paused by ourselves and well, it is full, or comes back in a moment.
    const isThere = connection === 'subscribed' || connection === 'paused'
    if (!isThere && this.#state !== 'full' && reasons.length === 0) {
      reasons.push(`not subscribed: ${connection} (${address}${trouble === null ? '' : `: ${trouble}`})`)
    }
    if (!registration.isRegistered && reasons.length === 0) reasons.push('the tool is not registered')
    return reasons
  }

  begin(): void {
    this.#setState('serving')
  }

  setImpaired(what: Impairment, reason: string | null): void {
    if (reason === null) this.#impairments.delete(what)
    else this.#impairments.set(what, reason)
    this.review()
  }

  /** Nothing but stopped() follows. */
  drain(reason: string): void {
    this.#setState('draining', reason)
    this.#endFullTimer()
  }

  stopped(reason: string): void {
    this.#setState('stopped', reason)
  }

  /** To the state that follows from slots and impairments. */
  review(): void {
    if (this.isEnding || this.#state === 'starting') return
    const { slots } = this.#options
    const { running, waiting } = this.#options.load()
    const { supervisor } = this.#options.link()
    const isBusy = running >= slots || waiting > 0
    if (this.#impairments.size > 0) {
      this.#endFullTimer()
      this.#impaired()
    } else if (!isBusy) {
      this.#endFullTimer()
      if (this.#state !== 'full' || slots - running >= slots * REOPEN_SHARE) {
        supervisor.resume()
        this.#setState('serving')
      }
    } else if (this.#state !== 'full') {
      if (this.#state === 'impaired') supervisor.resume()
      this.#setState('serving')
      this.#fullTimer ??= setTimeout(() => {
        supervisor.pause()
        this.#setState('full')
      }, FULL_AFTER_MS)
    }
  }

  /**
   * The supervisor itself stays away from a backend that refuses it, and probes; all else is ours to pause for. Where it is the
   * registration that is refused, its next attempts are the probe.
   */
  #impaired(): void {
    const { supervisor, registration } = this.#options.link()
    const ours = [...this.#impairments].filter(([what]) => what !== 'backend')
    const [what, reason] = ours[0] ?? [...this.#impairments][0] ?? ['', '']
    if (ours.length > 0) supervisor.pause()
    if (ours.some(([what]) => what !== 'registration')) registration.deactivate()
    else if (ours.length === this.#impairments.size) registration.activate(false)
    this.#setState('impaired', `${what}: ${reason}`)
  }

  #endFullTimer(): void {
    if (this.#fullTimer !== null) clearTimeout(this.#fullTimer)
    this.#fullTimer = null
  }

  #setState(state: WorkerState, reason?: string): void {
    if (state === this.#state) return
    const level = state === 'impaired' ? 'warn' : state === 'full' || this.#state === 'full' ? 'debug' : 'info'
    this.#options.log[level]({ from: this.#state, to: state, reason }, 'worker state changed')
    this.#state = state
  }
}
