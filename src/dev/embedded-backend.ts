import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, isIPv6, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ToolCall } from '../backend/protocol.js'
import { type CallStore, createCallStore, type Redelivery } from './call-store.js'
import type { AcceptedCredentials } from './credential-check.js'
import { createEvents, type Events } from './events.js'
import { answerGraphql } from './graphql-http.js'
import { createLedger, type Ledger } from './ledger.js'
import { createRulebook, type Misbehaviour, type Scope } from './misbehaviour.js'
import type { Answer } from './records.js'
import { answerText } from './request-body.js'
import { createRoots, createSchema } from './schema.js'
import { createSockets, refuseUpgrade, type Sockets } from './sockets.js'

const MIB = 1024 * 1024
const LOOPBACK = '127.0.0.1'
const DELTA_PATH = '/v1/delta/ws'

/** A route beside the backend's own, for example of the dev server; the signal aborts with stop(). */
type Route = (request: IncomingMessage, response: ServerResponse, stopping: AbortSignal) => Promise<void>

export interface EmbeddedBackendOptions {
  /** Address to listen on; default 127.0.0.1. Another one lets in whoever reaches it and has the key. */
  readonly host?: string
  /** TCP port; default 0, any free one, which stays the same over stop() and start(). */
  readonly port?: number
  /** Paths of the GraphQL endpoint; default /v1/graphql and /v1/jailed-bot. */
  readonly endpoints?: readonly string[]
  /** What is let in; default a random API key, see `apiKey`. */
  readonly accepted?: AcceptedCredentials
  /** Default `unanswered`. */
  readonly redeliver?: Redelivery
  /** Longer HTTP bodies are answered 413; default 10 MiB, what docs/protocol.md assumes. */
  readonly maxBodyBytes?: number
  /** Monotonic clock in milliseconds; default performance.now. */
  readonly now?: () => number
}

export interface EmbeddedBackend
  extends Omit<Ledger, 'post' | 'register' | 'requestConfirmation' | 'recordDelta' | 'recordDeltaFault'> {
  /** Base URL with a slash at its end, as programs of this machine reach it. */
  readonly url: string
  readonly port: number
  /** The accepted API key; "" where only other credentials are accepted. */
  readonly apiKey: string
  readonly subscribers: number
  /** Puts a call in line; what is not given is made up, the untrusted key at random. */
  pushCall(partial?: Partial<ToolCall>): ToolCall
  /** The same with python_execute's arguments. */
  pushCode(code: string, timeoutSeconds?: number | null): ToolCall
  deliveries(fcallId: string): number
  /** A person's word: the call is delivered again with it. */
  confirm(fcallId: string, approved: boolean): void
  onEvent: Events['onEvent']
  waitFor: Events['waitFor']
  /** The call's final answer; rejects after `timeoutMs` with what was seen of the call, and when the signal aborts. */
  waitForAnswer(fcallId: string, timeoutMs?: number, signal?: AbortSignal): Promise<Answer>
  /** From now on these credentials and no others, on new connections and requests. */
  accept(accepted: AcceptedCredentials): void
  /** Adds an HTTP route; its path comes before the backend's own. */
  addRoute(path: string, route: Route): void
  /** Until the returned function is called, `times` is used up or clearMisbehaviour(). */
  misbehave(rule: Misbehaviour, scope?: Scope): () => void
  clearMisbehaviour(): void
  /** Ends every websocket: with a close code, or without one abruptly. */
  dropConnections(code?: number, reason?: string): void
  /** Ends every subscription with a `complete`, websockets stay open. */
  completeSubscriptions(): void
  sendToSubscriptions: Sockets['sendToSubscriptions']
  sendRaw: Sockets['sendRaw']
  connections: Sockets['count']
  /** As kill -9: every socket is gone at once and the port refuses. Calls and records are kept. */
  stop(): Promise<void>
  /** Again on the same port. */
  start(): Promise<void>
  close(): Promise<void>
}

/**
 * The backend of docs/protocol.md in this process, on the loopback interface unless `host` says otherwise: a real GraphQL server over HTTP
 * and websocket, and the delta websocket. For `dev`, `demo`, `backend` and tests; it keeps everything in memory.
 */
