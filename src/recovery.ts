import pLimit from 'p-limit'
import type { Logger } from 'pino'
import { type Answering, type AnsweringContext, deliverReply, postAnswer } from './answering.js'
import { loggedId } from './backend/protocol.js'
import { type CallContext, GIVE_UP_MS } from './call.js'
import { calledBefore } from './called-before.js'
import { type Ended, type HandledContext, tellHandled, toldOf } from './handled.js'
import type { Leftover, StoredAnswer } from './journal/journal.js'
import type { CalledTools } from './outcome.js'
import { answer } from './tool/outcome-without-run.js'

/** The backend has given the call up long before, but the answer may still be of use to whoever reads the thread. */
const UNDELIVERED_KEPT_MS = 24 * 3_600_000
/** Clocks jump: so often, over so long, it must have been offered in this life too. */
const OFFERED_LEAST = 5
const OFFERED_LEAST_MS = 10 * 60_000
/** Between rounds while the backend may still take an answer, doubling; and when it has given up what there is. */
const FIRST_PAUSE_MS = 2_000
const LONGEST_PAUSE_MS = 60_000
const OFFER_AGAIN_MS = 10 * 60_000
/** Answers can be large, and the backend has just come back. */
const AT_ONCE = 8

export interface RecoveryOptions {
  readonly context: AnsweringContext & HandledContext & Pick<CallContext, 'outcomes' | 'log' | 'mask'>
  /** Has the worker wait for it when it stops; see RunningCalls.add. */
  track(fcallId: string, handle: () => Promise<boolean>): void
}

/** What has come of the rounds of a leftover so far. */
interface Offers {
  /** Its wide event was written; that of a call of this life is written where it is handled. */
  isTold: boolean
  times: number
  readonly firstMs: number
  readonly timeouts: { times: number }
}

/**
 * Answers what the worker's life before has left, and posts anew what nobody has taken: in rounds, by itself from the first run() on and
 * whenever that is called. One attempt a round, so that one answer that is not taken does not keep back the others.
 */
