import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { Agent, fetch, type Response } from 'undici'
import { parseExactly } from '../../exact-json.js'
import { type ConnectionOptions, NotSent, SessionLost } from './connection.js'
import { EventReader } from './event-stream.js'
import { GatedConnection } from './gated-connection.js'
import { firstWords, isUnsent, locationOf, mediaType, networkWords, textOf } from './http-response.js'
import { isRequest, MESSAGE_MAX_BYTES, TOO_LARGE } from './message-gate.js'
import type { HttpConnection as HttpConfig } from './server-config.js'

const CONNECT_MS = 10_000
/** For what has no limit of its own: notifications. */
const NOTIFY_MS = 10_000
const GOODBYE_MS = 2_000
/** How long a stream may stay open after its answer. */
const LEFT_MS = 1_000
const ERROR_BODY_BYTES = 4_096
const LISTEN_AGAIN_MS = 1_000
const LISTEN_AGAIN_MAX_MS = 60_000
/** How often an answer's stream that the server cut is taken up again. */
const RESUMED_MAX = 3
const EVENTS = 'text/event-stream'

/**
 * A server that speaks streamable HTTP. Bodies and events are bounded, redirects are not followed (the headers hold secrets), and a
 * stream that ends without its answer ends the request at once; the SDK's own transport has none of the three.
 */
export class HttpConnection extends GatedConnection {
  readonly #config: HttpConfig
  readonly #agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS } })
  /** Aborts all that goes on. */
  readonly #over = new AbortController()
  readonly #posts = new Map<number, AbortController>()
  #ending: Promise<void> | null = null
  #session: string | null = null
  #version: string | null = null

  constructor(config: HttpConfig, options: ConnectionOptions) {
    super(options)
    this.#config = config
  }

  async start(): Promise<void> {}

  setProtocolVersion(version: string): void {
    this.#version = version
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const cancelled = this.gate.sent(message)
    const id = isRequest(message) ? Number(message.id) : null
    // Not AbortSignal.any: on a signal that lives long it keeps an entry per request on some Node 20 releases.
    const post = new AbortController()
    const abort = () => post.abort()
    this.#over.signal.addEventListener('abort', abort, { once: true })
    const limit = id === null ? setTimeout(abort, NOTIFY_MS) : undefined
    if (id !== null) this.#posts.set(id, post)
    if (cancelled !== null) this.#posts.get(cancelled)?.abort()
    try {
      await this.#post(message, post.signal, id)
    } finally {
      clearTimeout(limit)
      this.#over.signal.removeEventListener('abort', abort)
      if (id !== null) this.#posts.delete(id)
    }
    if ('method' in message && message.method === 'notifications/initialized') void this.#listen()
  }

  end(words: string): Promise<void> {
    this.#ending ??= this.#end(words)
    return this.#ending
  }

  async #end(words: string): Promise<void> {
    this.#over.abort()
    if (this.#session !== null) {
      try {
        const signal = AbortSignal.timeout(GOODBYE_MS)
        await (await this.#fetch('DELETE', {}, signal)).body?.cancel()
      } catch {
        // It need not know sessions, or be there at all.
      }
    }
    await this.#agent.destroy()
    this.tellEnded(words)
  }

  /** Sends a message and reads what comes back; `id` of the request, which has its answer when this resolves. */
  async #post(message: JSONRPCMessage, signal: AbortSignal, id: number | null): Promise<void> {
    const accept = `application/json, ${EVENTS}`
    const body = JSON.stringify(message)
    const response = await this.#fetch('POST', { accept, 'content-type': 'application/json' }, signal, body)
    this.#session = response.headers.get('mcp-session-id') ?? this.#session
    if (!response.ok) throw await this.#refused(response)
    if (id === null || response.status === 202) {
      await response.body?.cancel()
      if (id !== null) this.gate.fail(id, 'took the request and gave no answer')
      return
    }
    const type = mediaType(response)
    if (type === EVENTS) await this.#readAnswer(response, signal, id)
    else if (type === 'application/json') {
      const text = await textOf(response, MESSAGE_MAX_BYTES, () => this.#heard())
      if (text === null) this.gate.fail(id, TOO_LARGE)
      else this.#take(text)
    } else {
      await response.body?.cancel()
      throw new NotSent(`answered with the content type ${type}, which is none of MCP`)
    }
    this.gate.fail(id, 'ended its answer before the result')
  }

