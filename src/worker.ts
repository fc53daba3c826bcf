import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { Admission } from './admission.js'
import { openDeltaStream } from './backend/delta.js'
import type { RegisteredTool } from './backend/http.js'
import { type BackendLink, connectBackend } from './backend/link.js'
import { deltaEndpoint, loggedId } from './backend/protocol.js'
import type { SupervisorState } from './backend/supervisor.js'
import type { Sleep } from './backend/waiting.js'
import { type CallContext, handleCall, rejectUnreadable } from './call.js'
import type { BackendConfig, Config } from './config.js'
import type { Journal } from './journal/journal.js'
import { Recovery } from './recovery.js'
import { RunningCalls } from './running-calls.js'
import type { Impairment, Telemetry, WorkerStatus } from './telemetry/status.js'
import { assertStrict, withOrder } from './tool/strict-schema.js'
import { Interruption, type Tool } from './tool/tool.js'

/** Full for less than this, a worker keeps its subscription: with one slot every call would close and open it again. */
const FULL_AFTER_MS = 250
/** Share of the slots that has to be free again before a full worker takes calls again. */
const REOPEN_SHARE = 1 / 4
/** Of the drain budget, what is kept for ending the code that still runs and posting its answers; at most this share of it. */
const END_RESERVE_MS = 5_000
const END_RESERVE_SHARE = 0.4
/** An answer that the backend did not take in its 10 minutes is offered again so often, and whenever the backend has come back. */
const OFFER_AGAIN_MS = 10 * 60_000
/** For the journal to be written when nothing is left of the budget. */
const JOURNAL_CLOSE_LEAST_MS = 1_000
/** For calls to notice that they may not post any more. */
const LAST_WAIT_MS = 1_000

/**
 *     starting ─▶ serving ⇄ full
 *                   ⇅        ⇅
 *                 impaired ──┴──▶ draining ─▶ stopped        (draining from any state)
 *
 * serving: subscribed, or on the way to be. full: no slot free for a while, subscription completed until there are. impaired: something is
 * wrong that more calls would not mend: no subscription, no registration, accepted calls are answered.
 */
export type WorkerState = 'starting' | 'serving' | 'full' | 'impaired' | 'draining' | 'stopped'

export interface WorkerOptions {
  readonly config: Config
  readonly backend: BackendConfig
  readonly tools: readonly Tool[]
  /** Closed by stop(). */
  readonly journal: Journal
  /** Outcomes of calls that no tool handled. */
  readonly outcomes: CallContext['outcomes']
  readonly log: Logger
  /** The backend said 460: this client may never work. */
  onForbidden?(reason: string): void
  readonly telemetry?: Telemetry
  /** How the heartbeat waits; default real time. */
  readonly sleep?: Sleep
}

/** Takes calls from the backend and answers each once. */
export class Worker {
  readonly #options: WorkerOptions
  readonly #log: Logger
  readonly #admission: Admission
  readonly #context: CallContext
  readonly #calls = new RunningCalls()
  readonly #stopPosting = new AbortController()
  readonly #link: BackendLink
  readonly #recovery: Recovery
  readonly #offerAgain: NodeJS.Timeout
  #state: WorkerState = 'starting'
  /** Why it is impaired, by what is wrong. */
  readonly #impairments = new Map<Impairment, string>()
  #stopping: Promise<boolean> | null = null
  /** Runs while no slot is free and that is not yet called full. */
  #fullTimer: NodeJS.Timeout | null = null

