import type { Logger } from 'pino'
import { type BackendError, classifyBackendError } from './errors.js'
import type { Audience, BackendApi, RegisteredTool } from './http.js'
import { sleep as realSleep, type Sleep } from './waiting.js'

/** docs/protocol.md, "Registering the tool". */
const EVERY_MS = 120_000
const AFTER_FAILURE_MS = 60_000
const AFTER_FIRST_REFUSAL_MS = 1_000
/** A success this young is not repeated for a subscription that we had paused ourselves. */
const FRESH_MS = 60_000
/** Two heartbeats have failed: whoever forgets tools that are not confirmed may have forgotten ours. */
const MISSED_MS = 2 * EVERY_MS + 10_000

export interface Registration {
  /**
   * Begins the heartbeat, or lets it go on. `anew` (after a lost connection: the backend may be another one) registers at once;
   * else nothing is sent earlier than the last success asks for, so that one who pauses often does not register often.
   */
  activate(anew: boolean): void
  /** No longer subscribed, and not on purpose: an unreachable worker must not look alive. Ends a request in flight. */
  deactivate(): void
  /** Whether the tool is known to the backend as far as we can tell: accepted since the last connect anew, and in the last four minutes. */
  readonly isRegistered: boolean
}

export interface RegistrationOptions {
  readonly api: Pick<BackendApi, 'confirmExists'>
  readonly tools: readonly RegisteredTool[]
  readonly audience: Audience
  readonly log: Logger
  /** The key was refused twice (auth), or this client may never work (never, after which nothing is sent until activate()). */
  readonly onRefused: (error: BackendError) => void
  /** All tools are registered; told after each success. */
  readonly onAccepted: () => void
  readonly sleep?: Sleep
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/**
 * The heartbeat: while it is active, each tool is confirmed to exist every 120 s, or 60 s after a failure. Keep it active while
 * subscribed or deliberately paused because full, since then the tool exists; and while the key is refused, since nothing
 * else would notice that it works again. Logs only when the result changes.
 */
export function createRegistration(options: RegistrationOptions): Registration {
  const { api, tools, audience, log, onRefused, onAccepted } = options
  const { sleep = realSleep, now = () => performance.now() } = options
  let active: AbortController | null = null
  let lastResult: string | null = null
  let lastSuccessMs = Number.NEGATIVE_INFINITY
  /** Since it was activated anew. */
  let isAccepted = false
  /** In a row. */
  let authFailures = 0

  async function beat(signal: AbortSignal, firstDelayMs: number): Promise<void> {
    if (firstDelayMs > 0) await sleep(firstDelayMs, signal)
    while (!signal.aborted) {
      const error = await registerAll(signal)
      if (signal.aborted) return
      tell(error)
      const delayMs = after(error)
      if (delayMs === null) return
      await sleep(delayMs, signal)
    }
  }

  /** Tells the owner; returns the time until the next attempt, null for none. */
  function after(error: BackendError | null): number | null {
    authFailures = error?.kind === 'auth' ? authFailures + 1 : 0
    if (error === null) {
      lastSuccessMs = now()
      isAccepted = true
      onAccepted()
      return EVERY_MS
    }
    // A token may have been rotated: the HTTP side has thrown the cached one away.
    if (authFailures === 1) return Math.max(AFTER_FIRST_REFUSAL_MS, error.retryAfterMs ?? 0)
    if (error.kind === 'auth' || error.kind === 'never') onRefused(error)
    return error.kind === 'never' ? null : Math.max(AFTER_FAILURE_MS, error.retryAfterMs ?? 0)
  }

  /** One tool's failure does not keep the others from being registered; the first error is the result. */
  async function registerAll(signal: AbortSignal): Promise<BackendError | null> {
    let first: BackendError | null = null
    for (const tool of tools) {
      try {
        await api.confirmExists(tool, audience, signal)
      } catch (error) {
        if (signal.aborted) return null
        first ??= classifyBackendError(error)
      }
    }
    return first
  }

  function tell(error: BackendError | null): void {
    const result = error === null ? 'registered' : `${error.kind} ${error.message}`
    if (result === lastResult) return
    lastResult = result
    const names = tools.map(tool => tool.name)
    if (error === null) log.info({ tools: names }, 'tools registered')
    else log.warn({ tools: names, kind: error.kind, reason: error.message }, 'tools could not be registered')
  }

  return {
    get isRegistered() {
      return isAccepted && now() - lastSuccessMs < MISSED_MS
    },
    activate(anew) {
      if (active !== null && !anew) return
      active?.abort()
      active = new AbortController()
      if (anew) isAccepted = false
      const sinceMs = now() - lastSuccessMs
      beat(active.signal, anew || sinceMs >= FRESH_MS ? 0 : EVERY_MS - sinceMs).catch((error: unknown) =>
        log.error({ err: error }, 'the heartbeat failed'),
      )
    },
    deactivate() {
      active?.abort()
      active = null
    },
  }
}
