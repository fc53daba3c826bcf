import type { Channel } from './channel.js'
import type { CollectOrder } from './collected.js'
import { FRAME, type Frame } from './frames.js'
import { type GuestCalls, GuestRequests } from './guest-calls.js'
import { type InputFile, sendInputs } from './inputs.js'
import { parseJson } from './listener.js'
import { type GuestExit, type RunEnd, WardenEvent } from './messages.js'
import type { ZygoteKind } from './preloads.js'

/** How long a sandbox is waited for when it should have spoken. */
export interface Patience {
  /** Between the warden's word that a run is over and the zygote's word how the guest ended. */
  readonly exitGraceMs: number
  /** After it failed, for the word that its guest has ended; then its slot is given away all the same. */
  readonly goneMs: number
  /** Beyond the wall time, which the warden holds: this is for a warden that no longer runs at all. */
  readonly backstopMs: number
}

const PATIENCE: Patience = { exitGraceMs: 5_000, goneMs: 5_000, backstopMs: 20_000 }
/** More of it where files of earlier calls have to be put in place first. */
const INPUTS_MS = 20_000

/** What its owner does for it. */
export interface SandboxHooks {
  /** It failed, or does not end: kill what may still live of it. */
  onFailed(): void
  /** Nothing is left of it. Called once. */
  onGone(): void
}

/** What a run needs, and where its parts go. */
export interface RunOrder {
  readonly code: Buffer
  readonly wallMs: number
  readonly cpuMs: number
  /** null: the code has no way to the worker but its output. */
  readonly calls: GuestCalls | null
  /** Code of our own, to which the restricted policy does not apply. */
  readonly isOurs?: boolean
  /** Put in the workspace before the code starts. */
  readonly inputs: readonly InputFile[]
  /** Which contents of files are wanted at the end; null: none. */
  readonly collect: CollectOrder | null
  onStarted(): void
  /** Files that could not be put in place, each with the reason. */
  onNotPlaced(problems: readonly (readonly [path: string, why: string])[]): void
  /** Some bytes of a file, see Collecting. */
  onContent(payload: Buffer): void
  onStdout(bytes: Buffer): void
  onStderr(bytes: Buffer): void
  /** Something that the code shows besides its text: shown-frame.ts. */
  onShown(payload: Buffer): void
}

/** How a run ended, as the machinery saw it. */
export type RunResult =
  | {
      readonly kind: 'ended'
      readonly end: RunEnd
      readonly exit: GuestExit
      readonly stdoutTail: Buffer
      readonly stderrTail: Buffer
      readonly value: string | null
    }
  /** `handedOver`: whether the code was sent to the warden, so that nobody can say that none of it ran. */
  | { readonly kind: 'broken'; readonly reason: string; readonly handedOver: boolean }

/**
 * One sandbox, used once: starting → parked → running → over → gone. It is over with `fail`, or with the warden's end and
 * the zygote's word of the guest's, whichever comes last; it is gone when both processes are.
 */
export class Sandbox {
  readonly id: number
  readonly kind: ZygoteKind
  readonly parked: Promise<void>
  /** Resolves when nothing is left of it: its slot may be used again. */
  readonly gone: Promise<void>
  #settleGone: () => void = () => {}
  readonly #hooks: SandboxHooks
  readonly #patience: Patience
  #channel: Channel | null = null
  #settleParked: { resolve(): void; reject(error: Error): void } = { resolve: () => {}, reject: () => {} }
  #order: RunOrder | null = null
  #settleRun: (result: RunResult) => void = () => {}
  #requests: GuestRequests | null = null
  #end: RunEnd | null = null
  #exit: GuestExit | null = null
  #stdoutTail: Buffer = Buffer.alloc(0)
  #stderrTail: Buffer = Buffer.alloc(0)
  #value: string | null = null
  #isHandedOver = false
  /** Its answer is given, or it never will have one. */
  #over = false
  #guestEnded = false
  #channelClosed = false
  #isGone = false
  #goneTimer: NodeJS.Timeout | undefined
  #graceTimer: NodeJS.Timeout | undefined
  #backstop: NodeJS.Timeout | undefined

