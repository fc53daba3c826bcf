import type { Logger } from 'pino'
import type { SandboxConfig } from '../config.js'
import type { SandboxFacts, SandboxReport } from '../outcome.js'
import { Capture, visible } from './capture.js'
import { Machinery, type MachineryOptions } from './machinery.js'
import { mimeOf } from './mime.js'
import type { RunOrder, RunResult, Sandbox } from './sandbox.js'
import { type Verdict, verdict } from './verdict.js'

/** Sandboxes that wait for code when nothing is going on. */
const PARKED_LEAST = 2
/** Sandboxes that are being made at the same time: more would only take turns on the CPUs. */
const STARTING_MOST = 4
/** A sandbox that failed on its way to being parked is replaced; after so many in a row the call that waits hears of it. */
const FAILURES_MOST = 3
const RESTART_FIRST_MS = 100
const RESTART_MOST_MS = 10_000

export interface RunRequest {
  readonly code: string
  readonly wallMs: number
  /** Its reason is a phrase for the model. */
  readonly signal: AbortSignal
  /** Text as it is printed, decoded exactly as the report's stdout. */
  onStdout(text: string): void
}

export interface PoolOptions {
  readonly config: SandboxConfig
  readonly machinery: MachineryOptions
  readonly facts: SandboxFacts
  readonly log: Logger
  /** CPUs of this worker: the default CPU limit is wall time × CPUs. */
  readonly cpus: number
  /** Whether machinery is up; with the reason where it is not. */
  onHealth?(healthy: boolean, reason: string): void
}

interface Waiter {
  resolve(sandbox: Sandbox): void
  reject(error: Error): void
}

/**
 * Keeps sandboxes parked and hands each out once. Who may run, and in which order, is decided by the caller (admission);
 * the pool gives every caller a sandbox as soon as there is one.
 */
export class Pool {
  readonly #options: PoolOptions
  #machinery: Machinery
  readonly #parked: Sandbox[] = []
  readonly #waiting: Waiter[] = []
  readonly #freeSlots: number[] = []
  #slotsMade = 0
  #starting = 0
  #failures = 0
  #closed = false
  #restarts = 0
  #restarting: Promise<void> | null = null
  #restartTimer: NodeJS.Timeout | undefined

  constructor(machinery: Machinery, options: PoolOptions) {
    this.#machinery = machinery
    this.#options = options
    this.#adopt(machinery)
  }

  get facts(): SandboxFacts {
    return this.#options.facts
  }

