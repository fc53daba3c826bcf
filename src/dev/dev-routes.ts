import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { parseJson } from './answer-format.js'
import { statusLine, summarise, unseenPart } from './call-view.js'
import type { EmbeddedBackend } from './embedded-backend.js'
import { answerText, readBody } from './request-body.js'

const MAX_BODY_BYTES = 4 * 1024 * 1024
/** A real backend gives an unanswered call up after about ten minutes. */
const ANSWER_LIMIT_MS = 600_000
/** For the last words to the clients that still wait when all is being closed. */
const LAST_WORDS_MS = 500

const callSchema = z.strictObject({ code: z.string(), timeout_seconds: z.int().nullable().optional() })
const confirmSchema = z.strictObject({ fcall_id: z.string(), approve: z.boolean() })

/**
 * `POST /dev/call` {code, timeout_seconds?} streams a call's output and then its result as text/plain; `POST /dev/confirm`
 * {fcall_id, approve} is a person's word where the worker asks for one. They ask for no key and so are for programs on this machine
 * only: another one's address is refused, and a web page can neither reach them by a name of its own (Host) nor from its own origin
 * (Origin), nor without a preflight (content type).
 *
 * `close` tells the clients that still wait that nothing more will come, and resolves when they have heard it, or soon.
 */
export function addDevRoutes(backend: EmbeddedBackend): { close(): Promise<void> } {
  const waiting = new Map<AbortController, Promise<void>>()
  backend.addRoute('/dev/call', async (request, response) => {
    const body = await accept(request, response, callSchema)
    if (body === null) return
    const end = new AbortController()
    // Without a reader there is nobody to wait for; the call itself goes on.
    response.once('close', () => end.abort('the client has gone'))
    const streaming = streamCall(backend, body.code, body.timeout_seconds ?? null, response, end.signal)
    waiting.set(end, streaming)
    await streaming.finally(() => waiting.delete(end))
  })
  backend.addRoute('/dev/confirm', async (request, response) => {
    const body = await accept(request, response, confirmSchema)
    if (body === null) return
    try {
      backend.confirm(body.fcall_id, body.approve)
      answerText(response, 200, body.approve ? 'approved\n' : 'declined\n')
    } catch (error) {
      answerText(response, 404, `${error instanceof Error ? error.message : String(error)}\n`)
    }
  })
  return {
    async close() {
      const all = [...waiting.values()]
      for (const end of waiting.keys()) end.abort('the backend is closing')
      // A client that does not read must not keep us: its socket is destroyed with the backend.
      await Promise.race([Promise.allSettled(all), sleep(LAST_WORDS_MS, undefined, { ref: false })])
    },
  }
}

/** The parsed body, or null after the request was refused. */
async function accept<T>(request: IncomingMessage, response: ServerResponse, schema: z.ZodType<T>): Promise<T | null> {
  const refusal = refusalOf(request)
  if (refusal !== null) {
    answerText(response, refusal.status, `${refusal.text}\n`)
    return null
  }
  const body = await readBody(request, MAX_BODY_BYTES)
  if (body === null) {
    answerText(response, 413, `the body is longer than ${MAX_BODY_BYTES} bytes\n`)
    return null
  }
  const json = parseJson(body)
  const parsed = schema.safeParse(json)
  if (parsed.success) return parsed.data
  answerText(response, 400, json === undefined ? 'the body is not JSON\n' : `${z.prettifyError(parsed.error)}\n`)
  return null
}

function refusalOf({
  headers,
  method,
  socket,
}: IncomingMessage): { readonly status: number; readonly text: string } | null {
  if (!isLoopbackAddress(socket.remoteAddress ?? '')) return { status: 403, text: 'only for programs on this machine' }
  if (!isLoopback(`http://${headers.host ?? ''}`))
    return { status: 403, text: 'the Host header is not of this machine' }
  if (headers.origin !== undefined && !isLoopback(headers.origin))
    return { status: 403, text: 'a request of another origin' }
  if (method !== 'POST') return { status: 405, text: 'POST only' }
  if (headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() !== 'application/json') {
    return { status: 415, text: "the body must be JSON: -H 'content-type: application/json'" }
  }
  return null
}

/** Of a socket, as the kernel names it; IPv4 on an IPv6 socket included. */
export function isLoopbackAddress(address: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/.test(address)
}

function isLoopback(origin: string): boolean {
  if (!URL.canParse(origin)) return false
  return ['localhost', '127.0.0.1', '[::1]'].includes(new URL(origin).hostname)
}

async function streamCall(
  backend: EmbeddedBackend,
  code: string,
  timeoutSeconds: number | null,
  response: ServerResponse,
  end: AbortSignal,
): Promise<void> {
  const pushedAt = performance.now()
  const { fcall_id: fcallId } = backend.pushCode(code, timeoutSeconds)
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', 'x-fcall-id': fcallId })
  response.flushHeaders()
  let streamed = ''
  const forget = backend.onEvent(event => {
    if (event.type === 'delta' && event.fcallId === fcallId) {
      streamed += event.delta.text
      response.write(event.delta.text)
    }
    if (event.type === 'confirmation_requested' && event.confirmation.fcallId === fcallId) {
      response.write(`[waiting for a person: POST /dev/confirm {"fcall_id": "${fcallId}", "approve": true}]\n`)
    }
  })
  try {
    const answer = await backend.waitForAnswer(fcallId, ANSWER_LIMIT_MS, end)
    forget()
    const shown = streamed + unseenPart(streamed, summarise(answer).text)
    response.write(shown.slice(streamed.length))
    response.end(
      `${shown === '' || shown.endsWith('\n') ? '' : '\n'}--- ${statusLine(answer, answer.atMs - pushedAt)}\n`,
    )
  } catch (error) {
    if (response.destroyed) return
    const lineEnd = streamed === '' || streamed.endsWith('\n') ? '' : '\n'
    const said = once(response, 'close')
    response.end(`${lineEnd}--- ${error instanceof Error ? error.message : String(error)}\n`)
    await said
  } finally {
    forget()
  }
}
