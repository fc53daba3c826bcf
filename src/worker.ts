import { setMaxListeners } from 'node:events'
import type { Logger } from 'pino'
import { Admission } from './admission.js'
import { createCredentials } from './backend/credentials.js'
import { openDeltaStream } from './backend/delta.js'
import { createBackendApi, type RegisteredTool } from './backend/http.js'
import { deltaEndpoint, type ToolCall, wsEndpoint } from './backend/protocol.js'
import { createRegistration } from './backend/registration.js'
import { runSession } from './backend/session.js'
import { createSupervisor, type SupervisorState } from './backend/supervisor.js'
import { type CallContext, handleCall } from './call.js'
import type { BackendConfig, Config } from './config.js'
import { MemoryJournal } from './journal/memory-journal.js'
import { RunningCalls } from './running-calls.js'
import { assertStrict, withOrder } from './tool/strict-schema.js'
import { Interruption, type Tool } from './tool/tool.js'

/** Share of the slots that has to be free again before a full worker takes calls again. */
const REOPEN_SHARE = 1 / 4
/** Of the drain budget, what is kept for ending the code that still runs and posting its answers; at most this share of it. */
const END_RESERVE_MS = 5_000
const END_RESERVE_SHARE = 0.4
/** For calls to notice that they may not post any more. */
const LAST_WAIT_MS = 1_000

/**
 *     starting ─▶ serving ⇄ full
 *                   ⇅        ⇅
 *                 impaired ──┴──▶ draining ─▶ stopped        (draining from any state)
 *
 * serving: subscribed, or on the way to be. full: subscription completed until slots are free. impaired: something is
 * wrong that more calls would not mend: no subscription, no registration, accepted calls are answered.
 */
export type WorkerState = 'starting' | 'serving' | 'full' | 'impaired' | 'draining' | 'stopped'

export interface WorkerOptions {
  readonly config: Config
  readonly backend: BackendConfig
  readonly tools: readonly Tool[]
  /** Outcomes of calls that no tool handled. */
  readonly outcomes: CallContext['outcomes']
  readonly log: Logger
  /** The backend said 460: this client may never work. */
  onForbidden?(reason: string): void
}

/** Takes calls from the backend and answers each once. */
export class Worker {
  readonly #options: WorkerOptions
  readonly #log: Logger
  readonly #admission: Admission
  readonly #context: CallContext
  readonly #calls = new RunningCalls()
  readonly #stopPosting = new AbortController()
  readonly #supervisor
  readonly #registration
  readonly #api
  #state: WorkerState = 'starting'
  /** Why it is impaired, by what is wrong. */
  readonly #impairments = new Map<string, string>()
  #stopping: Promise<boolean> | null = null

