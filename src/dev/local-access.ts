import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { parseJson } from './answer-format.js'
import { answerText, readBody } from './request-body.js'

const MAX_BODY_BYTES = 4 * 1024 * 1024

export interface RequestRefusal {
  readonly status: number
  readonly text: string
}

/**
 * Why this request is not answered, or null. Only programs on this machine are, and of web pages only our own, so that no other site which is
 * open in the person's browser can run code, approve a call or read a result: another machine's address is refused, a name that was made
 * to resolve to this machine (Host), another origin, also one on another port of this machine (Origin), and whatever the browser itself says
 * comes from another site (Sec-Fetch-Site). `navigation`: a link from elsewhere may lead here, since showing the page does nothing.
 */
export function refusalOf(
  { headers, method, socket }: IncomingMessage,
  allowed: { readonly method: 'GET' | 'POST'; readonly navigation?: boolean },
): RequestRefusal | null {
  if (!isLoopbackAddress(socket.remoteAddress ?? '')) return { status: 403, text: 'only for programs on this machine' }
  const host = headers.host ?? ''
  if (!isLoopback(`http://${host}`)) return { status: 403, text: 'the Host header is not of this machine' }
  if (headers.origin !== undefined && headers.origin.toLowerCase() !== `http://${host.toLowerCase()}`)
    return { status: 403, text: 'a request of another origin' }
  const site = headers['sec-fetch-site']
  const isFollowed = allowed.navigation === true && headers['sec-fetch-mode'] === 'navigate'
  if (site !== undefined && site !== 'same-origin' && site !== 'none' && !isFollowed)
    return { status: 403, text: 'a request of another site' }
  if (allowed.method === 'GET') {
    return method === 'GET' || method === 'HEAD' ? null : { status: 405, text: 'GET only' }
  }
  if (method !== 'POST') return { status: 405, text: 'POST only' }
  if (headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() !== 'application/json') {
    return { status: 415, text: "the body must be JSON: -H 'content-type: application/json'" }
  }
  return null
}

/** The parsed body of a POST, or null after the request was refused. */
export async function acceptPost<T>(
  request: IncomingMessage,
  response: ServerResponse,
  schema: z.ZodType<T>,
): Promise<T | null> {
  const refusal = refusalOf(request, { method: 'POST' })
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

/** Of a socket, as the kernel names it; IPv4 on an IPv6 socket included. */
export function isLoopbackAddress(address: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/.test(address)
}

function isLoopback(origin: string): boolean {
  if (!URL.canParse(origin)) return false
  return ['localhost', '127.0.0.1', '[::1]'].includes(new URL(origin).hostname)
}
