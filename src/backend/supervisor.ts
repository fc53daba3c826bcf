import type { Logger } from 'pino'
import type { SessionEnd } from './session-end.js'
import { fullJitterMs, sleep as realSleep, type Sleep } from './waiting.js'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/**
 *                    pause()                    stop()
 *   connecting ──▶ subscribed ──▶ paused      (from anywhere) ──▶ stopped
 *      ▲  │            │            │
 *      │  ▼            ▼            │ resume()
 *     waiting ◀─────── ┴ ─────▶ connecting
 *      │
 *      └── 460, or forbid() ──▶ forbidden, for good
 */
export type SupervisorState =
  | { readonly name: 'connecting' }
  /** `resumed`: it was we who left the last subscription; else the backend may have forgotten us, or never knew us. */
  | { readonly name: 'subscribed'; readonly resumed: boolean }
  /** The subscription is completed on our own wish. */
  | { readonly name: 'paused' }
  /** `why` auth: the key is refused, retried each minute. */
  | {
      readonly name: 'waiting'
      readonly why: 'network' | 'directed' | 'auth'
      readonly delayMs: number
      readonly reason: string
    }
  /** The backend said 460: this client may never work. */
  | { readonly name: 'forbidden'; readonly reason: string }
  | { readonly name: 'stopped' }

export interface Supervisor {
  readonly state: SupervisorState
  /** Completes the subscription and stays away until resume(): other replicas get the calls. */
  pause(): void
  resume(): void
  /** The HTTP side was told 460: end the session and never connect again. */
  forbid(reason: string): void
  /** Completes the subscription and closes; resolves when that is done. */
  stop(): Promise<void>
}

