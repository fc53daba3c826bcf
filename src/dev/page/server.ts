import type { CallDetail, Fault, PageMessage } from '../page-protocol.js'
import type { Link } from './store.js'

const RECONNECT_MS = 1_000

/** Follows the server's events for good: whatever ends the connection, it is tried again each second. Returns what ends that. */
export function follow(onMessage: (message: PageMessage) => void, onLink: (link: Link) => void): () => void {
  let source: EventSource | null = null
  let timer: ReturnType<typeof setTimeout> | null = null
  let isOver = false

  function connect(): void {
    timer = null
    const opened = new EventSource('dev/events')
    source = opened
    opened.onmessage = ({ data }) => onMessage(JSON.parse(String(data)) as PageMessage)
    opened.onerror = () => {
      // The browser tries again by itself only after some of the ways in which a connection ends.
      opened.close()
      if (isOver) return
      onLink('lost')
      timer = setTimeout(connect, RECONNECT_MS)
    }
  }

  connect()
  return () => {
    isOver = true
    source?.close()
    if (timer !== null) clearTimeout(timer)
  }
}

/** Errors: with the server's own words, or that it does not answer. */
async function ask(path: string, body?: unknown): Promise<unknown> {
  const init: RequestInit =
    body === undefined
      ? {}
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(path, init).catch(() => {
    throw new Error('The server does not answer; is `npm run dev` still running?')
  })
  if (!response.ok) throw new Error((await response.text()).trim())
  return await response.json()
}

export async function run(
  args: Readonly<Record<string, unknown>>,
  thread: string | null,
): Promise<{ readonly id: string; readonly thread: string }> {
  const body = thread === null ? { arguments: args } : { arguments: args, thread }
  return (await ask('dev/run', body)) as { id: string; thread: string }
}

export async function readDetail(id: string): Promise<CallDetail> {
  return (await ask(`dev/detail?id=${encodeURIComponent(id)}`)) as CallDetail
}

export async function listFiles(id: string): Promise<readonly { readonly path: string; readonly bytes: number }[]> {
  return (await ask(`dev/files?id=${encodeURIComponent(id)}`)) as { path: string; bytes: number }[]
}

export async function decide(id: string, approve: boolean): Promise<void> {
  await ask('dev/decide', { id, approve })
}

export async function stop(id: string): Promise<void> {
  await ask('dev/stop', { id })
}

export async function dropConnections(): Promise<void> {
  await ask('dev/break', { drop: true })
}

export async function setFault(fault: Fault, on: boolean): Promise<void> {
  await ask('dev/break', { fault, on })
}
