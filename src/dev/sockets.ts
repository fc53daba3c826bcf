import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { execute, GraphQLError, type GraphQLSchema, parse, subscribe, validate } from 'graphql'
import { useServer } from 'graphql-ws/use/ws'
import { WebSocket, WebSocketServer } from 'ws'
import type { CallStore } from './call-store.js'
import { type AcceptedCredentials, presentedInInit, refusalOf } from './credential-check.js'
import { readDeltaFrame } from './delta-frames.js'
import type { Ledger } from './ledger.js'
import type { Rulebook } from './misbehaviour.js'
import type { BackendEvent, SocketKind } from './records.js'
import type { Roots } from './schema.js'

const MIB = 1024 * 1024

export interface SocketOptions {
  readonly schema: GraphQLSchema
  readonly roots: Roots
  readonly rules: Rulebook
  readonly calls: CallStore
  readonly ledger: Ledger
  readonly accepted: () => AcceptedCredentials
  readonly emit: (event: BackendEvent) => void
}

export interface Sockets {
  upgrade(kind: SocketKind, request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Sends a raw frame of the subprotocol to each subscription, with its id in it. */
  sendToSubscriptions(type: 'next' | 'error' | 'complete', payload: unknown): void
  /** Sends text as it is, to each open GraphQL websocket. */
  sendRaw(text: string): void
  /** With a code a close handshake, without one an abrupt end. */
  drop(code?: number, reason?: string): void
  count(kind: SocketKind): number
  /** Pauses or resumes what is open, as the rules now say. */
  applyFreeze(): void
}

/** Both websockets of the backend: GraphQL (graphql-transport-ws) and deltas. They have no port of their own; `upgrade` feeds them. */
export function createSockets(options: SocketOptions): Sockets {
  const { rules, emit } = options
  const graphql = new WebSocketServer({ noServer: true, maxPayload: 10 * MIB })
  const delta = new WebSocketServer({ noServer: true, maxPayload: 10 * MIB })
  /** Ids of the open subscriptions of each websocket. */
  const subscriptionIds = new Map<WebSocket, Set<string>>()

  useServer<Record<string, unknown>, { socket: WebSocket; request: IncomingMessage }>(
    {
      schema: options.schema,
      // A frozen backend must stay silent, so no close of its own for a late connection_init.
      connectionInitWaitTimeout: 0,
      // Our own functions: some loaders give graphql-ws another copy of graphql than this file, and the two refuse each other's schema.
      parse,
      validate: (schema, document) => {
        const told = rules.take(['subscription_error'], { socket: 'graphql' })
        return told === null ? validate(schema, document) : [new GraphQLError(told.message)]
      },
      execute: args => execute(args),
      subscribe: args => subscribe(args),
      roots: options.roots as unknown as Record<'subscription', Record<string, object>>,
      async onConnect({ connectionParams, extra }) {
        const told = rules.take(['refuse_init', 'never_ack'], { socket: 'graphql' })
        if (told?.kind === 'never_ack') return await new Promise<boolean>(() => {})
        const refusal = refusalOf(options.accepted(), presentedInInit(connectionParams))
        if (told === null && refusal === null) return true
        if (told === null) emit({ type: 'request_refused', reason: refusal ?? '' })
        extra.socket.close(told?.code ?? 4403, told?.reason ?? refusal ?? '')
        return false
      },
      onSubscribe({ extra }, id) {
        const ids = subscriptionIds.get(extra.socket) ?? new Set()
        subscriptionIds.set(extra.socket, ids.add(id))
      },
      onComplete({ extra }, id) {
        subscriptionIds.get(extra.socket)?.delete(id)
      },
    },
    graphql,
    // No pings from here: a frozen backend must stay silent, and the client's own watchdog is what is tested.
    0,
  )
  graphql.on('connection', socket => watch('graphql', socket))
  delta.on('connection', socket => {
    watch('delta', socket)
    // Broken frames of a peer; ws closes the socket by itself.
    socket.on('error', error => options.ledger.recordDeltaFault(error.message))
    socket.on('message', (data, isBinary) => {
      if (isBinary) return options.ledger.recordDeltaFault('a binary frame')
      const frame = readDeltaFrame(String(data), options.calls.find)
      if ('fault' in frame) options.ledger.recordDeltaFault(frame.fault)
      else options.ledger.recordDelta(frame.fcallId, frame.text)
    })
  })

  function watch(kind: SocketKind, socket: WebSocket): void {
    emit({ type: 'connected', socket: kind })
    socket.once('close', code => {
      subscriptionIds.delete(socket)
      emit({ type: 'disconnected', socket: kind, code })
    })
    if (rules.isFrozen(kind)) socket.pause()
  }

  function upgrade(kind: SocketKind, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const told = rules.take(['refuse_upgrade', 'hang_upgrade'], { socket: kind })
    if (told !== null) {
      if (told.kind === 'refuse_upgrade') {
        emit({ type: 'upgrade_refused', socket: kind, status: told.status })
        refuseUpgrade(socket, told.status)
      }
      return
    }
    const server = kind === 'graphql' ? graphql : delta
    server.handleUpgrade(request, socket, head, accepted => server.emit('connection', accepted, request))
  }

  function open(): WebSocket[] {
    return [...graphql.clients, ...delta.clients]
  }

  return {
    upgrade,
    sendToSubscriptions(type, payload) {
      for (const [socket, ids] of subscriptionIds) {
        for (const id of ids) send(socket, JSON.stringify({ id, type, payload }))
      }
    },
    sendRaw(text) {
      for (const socket of graphql.clients) send(socket, text)
    },
    drop(code, reason) {
      for (const socket of open()) {
        if (code === undefined) socket.terminate()
        else socket.close(code, reason)
      }
    },
    count: kind => (kind === 'graphql' ? graphql : delta).clients.size,
    applyFreeze() {
      for (const [kind, { clients }] of [['graphql', graphql] as const, ['delta', delta] as const]) {
        for (const socket of clients) {
          if (rules.isFrozen(kind)) socket.pause()
          else socket.resume()
        }
      }
      options.calls.hold(rules.isFrozen('graphql'))
    },
  }
}

export function refuseUpgrade(socket: Duplex, status: number): void {
  socket.end(`HTTP/1.1 ${status} Refused\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`)
}

function send(socket: WebSocket, text: string): void {
  // The callback takes the error of a socket that closes meanwhile.
  if (socket.readyState === WebSocket.OPEN) socket.send(text, () => {})
}