  constructor(id: number, kind: ZygoteKind, hooks: SandboxHooks, patience: Patience = PATIENCE) {
    this.id = id
    this.kind = kind
    this.#hooks = hooks
    this.#patience = patience
    this.gone = new Promise<void>(resolve => {
      this.#settleGone = resolve
    })
    this.parked = new Promise<void>((resolve, reject) => {
      this.#settleParked = { resolve, reject }
    })
    this.parked.catch(() => {}) // whoever takes it awaits it; one that is never taken may fail unheard
  }

  /** The warden has connected. */
  attach(channel: Channel): void {
    this.#channel = channel
    channel.listen(
      frame => this.#hear(frame),
      () => {
        this.#channelClosed = true
        this.#wardenGone()
      },
    )
    if (this.#over) channel.destroy()
  }

  /** Runs the code; to be called once, when parked. Never rejects. */
  run(order: RunOrder): Promise<RunResult> {
    return new Promise<RunResult>(resolve => {
      this.#settleRun = resolve
      if (this.#over || this.#channel === null) {
        resolve({ kind: 'broken', reason: 'the sandbox was gone before the code could start', handedOver: false })
        return
      }
      this.#order = order
      if (order.calls !== null) this.#requests = new GuestRequests(this.#channel, order.calls)
      const guest = {
        ...(order.calls === null ? {} : { tools: order.calls.options }),
        ...(order.isOurs === true ? { unrestricted: true } : {}),
        ...(order.inputs.length > 0 ? { inputs: true } : {}),
      }
      const run = { op: 'run', wall_ms: order.wallMs, cpu_ms: order.cpuMs, guest, collect: order.collect }
      if (order.inputs.length === 0) {
        this.#isHandedOver = true
        this.#channel.sendJsonAnd(run, FRAME.code, order.code)
      } else {
        this.#channel.sendJson(run)
        void sendInputs(this.#channel, order.inputs, () => this.#over)
      }
      this.#backstop = setTimeout(
        () => this.fail('the supervisor of the sandbox did not answer'),
        order.wallMs + this.#patience.backstopMs + (order.inputs.length > 0 ? INPUTS_MS : 0),
      )
    })
  }

  /** SIGINT to the code, SIGKILL half a second later; while its files are being put in place it has no code yet, and fails. */
  cancel(): void {
    if (this.#isHandedOver) this.#channel?.sendJson({ op: 'cancel' })
    else this.fail('the call was cancelled before the code started')
  }

  /** The zygote has waited for the guest. */
  guestExited(exit: GuestExit): void {
    this.#exit = exit
    this.#settleIfEnded()
    this.noGuest()
  }

  /** Whether no code has been given to it yet. */
  get isIdle(): boolean {
    return this.#order === null && !this.#over
  }

  /** Whether the zygote has waited for its guest. */
  get hasExited(): boolean {
    return this.#exit !== null
  }

  /** No guest is left, or there never was one. */
  noGuest(): void {
    this.#guestEnded = true
    this.#leaveIfDone()
  }

  /**
   * Ends it from outside. What the warden said of a run that it ended itself still holds. `reason` is a phrase for the model;
   * `detail`, which may name paths of this machine, is for the log.
   */
  fail(reason: string, detail = ''): void {
    if (this.#over) return
    if (this.#end !== null && this.#end.cause !== null && this.#exit === null) {
      // Nobody has to say how the guest died: the warden killed it.
      this.#exit = { event: 'exit', sandbox: this.id, code: null, signal: 9, cpu_ms: 0, max_rss_bytes: 0 }
      this.#settleIfEnded()
      return
    }
    this.#over = true
    this.#requests?.end()
    clearTimeout(this.#graceTimer)
    clearTimeout(this.#backstop)
    this.#settleParked.reject(new Error(detail === '' ? reason : `${reason}: ${detail}`))
    this.#settleRun({ kind: 'broken', reason, handedOver: this.#isHandedOver })
    this.#hooks.onFailed()
    this.#channel?.destroy()
    this.#goneTimer = setTimeout(() => this.#leave(), this.#patience.goneMs)
    this.#leaveIfDone()
  }

  #hear(frame: Frame): void {
    switch (frame.type) {
      case FRAME.stdout:
        this.#order?.onStdout(frame.payload)
        return
      case FRAME.stderr:
        this.#order?.onStderr(frame.payload)
        return
      case FRAME.stdoutTail:
        this.#stdoutTail = frame.payload
        return
      case FRAME.stderrTail:
        this.#stderrTail = frame.payload
        return
      case FRAME.content:
        if (!this.#over && this.#end === null) this.#order?.onContent(frame.payload)
        return
      case FRAME.value:
        this.#value = frame.payload.toString('utf8')
        return
      case FRAME.shown:
        this.#order?.onShown(frame.payload)
        return
      case FRAME.request:
        if (this.#over || this.#end !== null || this.#requests === null) return
        if (!this.#requests.hear(frame.payload)) this.fail('the supervisor of the sandbox passed on more than it may')
        return
      case FRAME.json:
        this.#hearEvent(frame.payload)
    }
  }

  #hearEvent(payload: Buffer): void {
    const event = WardenEvent.safeParse(parseJson(payload))
    if (!event.success) return
    switch (event.data.event) {
      case 'parked':
        this.#settleParked.resolve()
        return
      case 'started':
        this.#order?.onStarted()
        return
      case 'failed':
        this.fail(
          this.#order === null ? 'the sandbox could not be made' : 'the supervisor of the sandbox failed',
          event.data.message,
        )
        return
      case 'placed':
        this.#hearPlaced(event.data.problems)
        return
      case 'took':
        this.#requests?.took(event.data.bytes)
        return
      case 'end':
        this.#end = event.data
        this.#requests?.end()
        this.#graceTimer = setTimeout(
          () => this.fail('nobody could say how the code ended'),
          this.#patience.exitGraceMs,
        )
        this.#settleIfEnded()
    }
  }

  /** Only now the code: until the files are in place, it can still be said that none of it has run. */
  #hearPlaced(problems: Parameters<RunOrder['onNotPlaced']>[0]): void {
    if (this.#over || this.#order === null || this.#isHandedOver) return
    this.#order.onNotPlaced(problems)
    this.#isHandedOver = true
    this.#channel?.send(FRAME.code, this.#order.code)
  }

  #wardenGone(): void {
    if (this.#end === null) this.fail('the supervisor of the sandbox died')
    this.#leaveIfDone()
  }

  #settleIfEnded(): void {
    if (this.#over || this.#end === null || this.#exit === null) return
    // The answer does not wait for the warden's exit; the slot's uid does.
    this.#over = true
    clearTimeout(this.#graceTimer)
    clearTimeout(this.#backstop)
    this.#settleRun({
      kind: 'ended',
      end: this.#end,
      exit: this.#exit,
      stdoutTail: this.#stdoutTail,
      stderrTail: this.#stderrTail,
      value: this.#value,
    })
    this.#goneTimer = setTimeout(() => {
      this.#hooks.onFailed()
      this.#leave()
    }, this.#patience.goneMs)
  }

  #leaveIfDone(): void {
    if (this.#over && this.#guestEnded && (this.#channelClosed || this.#channel === null)) this.#leave()
  }

  #leave(): void {
    if (this.#isGone) return
    this.#isGone = true
    clearTimeout(this.#goneTimer)
    this.#hooks.onGone()
    this.#settleGone()
  }
}
