import type { Logger } from 'pino'
import { Machinery, type MachineryOptions } from './machinery.js'
import type { ZygoteKind } from './preloads.js'
import type { Sandbox } from './sandbox.js'

/** Sandboxes of each kind that wait for code when nothing is going on. */
const PARKED_LEAST = 2
/** Sandboxes that are being made at the same time: more would only take turns on the CPUs. */
const STARTING_MOST = 8
const PARK_WITHIN_MS = 15_000
/** Sandboxes that failed one after the other on their way to being parked, until the calls that wait hear of it. */
const FAILURES_MOST = 3
const FAILURE_PAUSE_MS = 25
const FAILURE_PAUSE_MOST_MS = 10_000
/** A call that gets no sandbox in this time is answered "not run". */
const TAKE_WITHIN_MS = 10_000
/** How long a burst is remembered: each time, a third of it is forgotten. */
const FORGET_EVERY_MS = 10_000
/** So many deaths of our own processes in so short a time are no accident any more. */
const CRASHES_MOST = 5
const CRASH_WINDOW_MS = 10_000
const CRASH_PAUSE_MS = 5_000
const CRASH_PAUSE_MOST_MS = 60_000

export interface SupplyOptions {
  readonly slots: number
  readonly machinery: MachineryOptions
  readonly log: Logger
  /** Whether sandboxes can be had; with the reason where they can't for now. */
  onHealth?(healthy: boolean, reason: string): void
}

interface Waiter {
  readonly kind: ZygoteKind
  resolve(sandbox: Sandbox): void
  reject(error: Error): void
}

/** What is kept of one kind of sandbox. */
interface Stock {
  readonly parked: Sandbox[]
  starting: number
  busy: number
  /** The most that were busy at once of late. */
  peak: number
}

/**
 * Keeps sandboxes parked, as many as demand asks for, and hands each out once. Starts the machinery anew when it dies,
 * and stops trying for a while when it keeps dying.
 */
export class Supply {
  readonly #options: SupplyOptions
  #machinery: Machinery
  readonly #stocks: Readonly<Record<ZygoteKind, Stock>> = { lean: emptyStock(), data: emptyStock() }
  readonly #waiting: Waiter[] = []
  readonly #freeSlots: number[] = []
  #slotsMade = 0
  #failures = 0
  #pausedUntil = 0
  #closed = false
  #healthy = true
  readonly #crashes: number[] = []
  readonly #timers = new Set<NodeJS.Timeout>()
  #restarting: Promise<void> = Promise.resolve()

