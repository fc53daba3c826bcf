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
import { OutboxWatch } from './outbox-watch.js'
import { PostingPace } from './posting-pace.js'
import { PostingRoom } from './posting-room.js'
import { Recovery } from './recovery.js'
import { RunningCalls } from './running-calls.js'
import type { Redactor } from './telemetry/redactor.js'
import type { Impairment, Telemetry, WorkerStatus } from './telemetry/status.js'
import { assertStrict, withOrder } from './tool/strict-schema.js'
import { Interruption, type Tool } from './tool/tool.js'
import { WorkerMode, type WorkerState } from './worker-mode.js'

/** Of the drain budget, what is kept for ending the code that still runs and posting its answers; at most this share of it. */
const END_RESERVE_MS = 5_000
const END_RESERVE_SHARE = 0.4
/** For the journal to be written when nothing is left of the budget. */
const JOURNAL_CLOSE_LEAST_MS = 1_000
/** For calls to notice that they may not post any more. */
const LAST_WAIT_MS = 1_000

export interface WorkerOptions {
  readonly config: Config
  readonly backend: BackendConfig
  readonly tools: readonly Tool[]
  /** Closed by stop(). */
  readonly journal: Journal
  /** Outcomes of calls that no tool handled. */
  readonly outcomes: CallContext['outcomes']
  readonly log: Logger
  /** Told of secrets as they are read, and asked to mask them; left out: nothing is masked. */
  readonly redactor?: Redactor
  /** The backend said 460: this client may never work. */
  onForbidden?(reason: string): void
  readonly telemetry?: Telemetry
  /** How the heartbeat waits; default real time. */
  readonly sleep?: Sleep
  /** See PostingRoom. */
  readonly postingMostBytes?: number
  /** See OutboxWatch. */
  readonly outboxMostAnswers?: number
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
  readonly #mode: WorkerMode
  readonly #pace: PostingPace
  readonly #outbox: OutboxWatch
  /** Why more answers must not come, by which bound. */
  readonly #full = new Map<'room' | 'outbox', string>()
  #stopping: Promise<boolean> | null = null

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
        this.#mode.review()
      },
    })
    this.#mode = new WorkerMode({
      slots: config.sandbox.slots,
      load: () => this.#admission,
      link: () => this.#link,
      log,
    })
    this.#link = connectBackend({
      config,
      backend,
      tools: tools.map(registered),
      log,
      ...(options.sleep === undefined ? {} : { sleep: options.sleep }),
      onSecret: (name, value) => options.redactor?.know(name, value),
      onCall: call => this.#take(call.fcall_id, cancel => handleCall(call, this.#context, cancel)),
      onUnreadable: (call, reason) => this.#take(call.fcall_id, () => rejectUnreadable(call, reason, this.#context)),
      onRegistration: problem => this.setImpaired('registration', problem),
      onState: state => this.#backendState(state),
      onSessionEnded: why => telemetry?.sessionEnded(why),
    })
    this.#pace = new PostingPace({ log, onOpen: () => this.#mode.isEnding || this.#recovery.run() })
    this.#outbox = new OutboxWatch({
      outbox: () => options.journal.outbox(),
      heldUpMs: () => this.#pace.heldUpMs,
      onFull: reason => this.#setFull('outbox', reason),
      ...(options.outboxMostAnswers === undefined ? {} : { answersMost: options.outboxMostAnswers }),
    })
    this.#context = {
      config,
      tools: new Map(tools.map(tool => [tool.name, tool])),
      journal: options.journal,
      admission: this.#admission,
      api: this.#link.api,
      room: new PostingRoom({
        onRoom: () => this.#mode.isEnding || this.#recovery.run(),
        onFull: reason => this.#setFull('room', reason),
        ...(options.postingMostBytes === undefined ? {} : { mostBytes: options.postingMostBytes }),
      }),
      pace: this.#pace,
      openDelta: call => openDeltaStream({ url: deltaEndpoint(backend), call, maxBytes: config.streamMaxBytes, log }),
      outcomes: options.outcomes,
      log,
      mask: text => options.redactor?.mask(text) ?? text,
      stopPosting: this.#stopPosting.signal,
      onForbidden: reason => this.#link.supervisor.forbid(reason),
      onHandled: call => telemetry?.callHandled(call),
      onPostFailed: why => telemetry?.postFailed(why),
      onLost: () => telemetry?.answerLost(),
    }
    this.#recovery = new Recovery({ context: this.#context, track: (id, handle) => this.#take(id, handle) })
    this.#mode.begin()
    this.#recovery.run()
  }

  get state(): WorkerState {
    return this.#mode.state
  }

  /** What it does now, and why it takes no calls where it does not. */
  get status(): WorkerStatus {
    const { running, waiting } = this.#admission
    const { answers, oldestSince } = this.#options.journal.outbox()
    return {
      state: this.#mode.state,
      reasons: this.#mode.reasons,
      impairments: this.#mode.impairments,
      slots: this.#options.config.sandbox.slots,
      running,
      waiting,
      journal: this.#options.journal.health(),
      outbox: { answers, oldestMs: oldestSince === null ? 0 : Math.max(0, Date.now() - oldestSince) },
    }
  }

  /** Something outside of the backend connection is wrong, or (null) well again: for example the sandbox. */
  setImpaired(what: Impairment, reason: string | null): void {
    this.#mode.setImpaired(what, reason)
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
    this.#mode.drain(reason)
    this.#recovery.close()
    this.#outbox.close()
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
    this.#mode.stopped(reason)
    return done && written && this.#calls.unanswered === unansweredBefore
  }

  #setFull(bound: 'room' | 'outbox', reason: string | null): void {
    if (reason === null) this.#full.delete(bound)
    else this.#full.set(bound, reason)
    this.setImpaired('answers', [...this.#full.values()][0] ?? null)
  }

  /** What a change of the connection means for the registration and for our own state. */
  #backendState(state: SupervisorState): void {
    switch (state.name) {
      case 'subscribed':
        this.#pace.setAway(false)
        if (!this.#mode.isEnding) this.#link.registration.activate(!state.resumed)
        this.setImpaired('backend', null)
        if (!state.resumed && !this.#mode.isEnding) this.#recovery.run()
        return
      case 'paused':
        this.#pace.setAway(false)
        return // deliberately: the tool goes on to exist while we are full; WorkerMode stops it when we are impaired
      case 'waiting':
        this.#pace.setAway(true)
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
}

function registered(tool: Tool): RegisteredTool {
  return {
    name: tool.name,
    description: tool.description,
    parametersJson: JSON.stringify(withOrder(tool.parameters)),
    strict: true,
  }
}
