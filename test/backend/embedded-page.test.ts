import { request } from 'node:http'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { RunningWorker } from '../../src/dev/demo.js'
import { runDev } from '../../src/dev/dev-server.js'
import type { CallDetail, PageMessage } from '../../src/dev/page-protocol.js'
import { startScriptedWorker } from './embedded-worker.js'

const LIMIT_MS = 10_000
const POSTS = ['dev/run', 'dev/decide', 'dev/stop', 'dev/break', 'dev/call', 'dev/confirm']
const GETS = ['', 'dev/events', 'dev/detail?id=x', 'dev/files?id=x', 'dev/file?id=x&path=y']

let url: string
let ctrlC: AbortController
let ended: Promise<number>
const readers: AbortController[] = []

beforeEach(async () => {
  ctrlC = new AbortController()
  url = await new Promise<string>((resolve, reject) => {
    const startWorker = async (backendUrl: string, apiKey: string): Promise<RunningWorker> => {
      const worker = await startScriptedWorker(backendUrl, apiKey)
      // What is known of the worker is told once it is up.
      setTimeout(() => resolve(backendUrl), 0)
      return worker
    }
    ended = runDev({ startWorker, out: { write: () => {} }, signal: ctrlC.signal, port: 0 })
    ended.catch(reject)
  })
})

afterEach(async () => {
  for (const reader of readers.splice(0)) reader.abort()
  ctrlC.abort()
  await ended
})

async function post(path: string, body: unknown): Promise<Response> {
  return await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

async function run(code: string): Promise<string> {
  const answer = await post('dev/run', { arguments: { code, timeout_seconds: null }, thread: 'ft_one' })
  return ((await answer.json()) as { id: string }).id
}

/** What the server tells a page, as it comes. */
async function follow(): Promise<PageMessage[]> {
  const reader = new AbortController()
  readers.push(reader)
  const response = await fetch(`${url}dev/events`, { signal: reader.signal })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const messages: PageMessage[] = []
  const read = async (): Promise<void> => {
    let text = ''
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true })
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        if (block.startsWith('data: ')) messages.push(JSON.parse(block.slice(6)) as PageMessage)
      }
    }
  }
  read().catch(() => {})
  await vi.waitFor(() => expect(messages[0]?.type).toBe('hello'), LIMIT_MS)
  return messages
}

function stateOf(messages: readonly PageMessage[], id: string): string | undefined {
  const last = messages.findLast(message => message.type === 'call' && message.call.id === id)
  return last?.type === 'call' ? `${last.call.state} ${last.call.status ?? ''}`.trim() : undefined
}

/** With headers that fetch would not let us set. */
function asked(path: string, method: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, { method, headers }, response => {
      resolve(response.statusCode ?? 0)
      response.destroy()
    })
    sent.on('error', reject)
    sent.end(method === 'POST' ? '{}' : undefined)
  })
}