  /** Errors: a tool whose schema is not strict is a programming error. */
  constructor(options: WorkerOptions) {
    const { config, backend, tools, log } = options
    this.#options = options
    this.#log = log
    for (const tool of tools) assertStrict(tool)
    setMaxListeners(0, this.#stopPosting.signal) // one for each post at a time
    const audience = {
      fgroupId: config.fgroupId,
      fuserId: config.shared ? null : config.fuserId,
      shared: config.shared,
    }
    const credentials = createCredentials({ config: backend, serviceName: config.serviceName })
    this.#api = createBackendApi({ config: backend, credentials, log })
    this.#admission = new Admission({
      slots: config.sandbox.slots,
      queueMax: config.queueMaxCalls,
      onChange: () => this.#review(),
    })
    this.#context = {
      config,
      tools: new Map(tools.map(tool => [tool.name, tool])),
      journal: new MemoryJournal(),
      admission: this.#admission,
      api: this.#api,
      openDelta: call => openDeltaStream({ url: deltaEndpoint(backend), call, maxBytes: config.streamMaxBytes, log }),
      outcomes: options.outcomes,
      log,
      stopPosting: this.#stopPosting.signal,
      onForbidden: reason => this.#supervisor.forbid(reason),
    }
    this.#registration = createRegistration({
      api: this.#api,
      tools: tools.map(registered),
      audience,
      log,
      onRefused: error => {
        if (error.kind === 'never') this.#supervisor.forbid(error.message)
      },
    })
    this.#supervisor = createSupervisor({
      session: (onSubscribed, signal) =>
        runSession(
          {
            url: wsEndpoint(backend),
            toolNames: tools.map(tool => tool.name),
            fgroupId: audience.fgroupId,
            fuserId: audience.fuserId,
            credentials,
            log,
            onSubscribed,
            onCall: call => this.#take(call),
            onMalformed: (reason, fcallId) =>
              log.error({ reason, fcall_id: fcallId }, 'the backend sent something that is no call'),
          },
          signal,
        ),
      invalidateCredentials: () => credentials.invalidate(),
      log,
      onState: state => this.#backendState(state),
    })
    this.#setState('serving')
  }

  get state(): WorkerState {
    return this.#state
  }

  /** Something outside of the backend connection is wrong, or (null) well again: for example the sandbox. */
  setImpaired(what: string, reason: string | null): void {
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
   * Takes no more calls, answers those that wait "not run", lets those that run end within the drain budget or ends them.
   * True if every accepted call was answered. Further calls of it return the same promise.
   */
  stop(reason: string): Promise<boolean> {
    this.#stopping ??= this.#drain(reason)
    return this.#stopping
  }

  #take(call: ToolCall): void {
    this.#calls.add(call.fcall_id, async cancel => {
      try {
        return await handleCall(call, this.#context, cancel)
      } catch (error) {
        this.#log.error({ err: error, fcall_id: call.fcall_id }, 'handling a call failed')
        return false
      }
    })
  }

  async #drain(reason: string): Promise<boolean> {
    this.#setState('draining', reason)
    const { drainMs } = this.#options.config
    const end = performance.now() + drainMs
    const left = () => Math.max(0, end - performance.now())
    const unansweredBefore = this.#calls.unanswered
    this.#registration.deactivate()
    this.#admission.close(new Interruption('the worker is being stopped'))
    await this.#supervisor.stop()
    const reserveMs = Math.min(END_RESERVE_MS, drainMs * END_RESERVE_SHARE)
    if (!(await this.#calls.allDoneWithin(Math.max(0, left() - reserveMs)))) {
      this.interruptAll('the worker is being stopped')
    }
    const done = await this.#calls.allDoneWithin(left())
    this.#stopPosting.abort()
    await this.#calls.allDoneWithin(LAST_WAIT_MS)
    await this.#api.close()
    this.#setState('stopped', reason)
    return done && this.#calls.unanswered === unansweredBefore
  }

  #backendState(state: SupervisorState): void {
    switch (state.name) {
      case 'subscribed':
        if (this.#stopping === null) this.#registration.activate()
        this.setImpaired('backend', null)
        return
      case 'paused':
        return // deliberately: the tool goes on to exist while we are full; #review stops it when we are impaired
      case 'waiting':
        this.#registration.deactivate()
        if (state.why === 'auth') this.setImpaired('backend', state.reason)
        return
      case 'forbidden':
        this.#registration.deactivate()
        this.setImpaired('backend', state.reason)
        this.#options.onForbidden?.(state.reason)
        return
      case 'connecting':
      case 'stopped':
        this.#registration.deactivate()
    }
  }

  /** The state that follows from slots and impairments; the only place that pauses and resumes the subscription. */
  #review(): void {
    if (this.#stopping !== null || this.#state === 'starting') return
    const { slots } = this.#options.config.sandbox
    const running = this.#admission.running
    const free = slots - running
    // The supervisor itself stays away from a backend that refuses it, and probes; all else is ours to pause for.
    const pausedFor = [...this.#impairments].find(([what]) => what !== 'backend')
    if (this.#impairments.size > 0) {
      const [what, reason] = pausedFor ?? [...this.#impairments][0] ?? ['', '']
      if (pausedFor !== undefined) {
        this.#supervisor.pause()
        this.#registration.deactivate()
      }
      this.#setState('impaired', `${what}: ${reason}`)
    } else if (free === 0) {
      this.#supervisor.pause()
      this.#setState('full')
    } else if (this.#state !== 'full' || (free >= slots * REOPEN_SHARE && this.#admission.waiting === 0)) {
      this.#supervisor.resume()
      this.#setState('serving')
    }
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