  async #readAnswer(response: Response, signal: AbortSignal, id: number): Promise<void> {
    let lastEventId = await this.#readEvents(response, signal, id)
    for (let resumed = 0; resumed < RESUMED_MAX && lastEventId !== null && this.gate.waitsFor(id); resumed++) {
      await pause(LISTEN_AGAIN_MS, signal)
      const again = await this.#fetch('GET', { accept: EVENTS, 'last-event-id': lastEventId }, signal)
      if (!again.ok || mediaType(again) !== EVENTS) return void (await again.body?.cancel())
      lastEventId = await this.#readEvents(again, signal, id)
    }
  }

  /** The stream on which the server sends what belongs to no request. Kept open; a server need not have it. */
  async #listen(): Promise<void> {
    const { signal } = this.#over
    let pauseMs = LISTEN_AGAIN_MS
    while (!signal.aborted) {
      const startMs = this.options.now()
      try {
        const response = await this.#fetch('GET', { accept: EVENTS }, signal)
        if (response.status < 500 && (!response.ok || mediaType(response) !== EVENTS)) {
          await response.body?.cancel()
          return
        }
        if (response.ok) await this.#readEvents(response, signal, null)
        else await response.body?.cancel()
      } catch {
        // Requests find out whether the server is there at all.
      }
      pauseMs =
        this.options.now() - startMs > LISTEN_AGAIN_MAX_MS
          ? LISTEN_AGAIN_MS
          : Math.min(2 * pauseMs, LISTEN_AGAIN_MAX_MS)
      await pause(pauseMs, signal).catch(() => {})
    }
  }

  /**
   * Reads a stream to its end, or until request `id` has its answer; returns the id of its last event. A connection that
   * breaks is an end too.
   */
  async #readEvents(response: Response, signal: AbortSignal, id: number | null): Promise<string | null> {
    let lastEventId: string | null = null
    let tooLarge = false
    let afterAnswer: NodeJS.Timeout | undefined
    const reader = new EventReader(MESSAGE_MAX_BYTES, {
      event: event => {
        lastEventId = event.id ?? lastEventId
        if (event.data !== '') this.#take(event.data)
      },
      oversized: (head, tail) => this.gate.oversized(head, tail),
      discarded: bytes => {
        // Whatever it is that is too large, the rest of this answer is not waited for.
        tooLarge = id !== null
        if (id !== null) this.gate.fail(id, TOO_LARGE)
        this.pace.discarded(bytes)
      },
      nothing: () => this.pace.nothing(),
    })
    try {
      for await (const chunk of response.body ?? []) {
        this.#heard()
        reader.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
        if (tooLarge) break // which cancels the body
        // A stream that ends by itself leaves its connection to the next request.
        if (id !== null && !this.gate.waitsFor(id))
          afterAnswer ??= setTimeout(() => this.#posts.get(id)?.abort(), LEFT_MS)
        const pauseMs = this.pace.pauseMs
        if (pauseMs > 0) await pause(pauseMs, signal)
      }
    } catch (error) {
      if (signal.aborted) throw error
    } finally {
      clearTimeout(afterAnswer)
    }
    return lastEventId
  }

  #heard(): void {
    this.heardAtMs = this.options.now()
  }

  #take(text: string): void {
    if (this.gate.refuses(Buffer.from(text))) {
      this.pace.discarded(text.length)
      return
    }
    let value: unknown
    try {
      value = parseExactly(text)
    } catch {
      value = undefined
    }
    if (this.gate.received(value) !== 'answer') this.pace.unsolicited(text.length)
  }

  async #fetch(
    method: string,
    headers: Record<string, string>,
    signal: AbortSignal,
    body: string | null = null,
  ): Promise<Response> {
    const all: Record<string, string> = { ...this.#config.headers, ...headers }
    if (this.#session !== null) all['mcp-session-id'] = this.#session
    if (this.#version !== null) all['mcp-protocol-version'] = this.#version
    try {
      return await fetch(this.#config.url, {
        method,
        headers: all,
        body,
        signal,
        redirect: 'manual',
        dispatcher: this.#agent,
      })
    } catch (error) {
      if (signal.aborted && this.#over.signal.aborted) throw new NotSent('is closed')
      const words = networkWords(error)
      if (isUnsent(words)) throw new NotSent(`can not be reached: ${words}`)
      // Whoever hears that it was not reached calls again, and what the server had begun would be done twice.
      throw new NotSent(`broke off before it answered (${words}), and may have done what it was asked`)
    }
  }

  async #refused(response: Response): Promise<Error> {
    const { status } = response
    if (status >= 300 && status < 400) {
      await response.body?.cancel()
      const target = locationOf(response, this.#config.url)
      return new NotSent(
        'answers with a redirect, which is not followed',
        `a redirect to ${target}: its configuration has to name that URL`,
      )
    }
    const text = (await textOf(response, ERROR_BODY_BYTES, () => {}).catch(() => null)) ?? ''
    if (status === 404 && this.#session !== null) return new SessionLost('has forgotten its session')
    return new NotSent(`answered HTTP ${status}${text === '' ? '' : `: ${firstWords(text)}`}`)
  }
}

/** Rejects when the signal aborts. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const abort = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, ms)
    signal.addEventListener('abort', abort, { once: true })
  })
}
