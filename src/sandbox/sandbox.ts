import type { Channel } from './channel.js'
import { FRAME, type Frame } from './frames.js'
import { parseJson } from './listener.js'
import { type GuestExit, type RunEnd, WardenEvent } from './messages.js'
import type { ZygoteKind } from './preloads.js'

/** How long a sandbox is waited for when it should have spoken. */
export interface Patience {
  /** Between the warden's word that a run is over and the zygote's word how the guest ended. */
  readonly exitGraceMs: number
  /** Beyond the wall time, which the warden holds: this is for a warden that no longer runs at all. */
  readonly backstopMs: number
}

const PATIENCE: Patience = { exitGraceMs: 5_000, backstopMs: 15_000 }

/** What a run needs, and where its parts go. */
export interface RunOrder {
  readonly code: Buffer
  readonly wallMs: number
  readonly cpuMs: number
  onStarted(): void
  onStdout(bytes: Buffer): void
  onStderr(bytes: Buffer): void
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
  /** `handedOver`: whether the warden may have had the code. */
  | { readonly kind: 'broken'; readonly reason: string; readonly handedOver: boolean }

/**
 * One sandbox, used once: starting → parked → running → over. Every way out goes through `fail` or the pair of the
 * warden's end and the zygote's exit, whichever comes last; `onGone` is called once when nothing is left of it.
 */
export class Sandbox {
  readonly id: number
  readonly kind: ZygoteKind
  readonly parked: Promise<void>
  /** Resolves when nothing is left of it: its slot may be used again. */
  readonly gone: Promise<void>
  #settleGone: () => void = () => {}
  readonly #onGone: () => void
  readonly #patience: Patience
  #channel: Channel | null = null
  #settleParked: { resolve(): void; reject(error: Error): void } = { resolve: () => {}, reject: () => {} }
  #order: RunOrder | null = null
  #settleRun: (result: RunResult) => void = () => {}
  #end: RunEnd | null = null
  #exit: GuestExit | null = null
  #stdoutTail: Buffer = Buffer.alloc(0)
  #stderrTail: Buffer = Buffer.alloc(0)
  #value: string | null = null
  #over = false
  #channelClosed = false
  #graceTimer: NodeJS.Timeout | undefined
  #backstop: NodeJS.Timeout | undefined

  constructor(id: number, kind: ZygoteKind, onGone: () => void, patience: Patience = PATIENCE) {
    this.id = id
    this.kind = kind
    this.#onGone = onGone
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
      this.#channel.sendJson({ op: 'run', wall_ms: order.wallMs, cpu_ms: order.cpuMs })
      this.#channel.send(FRAME.code, order.code)
      this.#backstop = setTimeout(
        () => this.fail('the supervisor of the sandbox did not answer'),
        order.wallMs + this.#patience.backstopMs,
      )
    })
  }

  /** SIGINT to the code, SIGKILL half a second later. */
  cancel(): void {
    this.#channel?.sendJson({ op: 'cancel' })
  }

  /** The zygote has waited for the guest. */
  guestExited(exit: GuestExit): void {
    this.#exit = exit
    this.#settleIfEnded()
  }

  /** Ends it from outside: what runs in it is killed when the warden sees its socket close. */
  fail(reason: string): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#graceTimer)
    clearTimeout(this.#backstop)
    this.#settleParked.reject(new Error(reason))
    this.#settleRun({ kind: 'broken', reason, handedOver: true })
    this.#channel?.destroy()
    this.#onGone()
    this.#settleGone()
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
      case FRAME.value:
        this.#value = frame.payload.toString('utf8')
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
        this.fail(`the sandbox could not be made: ${event.data.message}`)
        return
      case 'end':
        this.#end = event.data
        this.#graceTimer = setTimeout(
          () => this.fail('nobody could say how the code ended'),
          this.#patience.exitGraceMs,
        )
        this.#settleIfEnded()
    }
  }

  #wardenGone(): void {
    if (this.#end === null) this.fail('the supervisor of the sandbox died')
    else this.#settleIfEnded()
  }

  #settleIfEnded(): void {
    if (this.#over || this.#end === null || this.#exit === null) return
    // The answer does not wait for the warden's exit, the slot's uid does.
    this.#settleRun({
      kind: 'ended',
      end: this.#end,
      exit: this.#exit,
      stdoutTail: this.#stdoutTail,
      stderrTail: this.#stderrTail,
      value: this.#value,
    })
    clearTimeout(this.#graceTimer)
    clearTimeout(this.#backstop)
    if (!this.#channelClosed) return
    this.#over = true
    this.#onGone()
    this.#settleGone()
  }
}