export class Recovery {
  readonly #options: RecoveryOptions
  readonly #limit = pLimit(AT_ONCE)
  readonly #inHand = new Set<string>()
  readonly #offers = new Map<string, Offers>()
  readonly #closing = new AbortController()
  #pauseMs = FIRST_PAUSE_MS
  #next: { readonly timer: NodeJS.Timeout; readonly atMs: number } | null = null

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  /** Begins with each leftover that is not in hand; does not wait. */
  run(): void {
    const { context, track } = this.#options
    this.#runWithin(OFFER_AGAIN_MS)
    const leftovers = context.journal.leftovers()
    this.#forgetOffers(new Set(leftovers.map(({ key }) => key)))
    const found = leftovers.filter(({ key }) => !this.#inHand.has(key))
    if (found.length === 0) return
    const count = (state: Leftover['state']) => found.filter(leftover => leftover.state === state).length
    // While the backend takes nothing, those that are offered come again one by one.
    context.log[context.pace.heldUpMs === null ? 'info' : 'debug'](
      { claimed: count('claimed'), started: count('started'), settled: count('settled') },
      'answering calls that are left in the journal',
    )
    for (const leftover of found) {
      this.#inHand.add(leftover.key)
      track(leftover.call.fcall_id, () =>
        this.#limit(() => this.#answer(leftover)).finally(() => this.#inHand.delete(leftover.key)),
      )
    }
  }

  /** No further rounds by itself, and of this one only what is being posted. */
  close(): void {
    this.#closing.abort()
    clearTimeout(this.#next?.timer)
  }

  /** The next round comes in so long at the latest. */
  #runWithin(ms: number): void {
    if (this.#closing.signal.aborted) return
    const atMs = performance.now() + ms
    if (this.#next !== null && this.#next.atMs <= atMs) return
    clearTimeout(this.#next?.timer)
    const timer = setTimeout(() => {
      this.#next = null
      this.run()
    }, ms)
    this.#next = { timer, atMs }
  }

  #runSoon(): void {
    this.#runWithin(this.#pauseMs * (0.5 + Math.random()))
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2)
  }

  /** Whether the call is safe. */
  async #answer(leftover: Leftover): Promise<boolean> {
    const { context } = this.#options
    const { key, call, claimedAt, state } = leftover
    const log = context.log.child({ fcall_id: loggedId(call.fcall_id) })
    // Still on disk: the next life answers it.
    if (this.#closing.signal.aborted || context.stopPosting.aborted) return true
    const taken = await context.journal.takeOver(key)
    if (taken === null) {
      this.#runSoon() // somebody else has it, or it can't be read for now
      return true
    }
    const ageMs = Math.max(0, (context.wallClock ?? Date.now)() - claimedAt)
    const offers = this.#offersOf(key)
    const { timeouts } = offers
    const leave = this.#closing.signal
    const answering: Answering = { call, key, giveUpAtMs: performance.now(), timeouts, leave }
    if (taken.answer === null) {
      log.warn({ state, ageMs }, 'a call was cut off by the end of the worker')
      if (state === 'settled') context.onLost?.()
      const reply = answer(this.#outcome(leftover, await calledBefore(call, context)))
      const concluded = await deliverReply(answering, reply, async () => reply, context, log)
      this.#tell(leftover, offers, { reply: toldOf(reply), concluded, totalMs: ageMs }, log)
      if (concluded?.delivery.delivered === false) this.#runSoon()
      return concluded?.safe ?? true
    }
    const concluded = await postAnswer(answering, taken.answer, context, log)
    const { delivery, safe } = concluded
    const reply = { kind: 'earlier', status: statusOf(taken.answer) } as const
    this.#tell(leftover, offers, { reply, concluded, totalMs: ageMs }, log)
    if (delivery.delivered) {
      this.#pauseMs = FIRST_PAUSE_MS
      log.info({ ageMs }, 'an answer from the journal was delivered')
    } else if (delivery.why === 'gave_up' && ageMs > UNDELIVERED_KEPT_MS && wasOffered(offers)) {
      log.error({ ageMs, reason: delivery.error.message }, 'nobody has taken an answer for a day, it is given up')
      return await context.journal.rejected(key, `not taken within a day: ${delivery.error.message}`)
    }
    if (!delivery.delivered && ageMs < GIVE_UP_MS) this.#runSoon()
    return safe
  }

  #tell(
    { isOfEarlierLife }: Leftover,
    offers: Offers,
    ended: Pick<Ended, 'reply' | 'concluded' | 'totalMs'>,
    log: Logger,
  ): void {
    if (offers.isTold || !isOfEarlierLife) return
    offers.isTold = true
    tellHandled({ ...ended, call: null, delta: null }, this.#options.context, log)
  }

  /** One more of them has begun. */
  #offersOf(key: string): Offers {
    const offers = this.#offers.get(key) ?? {
      isTold: false,
      times: 0,
      firstMs: performance.now(),
      timeouts: { times: 0 },
    }
    offers.times++
    this.#offers.set(key, offers)
    return offers
  }

  #forgetOffers(left: ReadonlySet<string>): void {
    for (const key of this.#offers.keys()) if (!left.has(key) && !this.#inHand.has(key)) this.#offers.delete(key)
  }

  #outcome({ state, since }: Leftover, called: CalledTools) {
    const { outcomes } = this.#options.context
    switch (state) {
      case 'claimed':
        return outcomes.notRun(
          'interrupted',
          'the worker was ended and started anew before the code could start',
          called,
        )
      case 'started':
        return outcomes.broken(
          `the worker was ended and started anew after the code had started at ${iso(since)}`,
          true,
          called,
        )
      case 'settled': // its record has become unreadable
        return outcomes.broken(
          'the code had ended, and its result was lost when the worker was started anew',
          true,
          called,
        )
    }
  }
}

function statusOf({ provenance }: StoredAnswer): string {
  try {
    const { status } = JSON.parse(provenance) as { status?: unknown }
    if (typeof status === 'string') return status
  } catch {
    // As below.
  }
  return 'unknown'
}

/** Often and long enough to give it up. */
function wasOffered({ times, firstMs }: Offers): boolean {
  return times >= OFFERED_LEAST && performance.now() - firstMs >= OFFERED_LEAST_MS
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
