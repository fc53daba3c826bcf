import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import type { KeptFiles } from './demo.js'
import type { EmbeddedBackend } from './embedded-backend.js'
import { acceptPost, refusalOf } from './local-access.js'
import type { PageFaults } from './page-faults.js'
import type { PageFeed } from './page-feed.js'
import { addFileRoutes } from './page-file-routes.js'
import { FAULTS, type PageMessage } from './page-protocol.js'
import { answerText } from './request-body.js'

/** Proxies and sleeping browsers drop what is silent for long. */
const HEARTBEAT_MS = 15_000
/** A page that does not read for so long is let go; it comes again and asks for what it lacks. */
const UNREAD_MOST_BYTES = 16 * 1024 * 1024
const RECONNECT_MS = 1_000

const runSchema = z.strictObject({
  arguments: z.record(z.string(), z.unknown()),
  thread: z
    .string()
    .regex(/^ft_[\w-]{1,64}$/)
    .optional(),
})
const decideSchema = z.strictObject({ id: z.string(), approve: z.boolean() })
const stopSchema = z.strictObject({ id: z.string() })
const breakSchema = z.union([
  z.strictObject({ drop: z.literal(true) }),
  z.strictObject({ fault: z.enum(FAULTS), on: z.boolean() }),
])

/** What the page does, beside looking on. */
export interface PageActions {
  readonly backend: EmbeddedBackend
  readonly feed: PageFeed
  readonly faults: PageFaults
  /** Ends a call; false where the worker does not have it. */
  cancel(fcallId: string, reason: string): boolean
  /** What is kept of threads; null while there is no worker, and where nothing is kept. */
  files(): KeptFiles | null
}

/**
 * The page's own routes. GET /dev/events is a stream of server-sent events: first all there is, then what changes; GET /dev/detail?id= what
 * came of one call, /dev/files and /dev/file what is kept of its thread. POST /dev/run {arguments, thread?}, /dev/decide {id, approve}, /dev/stop {id}, /dev/break {drop} or {fault, on}. Who is
 * let in: see refusalOf.
 */
export function addPageRoutes({ backend, feed, faults, cancel, files }: PageActions): void {
  addFileRoutes(backend, feed, files)

  backend.addRoute('/dev/events', (request, response, stopping) => streamEvents(feed, request, response, stopping))

  backend.addRoute('/dev/detail', async (request, response) => {
    const refusal = refusalOf(request, { method: 'GET' })
    if (refusal !== null) return answerText(response, refusal.status, `${refusal.text}\n`)
    const id = new URL(request.url ?? '', 'http://localhost').searchParams.get('id') ?? ''
    const detail = feed.detail(id)
    if (detail === null) return answerText(response, 404, 'there is no such call\n')
    answerJson(response, detail)
  })

  backend.addRoute('/dev/run', async (request, response) => {
    const body = await acceptPost(request, response, runSchema)
    if (body === null) return
    const call = backend.pushCall({
      fcall_arguments: JSON.stringify(body.arguments),
      ...(body.thread === undefined ? {} : { fcall_ft_id: body.thread }),
    })
    answerJson(response, { id: call.fcall_id, thread: call.fcall_ft_id })
  })

  backend.addRoute('/dev/decide', async (request, response) => {
    const body = await acceptPost(request, response, decideSchema)
    if (body === null) return
    // Asked twice, by two clicks or two windows, a person's word counts once.
    if (feed.find(body.id)?.state !== 'needs_approval') {
      return answerText(response, 409, 'this call does not wait for a person\n')
    }
    backend.confirm(body.id, body.approve)
    answerJson(response, {})
  })

  backend.addRoute('/dev/stop', async (request, response) => {
    const body = await acceptPost(request, response, stopSchema)
    if (body === null) return
    if (!cancel(body.id, 'stopped by the person at the page')) {
      return answerText(response, 409, 'the worker does not have this call\n')
    }
    answerJson(response, {})
  })

  backend.addRoute('/dev/break', async (request, response) => {
    const body = await acceptPost(request, response, breakSchema)
    if (body === null) return
    if ('drop' in body) {
      feed.faultsChanged('you dropped the websockets')
      backend.dropConnections()
    } else {
      faults.set(body.fault, body.on)
      feed.faultsChanged(`you switched "${body.fault.replaceAll('_', ' ')}" ${body.on ? 'on' : 'off'}`)
    }
    answerJson(response, {})
  })
}

async function streamEvents(
  feed: PageFeed,
  request: IncomingMessage,
  response: ServerResponse,
  stopping: AbortSignal,
): Promise<void> {
  const refusal = refusalOf(request, { method: 'GET' })
  if (refusal !== null) return answerText(response, refusal.status, `${refusal.text}\n`)
  response.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  })
  const send = (message: PageMessage): void => {
    response.write(`data: ${JSON.stringify(message)}\n\n`)
    if (response.writableLength > UNREAD_MOST_BYTES) response.destroy()
    else if (message.type === 'closing') response.end()
  }
  response.write(`retry: ${RECONNECT_MS}\n\n`)
  send({ type: 'hello', ...feed.hello() })
  const forget = feed.listen(send)
  const heartbeat = setInterval(() => response.write(': \n\n'), HEARTBEAT_MS)
  try {
    await once(response, 'close', { signal: stopping })
  } finally {
    clearInterval(heartbeat)
    forget()
  }
}

function answerJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  })
  response.end(JSON.stringify(value))
}