export interface SupervisorOptions {
  /**
   * Runs one session until it ends or the signal aborts; calls `onSubscribed` once it stands. See runSession. `hurried`: who does not answer
   * soon is to be given up and tried again.
   */
  readonly session: (onSubscribed: () => void, signal: AbortSignal, hurried: boolean) => Promise<SessionEnd>
  /** Throws away a cached token that the backend refused. */
  readonly invalidateCredentials: () => void
  readonly log: Logger
  /** host:port, for the log. */
  readonly address: string
  /** Told of each change, in order, synchronously. Must not throw. */
  readonly onState: (state: SupervisorState) => void
  /** Told of each session that ended, or did not come about, and not by our own wish; `why` as in the states. Must not throw. */
  readonly onEnded?: (why: 'network' | 'directed' | 'auth' | 'forbidden') => void
  /** The first connect waits a random part of this, so that replicas started together come one by one. */
  readonly firstConnectWithinMs?: number
  readonly random?: () => number
  readonly sleep?: Sleep
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/** A subscription that stood this long was a good one: both backoffs begin anew. */
const STABLE_MS = MINUTE
/** One that fell within this time was no subscription: the backend took us in and sent us off. */
const SHORT_LIFE_MS = 5 * SECOND
const FIRST_DELAY_MS = SECOND
/**
 * Two backoffs, counted apart, both with full jitter. Where something answered and sent us away (429, 4xx, ack and drop) the
 * span doubles to 60 s. Where nothing answered (refused, reset, timed out, 5xx of a proxy) it ends at 4 s: one attempt each 2 s
 * on average costs a dead backend nothing, its return is noticed within 4 s however long it was away, and a fleet is
 * still spread over those seconds.
 */
const LONGEST_DIRECTED_MS = MINUTE
const LONGEST_NETWORK_MS = 4 * SECOND
/** One who is full and free again in turns connects no more often than this, and half of it at random. */
const RESUME_SPACING_MS = SECOND
/** For so long of an outage every attempt is hurried; after that every other one, for a backend that is merely slow. */
const HURRIED_MS = 2 * MINUTE
/** A refused key is mended by a person or by rotation; the first retry comes soon, with a token fetched afresh. */
const AUTH_DELAY_MS = MINUTE

/** Keeps a session alive: starts at once, ends with stop(). */
export function createSupervisor(options: SupervisorOptions): Supervisor {
  const { log, onState, session, firstConnectWithinMs = SECOND } = options
  const { random = Math.random, sleep = realSleep, now = () => performance.now() } = options

  let state: SupervisorState = { name: 'connecting' }
  let stopping = false
  let paused = false
  let forbidden: string | null = null
  let tellForbiddenAtMs = Number.NEGATIVE_INFINITY
  let failures = { network: 0, directed: 0, auth: 0 }
  let notBeforeMs = now() + random() * firstConnectWithinMs
  let lastWaiting: SupervisorState | null = null
  let leftByUs = false
  let startedMs = Number.NEGATIVE_INFINITY
  let wasHurried = false
  let outage: { readonly sinceMs: number; authTold: boolean } | null = null
  /** Aborted to make the loop look again at stopping, paused and forbidden. */
  let step = new AbortController()

  function setState(next: SupervisorState): void {
    if (next.name === state.name && next.name !== 'waiting') return
    state = next
    onState(next)
  }

  async function run(): Promise<void> {
    onState(state)
    while (!stopping) {
      if (step.signal.aborted) step = new AbortController()
      const waitMs = notBeforeMs - now()
      if (forbidden !== null) {
        setState({ name: 'forbidden', reason: forbidden })
        if (now() >= tellForbiddenAtMs) {
          tellForbiddenAtMs = now() + HOUR
          log.error({ reason: forbidden }, 'the backend forbids this client for good, not connecting')
        }
        await sleep(tellForbiddenAtMs - now(), step.signal)
      } else if (paused) {
        setState({ name: 'paused' })
        await sleep(HOUR, step.signal)
      } else if (waitMs > 0) {
        if (lastWaiting !== null) setState(lastWaiting)
        await sleep(waitMs, step.signal)
      } else {
        setState({ name: 'connecting' })
        startedMs = now()
        wasHurried = outage !== null && (startedMs - outage.sinceMs < HURRIED_MS || !wasHurried)
        ended(await session(subscribed, step.signal, wasHurried))
      }
    }
    setState({ name: 'stopped' })
  }

  function subscribed(): void {
    lastWaiting = null
    setState({ name: 'subscribed', resumed: leftByUs })
    if (outage !== null) log.info({ outageMs: Math.round(now() - outage.sinceMs) }, 'connection to the backend is back')
    outage = null
  }

  function ended(end: SessionEnd): void {
    if (end.stableMs >= STABLE_MS) failures = { network: 0, directed: 0, auth: 0 }
    // Told to stop before it was subscribed, a session says nothing about the one before it.
    if (end.kind !== 'stopped') leftByUs = false
    else if (state.name === 'subscribed') leftByUs = true
    switch (end.kind) {
      case 'stopped':
        return
      case 'never':
        options.onEnded?.('forbidden')
        forbidden ??= end.reason
        return
      case 'auth': {
        tellOutage(end)
        options.invalidateCredentials()
        failures.auth += 1
        if (outage !== null && !outage.authTold) {
          outage.authTold = true
          log.error({ reason: end.reason }, 'the backend refuses our credentials, trying again each minute')
        }
        const minute = AUTH_DELAY_MS * (0.9 + 0.2 * random())
        const delayMs = failures.auth === 1 ? random() * FIRST_DELAY_MS : minute
        waitFor('auth', Math.max(delayMs, end.retryAfterMs ?? 0), end.reason)
        return
      }
      case 'retry': {
        tellOutage(end)
        failures.auth = 0
        const shortLived = end.stableMs > 0 && end.stableMs < SHORT_LIFE_MS
        const why = shortLived ? 'directed' : end.cause
        failures[why] += 1
        const longestMs = why === 'network' ? LONGEST_NETWORK_MS : LONGEST_DIRECTED_MS
        // Who hung has had us wait already: an outage's end is to be noticed as soon as where attempts fail at once.
        const hungMs = why === 'network' && end.stableMs === 0 ? now() - startedMs : 0
        const delayMs = Math.max(0, fullJitterMs(failures[why], FIRST_DELAY_MS, longestMs, random) - hungMs)
        waitFor(why, Math.max(delayMs, end.retryAfterMs ?? 0), end.reason)
      }
    }
  }

  function waitFor(why: 'network' | 'directed' | 'auth', delayMs: number, reason: string): void {
    options.onEnded?.(why)
    notBeforeMs = now() + delayMs
    lastWaiting = { name: 'waiting', why, delayMs, reason }
    log.debug({ why, delayMs: Math.round(delayMs), reason }, 'backend session ended, will connect again')
  }

  function tellOutage(end: SessionEnd): void {
    if (outage !== null) return
    outage = { sinceMs: now(), authTold: false }
    const { reason, kind, stableMs } = end
    log.warn({ address: options.address, reason, kind, stableMs: Math.round(stableMs) }, 'no connection to the backend')
  }

  // Not before the owner holds what it is told about.
  const loop = Promise.resolve().then(run)

  return {
    get state() {
      return state
    },
    pause() {
      if (paused) return
      paused = true
      step.abort()
    },
    resume() {
      if (!paused) return
      paused = false
      notBeforeMs = Math.max(notBeforeMs, startedMs + RESUME_SPACING_MS * (1 + random() / 2))
      step.abort()
    },
    forbid(reason) {
      if (forbidden !== null) return
      forbidden = reason
      step.abort()
    },
    stop() {
      stopping = true
      step.abort()
      return loop
    },
  }
}