export async function startEmbeddedBackend(options: EmbeddedBackendOptions = {}): Promise<EmbeddedBackend> {
  const now = options.now ?? (() => performance.now())
  const host = options.host ?? LOOPBACK
  const endpoints = options.endpoints ?? ['/v1/graphql', '/v1/jailed-bot']
  let accepted = options.accepted ?? { apiKey: `fx-embedded-${randomBytes(12).toString('hex')}` }
  const events = createEvents()
  const calls = createCallStore({ redeliver: options.redeliver ?? 'unanswered', emit: events.emit })
  const ledger = createLedger({ calls, emit: events.emit, now })
  const rules = createRulebook(() => sockets.applyFreeze())
  const schema = createSchema()
  const roots = createRoots(calls, ledger)
  const shared = { schema, roots, rules, calls, ledger, accepted: () => accepted }
  const sockets = createSockets({ ...shared, emit: events.emit })
  const http = {
    ...shared,
    maxBodyBytes: options.maxBodyBytes ?? 10 * MIB,
    onRequest: (operation: string) => events.emit({ type: 'requested', operation }),
    onRefused: (reason: string) => events.emit({ type: 'request_refused', reason }),
  }

  const routes = new Map<string, Route>()
  let stopping = new AbortController()
  const open = new Set<Socket>()
  const server = createServer((request, response) => {
    const { signal } = stopping
    answer(request, response, signal).catch((error: unknown) => {
      if (signal.aborted || response.headersSent) response.destroy()
      else answerText(response, 500, `500: ${error instanceof Error ? error.message : String(error)}`)
    })
  })
  server.on('connection', socket => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  server.on('upgrade', (request, socket, head) => {
    // A client that hangs up during the handshake is not the server's fault.
    socket.on('error', () => socket.destroy())
    const path = pathOf(request)
    if (path === DELTA_PATH) sockets.upgrade('delta', request, socket, head)
    else if (endpoints.includes(path)) sockets.upgrade('graphql', request, socket, head)
    else refuseUpgrade(socket, 404)
  })

  async function answer(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const path = pathOf(request)
    const route = routes.get(path)
    if (route !== undefined) return await route(request, response, signal)
    if (!endpoints.includes(path)) return answerText(response, 404, '404: no such path')
    if (request.method !== 'POST') return answerText(response, 405, '405: POST only')
    await answerGraphql(http, request, response, signal)
  }

  async function listen(port: number, attempts: number): Promise<number> {
    // After a stop() another process may hold the port for a moment, as the source of a connection of its own.
    for (let attempt = 1; ; attempt += 1) {
      server.listen(port, host)
      try {
        await once(server, 'listening')
        return (server.address() as AddressInfo).port
      } catch (error) {
        if (attempt === attempts || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
        await sleep(100)
      }
    }
  }

  async function stop(): Promise<void> {
    if (!server.listening) return
    stopping.abort()
    const closed = once(server, 'close')
    server.close()
    sockets.drop()
    for (const socket of open) socket.destroy()
    calls.completeAll()
    await closed
    await events.waitFor(() => sockets.count('graphql') + sockets.count('delta') === 0, 5000)
  }

  const port = await listen(options.port ?? 0, 1)

  return {
    url: `http://${reachable(host)}:${port}/`,
    port,
    get apiKey() {
      return accepted.apiKey ?? ''
    },
    get subscribers() {
      return calls.subscribers
    },
    ...ledger,
    pushCall: (partial = {}) => calls.push(partial),
    pushCode: (code, timeoutSeconds = null) =>
      calls.push({ fcall_arguments: JSON.stringify({ code, timeout_seconds: timeoutSeconds }) }),
    deliveries: calls.deliveries,
    confirm: calls.confirm,
    onEvent: events.onEvent,
    waitFor: events.waitFor,
    waitForAnswer: (fcallId, timeoutMs = 10_000, signal = undefined) =>
      waitForAnswer({ calls, ledger, events }, fcallId, timeoutMs, signal),
    accept(next) {
      accepted = next
    },
    addRoute(path, route) {
      routes.set(path, route)
    },
    misbehave: rules.add,
    clearMisbehaviour: rules.clear,
    dropConnections: sockets.drop,
    completeSubscriptions: calls.completeAll,
    sendToSubscriptions: sockets.sendToSubscriptions,
    sendRaw: sockets.sendRaw,
    connections: sockets.count,
    stop,
    async start() {
      if (server.listening) return
      stopping = new AbortController()
      await listen(port, 20)
    },
    close: stop,
  }
}

async function waitForAnswer(
  { calls, ledger, events }: { calls: CallStore; ledger: Ledger; events: Events },
  fcallId: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const final = (): Answer | undefined => ledger.answers.get(fcallId)?.[0]
  await events.waitFor(
    () => final() !== undefined,
    timeoutMs,
    () =>
      `no answer to ${fcallId} (delivered ${calls.deliveries(fcallId)} times, ${ledger.deltas(fcallId).length} deltas)`,
    signal,
  )
  const answer = final()
  if (answer === undefined) throw new Error(`the answer to ${fcallId} is gone`)
  return answer
}

/** How a program of this machine writes the address in a URL: a server on all addresses is reached on the loopback interface. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return LOOPBACK
  if (host === '::') return '[::1]'
  return isIPv6(host) ? `[${host}]` : host
}

function pathOf(request: IncomingMessage): string {
  return new URL(request.url ?? '/', 'http://localhost').pathname
}
