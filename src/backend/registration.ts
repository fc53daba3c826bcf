import type { Logger } from 'pino'
import { type BackendError, classifyBackendError } from './errors.js'
import type { Audience, BackendApi, RegisteredTool } from './http.js'
import { sleep as realSleep, type Sleep } from './waiting.js'

/** docs/protocol.md, "Registering the tool". */
const EVERY_MS = 120_000
const AFTER_FAILURE_MS = 60_000

export interface Registration {
  /** After each (re)subscription: registers at once, then keeps doing it. */
  activate(): void
  /** No longer subscribed, and not on purpose: an unreachable worker must not look alive. Ends a request in flight. */
  deactivate(): void
}

export interface RegistrationOptions {
  readonly api: Pick<BackendApi, 'confirmExists'>
  readonly tools: readonly RegisteredTool[]
  readonly audience: Audience
  readonly log: Logger
  /** The key was refused (auth) or this client may never work (never, after which nothing is sent until activate()). */
  readonly onRefused: (error: BackendError) => void
  readonly sleep?: Sleep
}

/**
 * The heartbeat: while it is active, each tool is confirmed to exist every 120 s, or 60 s after a failure. Keep it active while
 * subscribed or deliberately paused because full, since then the tool exists. Logs only when the result changes.
 */
export function createRegistration(options: RegistrationOptions): Registration {
  const { api, tools, audience, log, onRefused, sleep = realSleep } = options
  let active: AbortController | null = null
  let lastResult: string | null = null

  async function beat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const error = await registerAll(signal)
      if (signal.aborted) return
      tell(error)
      if (error?.kind === 'auth' || error?.kind === 'never') onRefused(error)
      if (error?.kind === 'never') return
      await sleep(error === null ? EVERY_MS : Math.max(AFTER_FAILURE_MS, error.retryAfterMs ?? 0), signal)
    }
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
    activate() {
      active?.abort()
      active = new AbortController()
      void beat(active.signal)
    },
    deactivate() {
      active?.abort()
      active = null
    },
  }
}
