import type { Logger } from 'pino'
import { Machinery, type MachineryOptions } from './machinery.js'
import type { ZygoteKind } from './preloads.js'
import type { Sandbox } from './sandbox.js'

/** Sandboxes of each kind that wait for code when nothing is going on. */
const PARKED_LEAST = 2
/** Sandboxes that are being made at the same time: more would only take turns on the CPUs. */
const STARTING_MOST = 8
const PARK_WITHIN_MS = 15_000
/** A sandbox that failed on its way to being parked is replaced; after so many in a row the call that waits hears of it. */
const FAILURES_MOST = 3
/** How long a burst is remembered: each time, a third of it is forgotten. */
const FORGET_EVERY_MS = 10_000
/** So many deaths of our own processes in so short a time are no accident any more. */
const CRASHES_MOST = 5
const CRASH_WINDOW_MS = 10_000
const CRASH_PAUSE_MS = 10_000

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
      const onAbort = () => {
        const index = this.#waiting.indexOf(waiter)
        if (index >= 0) this.#waiting.splice(index, 1)
        reject(new Error('cancelled'))
      }
      const waiter: Waiter = {
        kind,
        resolve: sandbox => {
          signal.removeEventListener('abort', onAbort)
          resolve(sandbox)
        },
        reject: error => {
          signal.removeEventListener('abort', onAbort)
          reject(error)
        },
      }
      if (this.#closed) {
        reject(new Error('the worker is stopping'))
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
    if (this.#closed) return
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

  #failedToStart(error: Error, kind: ZygoteKind): void {
    // Where its zygote died with it, a new one is on its way, and those who wait get theirs from that.
    if (this.#closed || !this.#machinery.isReady(kind)) return
    this.#failures++
    this.#options.log.warn({ reason: error.message, inARow: this.#failures }, 'sandbox failed to start')
    if (this.#failures < FAILURES_MOST) return
    this.#failures = 0
    this.#waiting.shift()?.reject(error)
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

  /** At once as a rule; after a pause, and unhealthy until it has worked, where crashes follow one another. */
  #afterCrash(reason: string, again: () => Promise<void>): void {
    if (this.#closed) return
    const now = performance.now()
    this.#crashes.push(now)
    while ((this.#crashes[0] ?? now) < now - CRASH_WINDOW_MS) this.#crashes.shift()
    const loops = this.#crashes.length >= CRASHES_MOST
    if (loops) this.#setHealth(false, reason)
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        this.#restarting = this.#restarting.then(() => this.#tryAgain(again))
      },
      loops ? CRASH_PAUSE_MS : 0,
    )
    this.#timers.add(timer)
  }

  async #tryAgain(again: () => Promise<void>): Promise<void> {
    if (this.#closed) return
    try {
      await again()
      this.#options.log.info('sandbox machinery is up again')
      if (this.#crashes.length < CRASHES_MOST) this.#setHealth(true, '')
      else this.#provenAfter(CRASH_WINDOW_MS)
    } catch (error) {
      this.#options.log.error({ err: error }, 'sandbox machinery did not start')
      for (const waiter of this.#waiting.splice(0)) waiter.reject(error as Error)
      this.#afterCrash((error as Error).message, again)
    }
  }

  /** Well again only when no further crash has come for a while. */
  #provenAfter(ms: number): void {
    const crashes = this.#crashes.at(-1)
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      if (this.#crashes.at(-1) === crashes) this.#setHealth(true, '')
    }, ms)
    timer.unref()
    this.#timers.add(timer)
  }

  #setHealth(healthy: boolean, reason: string): void {
    if (healthy === this.#healthy) return
    this.#healthy = healthy
    if (healthy) this.#options.log.info('sandboxes can be had again')
    else this.#options.log.error({ reason }, 'sandbox machinery keeps crashing')
    this.#options.onHealth?.(healthy, reason)
  }
}

function emptyStock(): Stock {
  return { parked: [], starting: 0, busy: 0, peak: 0 }
}