  constructor(machinery: Machinery, options: SupplyOptions) {
    this.#options = options
    this.#machinery = machinery
    this.#adopt(machinery)
    const forget = setInterval(() => this.#forget(), FORGET_EVERY_MS)
    forget.unref()
    this.#timers.add(forget)
  }

  /** A parked sandbox of the kind. Rejects when none can be made, when the signal aborts, and when this is closed. */
  take(kind: ZygoteKind, signal: AbortSignal): Promise<Sandbox> {
    const ready = this.#pick(kind)
    if (ready !== undefined) {
      this.#refill()
      return Promise.resolve(ready)
    }
    return new Promise<Sandbox>((resolve, reject) => {
      const leave = (reason: string) => {
        const index = this.#waiting.indexOf(waiter)
        if (index >= 0) this.#waiting.splice(index, 1)
        waiter.reject(new Error(reason))
      }
      const onAbort = () => leave('cancelled')
      const timer = setTimeout(() => leave('no sandbox could be had in time'), TAKE_WITHIN_MS)
      const settled = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
      }
      const waiter: Waiter = {
        kind,
        resolve: sandbox => {
          settled()
          resolve(sandbox)
        },
        reject: error => {
          settled()
          reject(error)
        },
      }
      if (this.#closed) {
        waiter.reject(new Error('the worker is stopping'))
        return
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#waiting.push(waiter)
      this.#refill()
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearTimeout(timer)
    for (const waiter of this.#waiting.splice(0)) waiter.reject(new Error('the worker is stopping'))
    await this.#restarting
    await this.#machinery.close()
  }

  /** From the kind's own stock; from the other one where that can run the code as well, if more slowly. */
  #pick(kind: ZygoteKind): Sandbox | undefined {
    const own = this.#stocks[kind].parked.shift()
    if (own !== undefined) return this.#handOut(own)
    if (kind === 'data' && this.#machinery.isReady('data')) return undefined // worth waiting for
    const other = this.#stocks[kind === 'lean' ? 'data' : 'lean'].parked.shift()
    return other === undefined ? undefined : this.#handOut(other)
  }

  #handOut(sandbox: Sandbox): Sandbox {
    const stock = this.#stocks[sandbox.kind]
    stock.busy++
    stock.peak = Math.max(stock.peak, stock.busy)
    void sandbox.gone.then(() => stock.busy--)
    return sandbox
  }

  /** Starts as many sandboxes as are wanted: one for each who waits, and the parked ones behind them. */
  #refill(): void {
    if (this.#closed || performance.now() < this.#pausedUntil) return
    for (const kind of this.#machinery.kinds) {
      const stock = this.#stocks[kind]
      const wanted = Math.min(this.#options.slots, Math.max(PARKED_LEAST, Math.ceil(stock.peak / 2)))
      while (
        this.#machinery.isReady(kind) &&
        this.#stocks.lean.starting + this.#stocks.data.starting < STARTING_MOST &&
        stock.parked.length + stock.starting < wanted + this.#waitingFor(kind)
      ) {
        this.#start(kind)
      }
    }
  }

  #waitingFor(kind: ZygoteKind): number {
    return this.#waiting.filter(waiter => waiter.kind === kind).length
  }

  #start(kind: ZygoteKind): void {
    const slot = this.#freeSlots.pop() ?? this.#slotsMade++
    const stock = this.#stocks[kind]
    stock.starting++
    const sandbox = this.#machinery.createSandbox(slot, kind)
    const timer = setTimeout(() => sandbox.fail('the sandbox was not ready in time'), PARK_WITHIN_MS)
    void sandbox.gone.then(() => {
      const index = stock.parked.indexOf(sandbox)
      if (index >= 0) stock.parked.splice(index, 1)
      this.#freeSlots.push(slot)
      this.#refill()
    })
    sandbox.parked.then(
      () => {
        clearTimeout(timer)
        stock.starting--
        if (this.#failures >= FAILURES_MOST && this.#crashes.length < CRASHES_MOST) this.#setHealth(true, '')
        this.#failures = 0
        stock.parked.push(sandbox)
        this.#serve()
        this.#refill()
      },
      (error: Error) => {
        clearTimeout(timer)
        stock.starting--
        this.#failedToStart(error, kind)
      },
    )
  }

  #serve(): void {
    for (const waiter of [...this.#waiting]) {
      const sandbox = this.#pick(waiter.kind)
      if (sandbox === undefined) continue
      this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
      waiter.resolve(sandbox)
    }
  }

  /** Tried again with growing pauses; those who wait hear of it, and no more calls are taken until one could be made. */
  #failedToStart(error: Error, kind: ZygoteKind): void {
    // Where its zygote died with it, a new one is on its way, and those who wait get theirs from that.
    if (this.#closed || !this.#machinery.isReady(kind)) return
    this.#failures++
    this.#pausedUntil = performance.now() + Math.min(FAILURE_PAUSE_MOST_MS, FAILURE_PAUSE_MS * 2 ** this.#failures)
    this.#later(() => this.#refill(), this.#pausedUntil - performance.now())
    if (this.#failures < FAILURES_MOST) {
      this.#options.log.debug({ reason: error.message, inARow: this.#failures }, 'sandbox failed to start')
      return
    }
    this.#setHealth(false, error.message)
    for (const waiter of this.#waiting.splice(0)) waiter.reject(new Error('no sandbox can be made at the moment'))
  }

  #forget(): void {
    for (const stock of Object.values(this.#stocks)) {
      stock.peak = Math.max(stock.busy, Math.floor((stock.peak * 2) / 3))
      const spare = Math.max(PARKED_LEAST, Math.ceil(stock.peak / 2))
      for (const sandbox of stock.parked.splice(spare)) sandbox.fail('no longer needed')
    }
  }

  // ---------------------------------------------------------------- crashes

  #adopt(machinery: Machinery): void {
    this.#machinery = machinery
    machinery.onReady = () => {
      this.#refill()
      this.#serve()
    }
    machinery.onZygoteLost = (kind, reason) =>
      this.#afterCrash(reason, async () => {
        await machinery.restartZygote(kind)
      })
    machinery.onDown = reason =>
      this.#afterCrash(reason, async () => {
        await machinery.close()
        const next = await Machinery.start(this.#options.machinery)
        if (this.#closed) await next.close()
        else this.#adopt(next)
      })
    this.#refill()
  }

  /** At once as a rule; where crashes follow one another after growing pauses, and unhealthy until none has come for a while. */
  #afterCrash(reason: string, again: () => Promise<void>): void {
    if (this.#closed) return
    const now = performance.now()
    this.#crashes.push(now)
    if (this.#healthy) while ((this.#crashes[0] ?? now) < now - CRASH_WINDOW_MS) this.#crashes.shift()
    const beyond = this.#crashes.length - CRASHES_MOST
    if (beyond >= 0) this.#setHealth(false, reason)
    const pause = beyond < 0 ? 0 : Math.min(CRASH_PAUSE_MOST_MS, CRASH_PAUSE_MS * 2 ** beyond)
    this.#later(() => {
      this.#restarting = this.#restarting.then(() => this.#tryAgain(again))
    }, pause)
  }

  async #tryAgain(again: () => Promise<void>): Promise<void> {
    if (this.#closed) return
    try {
      await again()
      this.#options.log.info('sandbox machinery is up again')
      if (!this.#healthy) this.#provenAfter(CRASH_WINDOW_MS)
    } catch (error) {
      this.#options.log.error({ err: error }, 'sandbox machinery did not start')
      for (const waiter of this.#waiting.splice(0)) waiter.reject(new Error('no sandbox can be made at the moment'))
      this.#afterCrash((error as Error).message, again)
    }
  }

  /** Well again only when no further crash has come for a while. */
  #provenAfter(ms: number): void {
    const last = this.#crashes.at(-1)
    this.#later(() => {
      if (this.#crashes.at(-1) !== last) return
      this.#crashes.length = 0
      this.#setHealth(true, '')
    }, ms)
  }

  #later(action: () => void, ms: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      action()
    }, ms)
    this.#timers.add(timer)
  }

  #setHealth(healthy: boolean, reason: string): void {
    if (healthy === this.#healthy) return
    this.#healthy = healthy
    if (healthy) this.#options.log.info('sandboxes can be had again')
    else this.#options.log.error({ reason }, 'sandboxes can not be had for now')
    this.#options.onHealth?.(healthy, reason)
  }
}

function emptyStock(): Stock {
  return { parked: [], starting: 0, busy: 0, peak: 0 }
}