describe('a page', () => {
  test('is told of a call as it goes: its states, its output, its end', async () => {
    const messages = await follow()
    const id = await run('import x\nsay a\nsay b\nvalue 42')
    await vi.waitFor(() => expect(stateOf(messages, id)).toBe('answered completed'), LIMIT_MS)
    const states = messages.flatMap(message => (message.type === 'call' ? [message.call.state] : []))
    expect(states).toEqual(['waiting', 'running', 'answered'])
    const deltas = messages.flatMap(message => (message.type === 'delta' ? [[message.at, message.text]] : []))
    expect(deltas).toEqual([
      [0, 'a\n'],
      [2, 'b\n'],
    ])
    const call = messages.findLast(message => message.type === 'call')?.call
    expect(call).toMatchObject({ thread: 'ft_one', streamed: 4, dollars: 0.25, title: 'say a' })
  })

  test('that comes late finds what was there before', async () => {
    const early = await follow()
    const id = await run('say a\nvalue 42')
    await vi.waitFor(() => expect(stateOf(early, id)).toBe('answered completed'), LIMIT_MS)
    const [hello] = await follow()
    expect(hello).toMatchObject({
      type: 'hello',
      worker: 'a worker of six words',
      backend: { subscribed: true, faults: [] },
    })
    expect(hello?.type === 'hello' ? hello.calls.map(call => call.id) : []).toEqual([id])
    const detail = (await (await fetch(`${url}dev/detail?id=${id}`)).json()) as CallDetail
    expect(detail).toMatchObject({ id, output: 'a\n', content: 'a\n42\n', provenance: { status: 'completed' } })
    expect(JSON.parse(detail.arguments)).toEqual({ code: 'say a\nvalue 42', timeout_seconds: null })
  })

  test('gives a person one word, however often it is clicked', async () => {
    const messages = await follow()
    const id = await run('ask\nsay yes')
    await vi.waitFor(() => expect(stateOf(messages, id)).toBe('needs_approval'), LIMIT_MS)
    const answers = await Promise.all([
      post('dev/decide', { id, approve: true }),
      post('dev/decide', { id, approve: true }),
      post('dev/decide', { id, approve: false }),
    ])
    expect(answers.map(answer => answer.status).sort()).toEqual([200, 409, 409])
    await vi.waitFor(() => expect(stateOf(messages, id)).toBe('answered completed'), LIMIT_MS)
  })

  test('can stop a call that runs, and is told where there is none', async () => {
    const messages = await follow()
    const id = await run('sleep 20000\nsay late')
    await vi.waitFor(() => expect(stateOf(messages, id)).toBe('running'), LIMIT_MS)
    expect((await post('dev/stop', { id })).status).toBe(200)
    await vi.waitFor(() => expect(stateOf(messages, id)).toBe('answered completed'), LIMIT_MS)
    const again = await post('dev/stop', { id })
    expect([again.status, await again.text()]).toEqual([409, 'the worker does not have this call\n'])
  })

  test('sees what it has broken, and what came of it', async () => {
    const messages = await follow()
    await post('dev/break', { fault: 'refuse_posts', on: true })
    await vi.waitFor(
      () => expect(messages.findLast(message => message.type === 'backend')?.backend.faults).toEqual(['refuse_posts']),
      LIMIT_MS,
    )
    await post('dev/break', { fault: 'refuse_posts', on: false })
    await post('dev/break', { drop: true })
    await vi.waitFor(
      () => expect(messages.findLast(message => message.type === 'backend')?.backend.subscribed).toBe(false),
      LIMIT_MS,
    )
    const lines = messages.flatMap(message => (message.type === 'activity' ? [message.activity.text] : []))
    expect(lines).toContain('you dropped the websockets')
    expect(lines).toContain('you switched "refuse posts" on')
  })

  test('is told when the server ends', async () => {
    const messages = await follow()
    ctrlC.abort()
    await ended
    await vi.waitFor(() => expect(messages.at(-1)?.type).toBe('closing'), LIMIT_MS)
  })

  test.each([
    ['dev/run', { arguments: 'print(1)' }, 400],
    ['dev/run', { arguments: {}, thread: '../x' }, 400],
    ['dev/decide', { id: 'fcall_x', approve: true }, 409],
    ['dev/stop', { id: 'fcall_x' }, 409],
    ['dev/break', { fault: 'everything', on: true }, 400],
  ])('%s of %j is answered %i', async (path, body, status) => {
    expect((await post(path, body)).status).toBe(status)
  })

  test('that is not built says so', async () => {
    const answer = await fetch(url)
    expect([answer.status, await answer.text()]).toEqual([503, 'the page is not built: npm run build\n'])
  })
})

describe('no other site can reach', () => {
  const json = { 'content-type': 'application/json' }

  test.each([
    ['by a name that it made resolve to this machine', { host: 'evil.example' }],
    ['by such a name and our port', { host: 'evil.example:8473' }],
    ['from its own origin', { origin: 'https://evil.example' }],
    ['from another port of this machine', { origin: 'http://127.0.0.1:3000' }],
    ['from a sandboxed frame or a file', { origin: 'null' }],
    ['as the browser says', { 'sec-fetch-site': 'cross-site' }],
    ['as the browser says of another port', { 'sec-fetch-site': 'same-site' }],
  ])('any route %s', async (_how, headers: Record<string, string>) => {
    for (const path of POSTS) expect(await asked(path, 'POST', { ...json, ...headers }), path).toBe(403)
    for (const path of GETS) expect(await asked(path, 'GET', headers), path).toBe(403)
  })

  test('any route by what a form can send', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      for (const path of POSTS) expect(await asked(path, 'POST', { 'content-type': type }), path).toBe(415)
    }
    for (const path of POSTS) expect(await asked(path, 'GET', {}), path).toBe(405)
  })

  test('the page but by a link, which shows it and does nothing', async () => {
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
    expect(await asked('', 'GET', link)).toBe(503) // not built here, but answered
    for (const path of GETS.slice(1)) expect(await asked(path, 'GET', link), path).toBe(403)
    for (const path of POSTS) expect(await asked(path, 'POST', { ...json, ...link }), path).toBe(403)
  })
})