  /** Errors: a tool whose schema is not strict is a programming error. */
  constructor(options: WorkerOptions) {
    const { config, backend, tools, log } = options
    this.#options = options
    this.#log = log
    for (const tool of tools) assertStrict(tool)
    setMaxListeners(0, this.#stopPosting.signal) // one for each post at a time
    const { telemetry } = options
    this.#admission = new Admission({
      slots: config.sandbox.slots,
      queueMax: config.queueMaxCalls,
      onChange: running => {
        telemetry?.slotsChanged(running, config.sandbox.slots)
        this.#review()
      },
    })
    this.#link = connectBackend({
      config,
      backend,
      tools: tools.map(registered),
      log,
      ...(options.sleep === undefined ? {} : { sleep: options.sleep }),
      onCall: call => this.#take(call.fcall_id, cancel => handleCall(call, this.#context, cancel)),
      onUnreadable: (call, reason) => this.#take(call.fcall_id, () => rejectUnreadable(call, reason, this.#context)),
      onRegistration: problem => this.setImpaired('registration', problem),
      onState: state => this.#backendState(state),
    })
    this.#context = {
      config,
      tools: new Map(tools.map(tool => [tool.name, tool])),
      journal: options.journal,
      admission: this.#admission,
      api: this.#link.api,
      openDelta: call => openDeltaStream({ url: deltaEndpoint(backend), call, maxBytes: config.streamMaxBytes, log }),
      outcomes: options.outcomes,
      log,
      stopPosting: this.#stopPosting.signal,
      onForbidden: reason => this.#link.supervisor.forbid(reason),
      ...(telemetry === undefined ? {} : { onHandled: call => telemetry.callHandled(call) }),
    }
    this.#recovery = new Recovery({ context: this.#context, track: (id, handle) => this.#take(id, handle) })
    this.#offerAgain = setInterval(() => this.#recovery.run(), OFFER_AGAIN_MS)
    this.#setState('serving')
    this.#recovery.run()
  }

  get state(): WorkerState {
    return this.#state
  }

  /** What it does now, and why it takes no calls where it does not. */
  get status(): WorkerStatus {
    const { running, waiting } = this.#admission
    const { answers, oldestSince } = this.#options.journal.outbox()
    return {
      state: this.#state,
      reasons: this.#reasons(),
      impairments: [...this.#impairments.keys()],
      slots: this.#options.config.sandbox.slots,
      running,
      waiting,
      outbox: { answers, oldestMs: oldestSince === null ? 0 : Math.max(0, Date.now() - oldestSince) },
    }
  }

  #reasons(): string[] {
    if (this.#isEnding()) return [this.#state]
    const { supervisor, registration } = this.#link
    const reasons = [...this.#impairments].map(([what, reason]) => `${what}: ${reason}`)
    const connection = supervisor.state.name
    if (connection !== 'subscribed' && this.#state !== 'full' && reasons.length === 0) {
      reasons.push(`not subscribed: ${connection}`)
    }
    if (!registration.isRegistered && reasons.length === 0) reasons.push('the tool is not registered')
    return reasons
  }

  /** Something outside of the backend connection is wrong, or (null) well again: for example the sandbox. */
  setImpaired(what: Impairment, reason: string | null): void {
    if (reason === null) this.#impairments.delete(what)
    else this.#impairments.set(what, reason)
    this.#review()
  }

  /** Ends one call: its code is interrupted, or never started, and its answer says `reason`. False if it is not here. */
  cancel(fcallId: string, reason: string): boolean {
    return this.#calls.cancel(fcallId, reason)
  }

  /** Ends all that runs or waits now, instead of waiting for it; `reason` is a phrase for the model. */
  interruptAll(reason: string): void {
    this.#calls.cancelAll(new Interruption(reason))
  }

  /**
   * Takes no more calls, answers those that wait "not run", lets those that run end within the budget or ends them. True if every
   * accepted call was answered or is on disk. Further calls of it return the same promise.
   */
  stop(reason: string, drainMs = this.#options.config.drainMs): Promise<boolean> {
    this.#stopping ??= this.#drain(reason, drainMs)
    return this.#stopping
  }

  #take(fcallId: string, handle: (cancel: AbortSignal) => Promise<boolean>): void {
    this.#calls.add(fcallId, async cancel => {
      try {
        return await handle(cancel)
      } catch (error) {
        this.#log.error({ err: error, fcall_id: loggedId(fcallId) }, 'handling a call failed')
        return false
      }
    })
  }

  async #drain(reason: string, drainMs: number): Promise<boolean> {
    // First of all: whatever follows reviews the state, and must find this one.
    this.#setState('draining', reason)
    this.#endFullTimer()
    clearInterval(this.#offerAgain)
    this.#recovery.close()
    const end = performance.now() + drainMs
    const left = () => Math.max(0, end - performance.now())
    const unansweredBefore = this.#calls.unanswered
    this.#link.registration.deactivate()
    this.#admission.close(new Interruption('the worker is being stopped'))
    await this.#link.supervisor.stop()
    const reserveMs = Math.min(END_RESERVE_MS, drainMs * END_RESERVE_SHARE)
    if (!(await this.#calls.allDoneWithin(Math.max(0, left() - reserveMs)))) {
      this.interruptAll('the worker is being stopped')
    }
    await this.#calls.allDoneWithin(left())
    this.#stopPosting.abort()
    // Posts that are ended now leave their answers in the journal, and are as well kept there.
    const done = await this.#calls.allDoneWithin(LAST_WAIT_MS)
    await this.#link.api.close()
    const written = await this.#options.journal.close(Math.max(JOURNAL_CLOSE_LEAST_MS, left()))
    this.#setState('stopped', reason)
    return done && written && this.#calls.unanswered === unansweredBefore
  }

  /** What a change of the connection means for the registration and for our own state. */
  #backendState(state: SupervisorState): void {
    switch (state.name) {
      case 'subscribed':
        if (!this.#isEnding()) this.#link.registration.activate(!state.resumed)
        this.setImpaired('backend', null)
        if (!state.resumed && !this.#isEnding()) this.#recovery.run()
        return
      case 'paused':
        return // deliberately: the tool goes on to exist while we are full; #review stops it when we are impaired
      case 'waiting':
        this.#options.telemetry?.sessionEnded(state.why)
        this.#link.registration.deactivate()
        if (state.why === 'auth') this.setImpaired('backend', state.reason)
        return
      case 'forbidden':
        this.#link.registration.deactivate()
        this.setImpaired('backend', state.reason)
        this.#options.onForbidden?.(state.reason)
        return
      case 'connecting':
      case 'stopped':
        this.#link.registration.deactivate()
    }
  }

  #isEnding(): boolean {
    return this.#state === 'draining' || this.#state === 'stopped'
  }

  /** The state that follows from slots and impairments; the only place that pauses and resumes the subscription. */
  #review(): void {
    if (this.#isEnding() || this.#state === 'starting') return
    const { slots } = this.#options.config.sandbox
    const { running, waiting } = this.#admission
    const isBusy = running >= slots || waiting > 0
    if (this.#impairments.size > 0) {
      this.#endFullTimer()
      this.#impaired()
    } else if (!isBusy) {
      this.#endFullTimer()
      if (this.#state !== 'full' || slots - running >= slots * REOPEN_SHARE) {
        this.#link.supervisor.resume()
        this.#setState('serving')
      }
    } else if (this.#state !== 'full') {
      if (this.#state === 'impaired') this.#link.supervisor.resume()
      this.#setState('serving')
      this.#fullTimer ??= setTimeout(() => {
        this.#link.supervisor.pause()
        this.#setState('full')
      }, FULL_AFTER_MS)
    }
  }

  /**
   * The supervisor itself stays away from a backend that refuses it, and probes; all else is ours to pause for. Where it is the
   * registration that is refused, its next attempts are the probe.
   */
  #impaired(): void {
    const ours = [...this.#impairments].filter(([what]) => what !== 'backend')
    const [what, reason] = ours[0] ?? [...this.#impairments][0] ?? ['', '']
    if (ours.length > 0) this.#link.supervisor.pause()
    if (ours.some(([what]) => what !== 'registration')) this.#link.registration.deactivate()
    else if (ours.length === this.#impairments.size) this.#link.registration.activate(false)
    this.#setState('impaired', `${what}: ${reason}`)
  }

  #endFullTimer(): void {
    if (this.#fullTimer !== null) clearTimeout(this.#fullTimer)
    this.#fullTimer = null
  }

  #setState(state: WorkerState, reason?: string): void {
    if (state === this.#state) return
    const level = state === 'impaired' ? 'warn' : state === 'full' || this.#state === 'full' ? 'debug' : 'info'
    this.#log[level]({ from: this.#state, to: state, reason }, 'worker state changed')
    this.#state = state
  }
}

function registered(tool: Tool): RegisteredTool {
  return {
    name: tool.name,
    description: tool.description,
    parametersJson: JSON.stringify(withOrder(tool.parameters)),
    strict: true,
  }
}