  /** Runs one piece of code in a sandbox of its own. Never rejects. */
  async run(request: RunRequest): Promise<SandboxReport> {
    const requested = performance.now()
    const { config } = this.#options
    const stdout = new Capture(config.stdoutKeptBytes, request.onStdout)
    const stderr = new Capture(config.stderrKeptBytes, null)
    const cpuMs = config.cpuMs ?? Math.ceil(request.wallMs * Math.max(1, this.#options.cpus))
    const times = { started: null as number | null }
    const unstarted = (status: 'cancelled' | 'interrupted', reason: string): SandboxReport =>
      this.#report({ status, exitCode: null, signal: null, limit: null }, reason, false, stdout, stderr, 0, null)

    if (request.signal.aborted) return unstarted('cancelled', phrase(request.signal.reason))
    const order: RunOrder = {
      code: Buffer.from(request.code, 'utf8'),
      wallMs: request.wallMs,
      cpuMs,
      onStarted: () => {
        times.started = performance.now()
      },
      onStdout: bytes => stdout.push(bytes),
      onStderr: bytes => stderr.push(bytes),
    }
    let result: RunResult
    do {
      let sandbox: Sandbox
      try {
        sandbox = await this.#take(request.signal)
      } catch (error) {
        if (request.signal.aborted) return unstarted('cancelled', phrase(request.signal.reason))
        return unstarted('interrupted', (error as Error).message)
      }
      if (request.signal.aborted) {
        // Between the handing out and this turn: nobody would hear that event any more.
        sandbox.fail('the call was cancelled before the code started')
        return unstarted('cancelled', phrase(request.signal.reason))
      }
      const cancel = () => sandbox.cancel()
      request.signal.addEventListener('abort', cancel, { once: true })
      result = await sandbox.run(order)
      request.signal.removeEventListener('abort', cancel)
      // One that died while it was parked has not seen the code: another may have it.
    } while (result.kind === 'broken' && !result.handedOver)
    const started = times.started ?? requested
    const startMs = started - requested
    if (result.kind === 'broken') {
      const broken: Verdict = { status: 'interrupted', exitCode: null, signal: null, limit: null }
      // Once the code was handed over nobody can say that none of it ran.
      return this.#report(broken, result.reason, true, stdout, stderr, 0, null)
    }
    stdout.setTail(result.stdoutTail)
    stderr.setTail(result.stderrTail)
    const named = verdict(result.end, result.exit, { config, wallMs: request.wallMs, cpuMs })
    const reason = named.status === 'cancelled' ? phrase(request.signal.reason) : null
    return this.#report(named, reason, true, stdout, stderr, startMs, result)
  }

  /** Ends all sandboxes and the processes that make them. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#restartTimer)
    for (const waiter of this.#waiting.splice(0)) waiter.reject(new Error('the worker is stopping'))
    await this.#restarting
    await this.#machinery.close()
  }

  #report(
    named: Verdict,
    reason: string | null,
    started: boolean,
    stdout: Capture,
    stderr: Capture,
    startMs: number,
    result: Extract<RunResult, { kind: 'ended' }> | null,
  ): SandboxReport {
    const end = result?.end ?? null
    const exit = result?.exit ?? null
    const more = end?.files_more ?? 0
    return {
      ...named,
      stdout: stdout.finish(end?.stdout_total ?? null),
      stderr: stderr.finish(end?.stderr_total ?? null),
      value: result?.value == null ? null : visible(result.value),
      files: (end?.files ?? []).map(file => ({ ...file, mime: mimeOf(file.path) })),
      notes: more > 0 ? [`files: ${more} more not listed`] : [],
      reason,
      started,
      usage: {
        start_ms: result === null ? 0 : round(startMs),
        run_ms: end?.run_ms ?? 0,
        cpu_ms: (end?.cpu_ms ?? 0) + (exit?.cpu_ms ?? 0),
        // The zygote's pages, which every guest shares, are nobody's use.
        max_rss_bytes: Math.max(end?.peak_bytes ?? 0, (exit?.max_rss_bytes ?? 0) - (end?.baseline_bytes ?? 0), 0),
      },
    }
  }

  // ---------------------------------------------------------------- sandboxes

  #take(signal: AbortSignal): Promise<Sandbox> {
    if (this.#closed) return Promise.reject(new Error('the worker is stopping'))
    const ready = this.#parked.shift()
    if (ready !== undefined) {
      this.#refill()
      return Promise.resolve(ready)
    }
    return new Promise<Sandbox>((resolve, reject) => {
      const waiter: Waiter = { resolve, reject }
      const onAbort = () => {
        const index = this.#waiting.indexOf(waiter)
        if (index >= 0) this.#waiting.splice(index, 1)
        reject(new Error('cancelled'))
      }
      signal.addEventListener('abort', onAbort, { once: true })
      const settled =
        <T>(settle: (value: T) => void) =>
        (value: T) => {
          signal.removeEventListener('abort', onAbort)
          settle(value)
        }
      waiter.resolve = settled(resolve)
      waiter.reject = settled(reject)
      this.#waiting.push(waiter)
      this.#refill()
    })
  }

  /** Starts as many sandboxes as are wanted: one for each who waits, and the parked ones behind them. */
  #refill(): void {
    const spare = Math.min(PARKED_LEAST, this.#options.config.slots)
    while (
      !this.#closed &&
      !this.#machinery.isDown &&
      this.#starting < STARTING_MOST &&
      this.#parked.length + this.#starting < spare + this.#waiting.length
    ) {
      this.#start()
    }
  }

  #start(): void {
    const slot = this.#freeSlots.pop() ?? this.#slotsMade++
    const machinery = this.#machinery
    this.#starting++
    const sandbox = machinery.createSandbox(slot)
    sandbox.gone.then(() => {
      const index = this.#parked.indexOf(sandbox)
      if (index >= 0) this.#parked.splice(index, 1)
      this.#freeSlots.push(slot)
      this.#refill()
    })
    sandbox.parked.then(
      () => {
        this.#starting--
        this.#failures = 0
        this.#restarts = 0
        const waiter = this.#waiting.shift()
        if (waiter === undefined) this.#parked.push(sandbox)
        else waiter.resolve(sandbox)
        this.#refill()
      },
      (error: Error) => {
        this.#starting--
        if (machinery.isDown) return // a new one is on its way, and those who wait get theirs from it
        this.#failures++
        this.#options.log.warn({ reason: error.message, inARow: this.#failures }, 'sandbox failed to start')
        if (this.#failures >= FAILURES_MOST) {
          this.#failures = 0
          this.#waiting.shift()?.reject(error)
        }
      },
    )
  }

  // ---------------------------------------------------------------- machinery

  #adopt(machinery: Machinery): void {
    this.#machinery = machinery
    machinery.onDown = reason => {
      this.#parked.length = 0
      if (!this.#closed) this.#restart(reason)
    }
    this.#refill()
  }

  /** At once the first time, then with growing pauses: a crash loop must not eat the machine. */
  #restart(reason: string): void {
    const pause = this.#restarts === 0 ? 0 : Math.min(RESTART_MOST_MS, RESTART_FIRST_MS * 2 ** this.#restarts)
    this.#restarts++
    this.#options.onHealth?.(false, reason)
    this.#restartTimer = setTimeout(() => {
      this.#restarting = this.#startAgain()
    }, pause)
  }

  async #startAgain(): Promise<void> {
    const old = this.#machinery
    await old.close()
    try {
      const machinery = await Machinery.start(this.#options.machinery)
      if (this.#closed) {
        this.#machinery = machinery
        return
      }
      this.#adopt(machinery)
      this.#options.log.info({ restarts: this.#restarts }, 'sandbox machinery is up again')
      this.#options.onHealth?.(true, '')
    } catch (error) {
      this.#options.log.error({ err: error }, 'sandbox machinery did not start')
      if (this.#closed) return
      for (const waiter of this.#waiting.splice(0)) waiter.reject(error as Error)
      this.#restart((error as Error).message)
    }
  }
}

function phrase(reason: unknown): string {
  return typeof reason === 'string' ? reason : reason instanceof Error ? reason.message : 'cancelled'
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100
}
