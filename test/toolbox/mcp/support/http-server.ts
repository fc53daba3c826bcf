import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach } from 'vitest'

export interface Received {
  readonly method: string
  readonly headers: IncomingMessage['headers']
  readonly message: { id?: number; method?: string; params?: { name?: string; arguments?: Record<string, unknown> } }
}

/** Answers a request that is no initialize, tools/list or ping; true: done. */
export type Answer = (received: Received, response: ServerResponse) => boolean | Promise<boolean>

const servers: { close(): Promise<void> }[] = []

afterEach(async () => {
  await Promise.all(servers.splice(0).map(server => server.close()))
})

/** A streamable HTTP server of a few tools at a free port, which answers in JSON; `answer` sees all first. */
export async function httpServer(answer: Answer) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const one = { method: request.method ?? '', headers: request.headers, message: body === '' ? {} : JSON.parse(body) }
    received.push(one)
    if (await answer(one, response)) return
    if (one.method !== 'POST') return void response.writeHead(405).end()
    const { id, method } = one.message
    if (id === undefined) return void response.writeHead(202).end()
    json(response, { id, result: results[method ?? ''] ?? {} }, { 'mcp-session-id': 'session-1' })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const close = () =>
    new Promise<void>(resolve => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  servers.push({ close })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, received, close }
}

const tool = (name: string) => ({ name, inputSchema: { type: 'object' } })
const results: Record<string, unknown> = {
  initialize: {
    protocolVersion: '2025-06-18',
    capabilities: { tools: {} },
    serverInfo: { name: 'http', version: '1' },
  },
  'tools/list': { tools: ['do', 'other'].map(tool) },
  'tools/call': { content: [{ type: 'text', text: 'done' }] },
}

export function json(response: ServerResponse, message: object, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify({ jsonrpc: '2.0', ...message }))
}

export function events(response: ServerResponse): ServerResponse {
  return response.writeHead(200, { 'content-type': 'text/event-stream' })
}

export const isCall = (received: Received) => received.message.method === 'tools/call'
