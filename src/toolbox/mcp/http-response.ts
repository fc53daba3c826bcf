import type { Response } from 'undici'
import { Pieces } from '../pieces.js'

/** What is read of a response: bounded, and in words that hold no secret. */

export function mediaType(response: Response): string {
  return (response.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase() || 'none'
}

/** null: beyond the bound; the rest is not read. */
export async function textOf(response: Response, maxBytes: number, heard: () => void): Promise<string | null> {
  const body = new Pieces()
  for await (const chunk of response.body ?? []) {
    heard()
    body.add(chunk)
    if (body.bytes > maxBytes) return null // leaving the loop cancels the body
  }
  return body.take().toString()
}

export function networkWords(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (!(cause instanceof Error)) return 'no reason given'
  const { code } = cause as NodeJS.ErrnoException
  return code ?? (cause.message || cause.name)
}

/** Of errors of which it is known that there was no connection, so that nothing has been sent. */
const UNSENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|EACCES|EPERM|EMFILE|ENFILE|UND_ERR_CONNECT_TIMEOUT|UND_ERR_INVALID_ARG|\w*CERT\w*|ERR_(SSL|TLS)_\w+)$/

/** Whether an error that `networkWords` names so is one of those after which the server has not seen the request. */
export function isUnsent(words: string): boolean {
  return UNSENT.test(words)
}

/** Without user, password, query and fragment. */
export function locationOf(response: Response, from: string): string {
  const location = response.headers.get('location') ?? ''
  if (!URL.canParse(location, from)) return 'nowhere'
  const { origin, pathname } = new URL(location, from)
  return `${origin}${pathname}`
}

export function firstWords(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > 200 ? `${line.slice(0, 200).toWellFormed()}…` : line
}
