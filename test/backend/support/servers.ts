import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'

export interface ReceivedRequest {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface TestServer {
  /** Base URL with a slash at its end. */
  readonly url: string
  readonly requests: ReceivedRequest[]
  close(): Promise<void>
}

/** A real HTTP server at a free port; what it received is in `requests` before `answer` is asked. */
export async function startHttp(
  answer: (request: ReceivedRequest, response: ServerResponse) => void,
): Promise<TestServer> {
  const requests: ReceivedRequest[] = []
  const server = createServer((incoming, response) => {
    let body = ''
    incoming.on('data', chunk => {
      body += chunk
    })
    incoming.on('end', () => {
      const request = { path: incoming.url ?? '', headers: incoming.headers, body }
      requests.push(request)
      answer(request, response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export function json(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}

export interface TestWsServer {
  /** ws:// address with a slash at its end. */
  readonly url: string
  readonly port: number
  /** Everything that clients sent, parsed, in order. */
  readonly received: Record<string, unknown>[]
  readonly sockets: Set<WebSocket>
  connections: number
  close(): Promise<void>
}

/** A real websocket server at `port` (0: a free one) that speaks no protocol but what `onMessage` does. */
export async function startWs(
  onMessage: (message: Record<string, unknown>, socket: WebSocket) => void,
  { port = 0, onConnect = (_socket: WebSocket) => {} } = {},
): Promise<TestWsServer> {
  const server = new WebSocketServer({ port, host: '127.0.0.1' })
  await once(server, 'listening')
  const result: TestWsServer = {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    port: (server.address() as AddressInfo).port,
    received: [],
    sockets: new Set(),
    connections: 0,
    close: async () => {
      for (const socket of result.sockets) socket.terminate()
      server.close()
      await once(server, 'close')
    },
  }
  server.on('connection', socket => {
    result.connections += 1
    result.sockets.add(socket)
    socket.on('close', () => result.sockets.delete(socket))
    socket.on('message', data => {
      const message = JSON.parse(String(data)) as Record<string, unknown>
      result.received.push(message)
      onMessage(message, socket)
    })
    onConnect(socket)
  })
  return result
}

/** A backend for subscriptions: acknowledges, answers pings, and calls `onSubscribe` with the id to use. */
export function acknowledging(
  onSubscribe: (id: string, socket: WebSocket) => void,
): (message: Record<string, unknown>, socket: WebSocket) => void {
  return (message, socket) => {
    if (message['type'] === 'connection_init') socket.send(JSON.stringify({ type: 'connection_ack' }))
    if (message['type'] === 'ping') socket.send(JSON.stringify({ type: 'pong' }))
    if (message['type'] === 'subscribe') onSubscribe(String(message['id']), socket)
  }
}

/** Waits until `condition` holds; fails after 5 s. */
export async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 5_000
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('what was waited for did not happen')
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
