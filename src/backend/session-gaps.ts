import { MessageType } from 'graphql-ws'

/** Where graphql-ws and ws leave a session open to a peer that misbehaves. */

/** Only what ws would throw on, since its exception is lost inside graphql-ws. */
export function faultOfUrl(url: string): string | null {
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null) return 'the websocket address is not a URL'
  if (!/^wss?:$/.test(parsed.protocol)) return `the websocket address begins with ${parsed.protocol}`
  return parsed.hash === '' ? null : 'the websocket address has a fragment'
}

/** A `next` whose payload is no object would close the session, and again after each redelivery. */
export function tolerateNext(key: string, value: unknown): unknown {
  if (key !== '' || typeof value !== 'object' || value === null) return value
  const { type, payload } = value as { type?: unknown; payload?: unknown }
  const isObject = typeof payload === 'object' && payload !== null && !Array.isArray(payload)
  return type === MessageType.Next && !isObject ? { ...value, payload: {} } : value
}

/** Reads up to 4 KiB of a refused upgrade's body for at most a second, then hands over its text, once. */
export function readRefusal(body: NodeJS.ReadableStream, done: (text: string) => void): void {
  const chunks: Buffer[] = []
  let bytes = 0
  let finished = false
  const finish = () => {
    if (finished) return
    finished = true
    clearTimeout(timer)
    done(Buffer.concat(chunks).toString('utf8'))
  }
  const timer = setTimeout(finish, 1_000)
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    chunks.push(chunk)
    if (bytes > 4096) finish()
  })
  body.on('end', finish)
  body.on('error', finish)
}
