import { createClient, MessageType } from 'graphql-ws'
import type { Logger } from 'pino'
import WebSocket from 'ws'
import { withTimeLimit } from '../time-limit.js'
import type { Credentials } from './credentials.js'
import { classifyBackendError, classifyBackendText, parseRetryAfter, textOfBody } from './errors.js'
import { loggedId, parseToolCall, type ToolCall, type UnreadableCall, WAIT_FOR_CALL } from './protocol.js'
import {
  type EndCause,
  endByBackendError,
  endByClose,
  endByErrorEvent,
  endByNetwork,
  endByRefusedUpgrade,
  endByUs,
  isOverMaxPayload,
  type SessionEnd,
} from './session-end.js'
import { faultOfUrl, readRefusal, tolerateNext } from './session-gaps.js'

/** Limits of one session, all in milliseconds but the last. */
interface SessionLimits {
  readonly credentialsMs: number
  /** Until the socket is open: name lookup, TCP, TLS and upgrade together. */
  readonly handshakeMs: number
  readonly ackMs: number
  readonly pingEveryMs: number
  /** Without any message for this long after a ping the peer counts as frozen. */
  readonly pongMs: number
  /** For the closing handshake when we end the session. */
  readonly stopMs: number
  readonly maxPayloadBytes: number
}

/**
 * The reference client's figures; docs/protocol.md, "Taking calls". But for the size of a message: what is larger closes the
 * socket, and a backend that delivers at least once sends it again, and so for ever. So it is well above what can come (10 MiB of
 * arguments grow sixfold where JSON escapes every character), and the arguments' own limit answers the call.
 */
export const SESSION_LIMITS: SessionLimits = {
  credentialsMs: 10_000,
  handshakeMs: 10_000,
  ackMs: 10_000,
  pingEveryMs: 30_000,
  pongMs: 10_000,
  stopMs: 1_000,
  maxPayloadBytes: 64 * 1024 * 1024,
}

/** While there is no connection: one who hangs is tried again soon, so that the end of an outage is noticed within seconds. */
export const HURRIED_LIMITS: Partial<SessionLimits> = { handshakeMs: 3_000, ackMs: 3_000 }

export interface SessionOptions {
  /** From wsEndpoint(). */
  readonly url: string
  readonly toolNames: readonly string[]
  readonly fgroupId: string | null
  /** null for a shared tool. */
  readonly fuserId: string | null
  readonly credentials: Credentials
  readonly log: Logger
  /** The ack has come and the subscribe message is sent; the protocol has no answer to that one. */
  onSubscribed(): void
  /** Must not wait. Calls may still come after a stop was asked for, until the backend has read it: they count. */
  onCall(call: ToolCall): void
  /**
   * Something came that is no call; `reason` names the fault and never quotes the key. `unreadable` is there if enough of it
   * could be read to answer it. The session lives on.
   */
  onMalformed(reason: string, fcallId: string | null, unreadable: UnreadableCall | null): void
  readonly limits?: Partial<SessionLimits>
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/**
 * One websocket, one subscription, until either ends; resolves with the reason and never rejects. Aborting `signal`
 * completes the subscription, then closes with 1000.
 *
 * What graphql-ws 6 does by itself, and why this file does more: with `retryAttempts: 0` it still reconnects at once after a close
 * 1000 while something is subscribed (so we unsubscribe inside the close event); it turns an exception of the socket's
 * constructor into an unhandled rejection and a client that hangs (so the URL is checked before); its ack timeout closes
 * politely, which a frozen peer never answers, and a missing pong has no consequence at all (so the timers here terminate).
 */
export async function runSession(options: SessionOptions, signal: AbortSignal): Promise<SessionEnd> {
  const limits = { ...SESSION_LIMITS, ...options.limits }
  const unconnected = (end: EndCause): SessionEnd => ({ ...end, stableMs: 0 })
  const badUrl = faultOfUrl(options.url)
  if (badUrl !== null) return unconnected({ ...endByNetwork(badUrl), cause: 'directed' })
  if (signal.aborted) return unconnected(endByUs('stopped'))
  let payload: Record<string, string>
  try {
    payload = await withTimeLimit(limits.credentialsMs, signal, limited => options.credentials.initPayload(limited))
  } catch (error) {
    if (signal.aborted) return unconnected(endByUs('stopped'))
    const failure = classifyBackendError(error)
    // Nobody answered, or a secret store that is down: soon again, as with a backend that is down.
    const cause = failure.status === null || failure.status >= 500 ? 'network' : 'directed'
    return unconnected({ ...endByBackendError(failure), cause })
  }
  return connected(options, limits, payload, signal)
}

function connected(
  options: SessionOptions,
  limits: SessionLimits,
  payload: Record<string, string>,
  signal: AbortSignal,
): Promise<SessionEnd> {
  const { log, now = () => performance.now() } = options
  const secrets = Object.entries(payload).flatMap(([name, value]) => (name === 'x-flexus-service-name' ? [] : [value]))

  return new Promise(resolve => {
    let socket: WebSocket | null = null
    let unsubscribe = () => {}
    let ended = false
    let acknowledged = false
    let subscribedAtMs: number | null = null
    /** What the backend said last in place of a call; explains a `complete` that follows. */
    let lastRefusal: EndCause | null = null
    let phaseTimer: NodeJS.Timeout | undefined
    let pingTimer: NodeJS.Timeout | undefined
    let pongTimer: NodeJS.Timeout | undefined

    const limitPhase = (ms: number, reason: string) => {
      clearTimeout(phaseTimer)
      phaseTimer = setTimeout(() => finish(endByNetwork(reason), 'at once'), ms)
    }

    /** First end wins. Politely: the closing handshake gets `stopMs`, so that the backend reads our `complete`. */
    function finish(end: EndCause, how: 'politely' | 'at once'): void {
      if (ended) return
      ended = true
      clearTimeout(phaseTimer)
      clearInterval(pingTimer)
      clearTimeout(pongTimer)
      signal.removeEventListener('abort', stop)
      const stableMs = subscribedAtMs === null ? 0 : now() - subscribedAtMs
      unsubscribe()
      const done = () => resolve({ ...end, stableMs })
      if (socket === null || socket.readyState === WebSocket.CLOSED) {
        done()
        return
      }
      const closing = socket
      if (how === 'at once' || closing.readyState === WebSocket.CONNECTING) {
        closing.terminate()
        done()
        return
      }
      const timer = setTimeout(() => closing.terminate(), limits.stopMs)
      closing.once('close', () => {
        clearTimeout(timer)
        done()
      })
      // graphql-ws closes once nothing is subscribed; before the ack nothing was, so this does it.
      closing.close(1000, 'Normal Closure')
    }

    const stop = () => finish(endByUs('stopped'), acknowledged ? 'politely' : 'at once')

    class SessionSocket extends WebSocket {
      constructor(address: string | URL, protocols?: string | string[]) {
        super(address, protocols, { maxPayload: limits.maxPayloadBytes, perMessageDeflate: false })
        socket = this
        this.on('unexpected-response', (_request, response) => {
          readRefusal(response, body => {
            const text = textOfBody(body, response.headers['content-type'] ?? null)
            const retryAfterMs = parseRetryAfter(response.headers['retry-after'], Date.now())
            finish(endByRefusedUpgrade(response.statusCode ?? 0, text, retryAfterMs), 'at once')
          })
        })
      }
    }

    const client = createClient({
      url: options.url,
      webSocketImpl: SessionSocket,
      lazy: true,
      retryAttempts: 0,
      connectionParams: payload,
      jsonMessageReviver: tolerateNext,
      on: {
        opened: () => limitPhase(limits.ackMs, 'no connection_ack in time'),
        connected: () => {
          acknowledged = true
          clearTimeout(phaseTimer)
          pingTimer = setInterval(ping, limits.pingEveryMs)
          // The subscribe message leaves in the microtasks after this event.
          setImmediate(subscribed)
        },
        message: message => {
          clearTimeout(pongTimer)
          pongTimer = undefined
          // Here and not in the sink: after a stop the sink is gone, but a call that was on its way counts.
          if (message.type !== MessageType.Next) return
          try {
            takeNext(message.payload)
          } catch (error) {
            // Thrown into graphql-ws it would close the socket, and the call would come again to throw again.
            log.error({ err: error }, 'taking a call failed')
          }
        },
        closed: event => {
          const { code, reason } = event as { code: number; reason: string }
          finish(endByClose(code, reason, secrets), 'at once')
        },
        error: error => {
          // Never mended by connecting again: whoever runs the backend has to hear of it.
          if (isOverMaxPayload(error)) {
            log.error(
              { maxBytes: limits.maxPayloadBytes },
              'the backend sent a message too large to be taken, which ends the connection',
            )
          }
          finish(endByErrorEvent(error), 'at once')
        },
      },
    })
    limitPhase(limits.handshakeMs, 'no websocket handshake in time')
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) queueMicrotask(stop)
    unsubscribe = client.subscribe(
      {
        query: WAIT_FOR_CALL,
        operationName: 'CloudtoolWait',
        variables: { names: options.toolNames, fgroup_id: options.fgroupId, fuser_id: options.fuserId },
      },
      {
        next: () => {},
        // Only an `error` message arrives here first; closes and socket errors were seen by the events above.
        error: errors => finish(endByBackendError(classifyMessages(errors)), 'politely'),
        complete: () => finish(lastRefusal ?? endByNetwork('the backend completed the subscription'), 'politely'),
      },
    )

    function subscribed(): void {
      if (ended || subscribedAtMs !== null) return
      subscribedAtMs = now()
      options.onSubscribed()
    }

    function ping(): void {
      if (socket?.readyState !== WebSocket.OPEN) return
      socket.send(JSON.stringify({ type: MessageType.Ping }))
      pongTimer ??= setTimeout(() => {
        // After a long pause of our own the pong may lie unread in the kernel: let it be read first.
        setImmediate(() => {
          if (pongTimer !== undefined) finish(endByNetwork('no pong in time'), 'at once')
        })
      }, limits.pongMs)
    }

    function takeNext({ data, errors }: { data?: unknown; errors?: unknown }): void {
      subscribed()
      const refused = Array.isArray(errors) && errors.length > 0 ? classifyMessages(errors) : null
      if (refused?.kind === 'auth' || refused?.kind === 'never') {
        finish(endByBackendError(refused), 'politely')
        return
      }
      lastRefusal = refused === null ? null : endByBackendError(refused)
      const value = (data as Record<string, unknown> | null | undefined)?.['cloudtool_wait_for_call']
      if (value === undefined || value === null) {
        options.onMalformed(refused?.message ?? 'a message without a call', null, null)
        return
      }
      const parsed = parseToolCall(value)
      if (!parsed.ok) {
        options.onMalformed(parsed.reason, parsed.fcallId, parsed.unreadable)
        return
      }
      if (parsed.personaLeftOut) {
        log.warn({ fcall_id: loggedId(parsed.call.fcall_id) }, 'the persona of a call can not be sent and is left out')
      }
      options.onCall(parsed.call)
    }

    function classifyMessages(errors: unknown) {
      const first: unknown = Array.isArray(errors) ? errors[0] : null
      const message = (first as { message?: unknown } | null)?.message
      return classifyBackendText(typeof message === 'string' ? message : 'the backend sent an error', secrets)
    }
  })
}
