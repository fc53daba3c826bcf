import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { ToolCall } from '../../src/backend/protocol.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import {
  GOOD_PARAMETERS,
  openDelta,
  post,
  postResponse,
  register,
  type Subscriber,
  subscribe,
  wsUrl,
} from './embedded-client.js'

const LIMIT_MS = 5000

let backend: EmbeddedBackend
let call: ToolCall
let open: Subscriber[]

beforeEach(async () => {
  backend = await startEmbeddedBackend()
  call = backend.pushCode('print(1)')
  open = []
})

afterEach(async () => {
  for (const subscriber of open) await subscriber.close()
  await backend.close()
})

async function subscribed(): Promise<Subscriber> {
  const subscriber = begin()
  await backend.waitFor(() => backend.subscribers === 1, LIMIT_MS)
  return subscriber
}

function begin(options: Parameters<typeof subscribe>[1] = {}): Subscriber {
  const subscriber = subscribe(backend, options)
  open.push(subscriber)
  return subscriber
}

const isAnswered = (): boolean => backend.answers.has(call.fcall_id)

describe('over HTTP', () => {
  test('a status before the commit leaves the call unanswered, and only as often as asked for', async () => {
    backend.misbehave({ kind: 'http_status', status: 503, headers: { 'retry-after': '2' } }, { times: 1 })
    const refused = await postResponse(backend, call, 'x')
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).toBe('2')
    expect(isAnswered()).toBe(false)
    expect((await postResponse(backend, call, 'x')).status).toBe(200)
    expect(isAnswered()).toBe(true)
  })

  test('a status after the commit makes a retry a duplicate', async () => {
    backend.misbehave({ kind: 'http_status', status: 502, commit: true }, { times: 1 })
    expect((await postResponse(backend, call, 'x')).status).toBe(502)
    expect(isAnswered()).toBe(true)
    expect((await post(backend, call, 'x')).errors?.[0]?.message).toMatch(/^409: /)
  })

  test('a rule for one operation leaves the others alone', async () => {
    backend.misbehave({ kind: 'http_status', status: 500 }, { operation: 'cloudtool_post_result' })
    expect((await register(backend, GOOD_PARAMETERS)).errors).toBeUndefined()
    expect((await postResponse(backend, call, 'x')).status).toBe(500)
  })

  test('a rule holds until it is cleared', async () => {
    const clear = backend.misbehave({ kind: 'http_status', status: 500 })
    for (let n = 0; n < 3; n += 1) expect((await postResponse(backend, call, 'x')).status).toBe(500)
    clear()
    expect((await postResponse(backend, call, 'x')).status).toBe(200)
  })

  test.each([true, false])(
    'a delay outlasts a client that gives up, and the post still counts (commit first: %s)',
    async commit => {
      backend.misbehave({ kind: 'http_delay', ms: 300, commit })
      await expect(postResponse(backend, call, 'x', { signal: AbortSignal.timeout(100) })).rejects.toThrow()
      await backend.waitForAnswer(call.fcall_id, LIMIT_MS)
    },
  )

  test('what is delayed when the backend is killed is never carried out', async () => {
    backend.misbehave({ kind: 'http_delay', ms: 100 })
    const posting = postResponse(backend, call, 'x')
    await expect(Promise.all([posting, backend.stop()])).rejects.toThrow()
    await new Promise(resolve => setTimeout(resolve, 300))
    expect(isAnswered()).toBe(false)
  })

  test.each([
    [true, true],
    [false, false],
  ])('a reset (commit first: %s) leaves the call answered: %s', async (commit, answered) => {
    backend.misbehave({ kind: 'http_reset', commit })
    await expect(postResponse(backend, call, 'x')).rejects.toThrow()
    expect(isAnswered()).toBe(answered)
  })

  test('a body that is not JSON comes with status 200', async () => {
    backend.misbehave({ kind: 'http_body', body: '<html>' })
    const response = await postResponse(backend, call, 'x')
    expect([response.status, await response.text()]).toEqual([200, '<html>'])
  })

  test('a GraphQL error has the text that was asked for', async () => {
    backend.misbehave({ kind: 'graphql_error', message: '460: not you' })
    expect((await post(backend, call, 'x')).errors).toEqual([{ message: '460: not you' }])
  })
})

describe('over the websocket', () => {
  test('dropped with a code, the client sees the code and the reason', async () => {
    const subscriber = await subscribed()
    backend.dropConnections(4429, 'too many')
    expect(await subscriber.ended).toMatchObject({ code: 4429, reason: 'too many' })
  })

  test('dropped without a code, the connection just ends', async () => {
    const subscriber = await subscribed()
    backend.dropConnections()
    expect(await subscriber.ended).toMatchObject({ code: 1006 })
  })

  test('completing the subscription leaves the websocket open', async () => {
    const subscriber = await subscribed()
    backend.completeSubscriptions()
    expect(await subscriber.ended).toBe('complete')
    expect(backend.subscribers).toBe(0)
  })

  test('an error in place of the subscription arrives as GraphQL errors', async () => {
    backend.misbehave({ kind: 'subscription_error', message: '460: this client is too old' }, { times: 1 })
    expect(await begin().ended).toMatchObject([{ message: '460: this client is too old' }])
  })

  test('a malformed next arrives as it was given, and the subscription goes on', async () => {
    const subscriber = await subscribed()
    await backend.waitFor(() => subscriber.calls.length === 1, LIMIT_MS)
    backend.sendToSubscriptions('next', { data: { cloudtool_wait_for_call: { fcall_id: 7 } } })
    backend.pushCode('print(2)')
    await backend.waitFor(() => subscriber.payloads.length === 3, LIMIT_MS)
    expect(subscriber.payloads[1]).toEqual({ data: { cloudtool_wait_for_call: { fcall_id: 7 } } })
  })

  test('a raw frame arrives as it was given', async () => {
    const subscriber = await subscribed()
    backend.sendRaw('not json')
    expect(await subscriber.ended).toBeInstanceOf(SyntaxError)
  })

  test('connection_init without an answer runs into the time limit of the client', async () => {
    backend.misbehave({ kind: 'never_ack' })
    expect(await begin({ ackMs: 100 }).ended).toMatchObject({ code: 4504 })
    expect(backend.subscribers).toBe(0)
  })

  test('connection_init is refused with the code that was asked for', async () => {
    backend.misbehave({ kind: 'refuse_init', code: 4403, reason: '460: go away' }, { times: 1 })
    expect(await begin().ended).toMatchObject({ code: 4403, reason: '460: go away' })
    await subscribed()
  })

  test('an upgrade is refused with the status that was asked for', async () => {
    backend.misbehave({ kind: 'refuse_upgrade', status: 429 }, { socket: 'delta' })
    await expect(openDelta(backend)).rejects.toThrow('429')
    await subscribed()
  })

  test('an upgrade without an answer runs into the handshake limit of the client', async () => {
    backend.misbehave({ kind: 'hang_upgrade' })
    const socket = new WebSocket(wsUrl(backend, '/v1/graphql'), 'graphql-transport-ws', { handshakeTimeout: 100 })
    await expect(new Promise((_, reject) => socket.once('error', reject))).rejects.toThrow('timed out')
  })

  test('another path has no websocket', async () => {
    const socket = new WebSocket(wsUrl(backend, '/v1/other'))
    await expect(new Promise((_, reject) => socket.once('error', reject))).rejects.toThrow('404')
  })

  test('frozen, it answers no ping and delivers nothing, and thawed it goes on', async () => {
    const subscriber = await subscribed()
    const delta = await openDelta(backend)
    await backend.waitFor(() => subscriber.calls.length === 1, LIMIT_MS)
    let pongs = 0
    delta.socket.on('pong', () => {
      pongs += 1
    })
    const thaw = backend.misbehave({ kind: 'freeze' })
    delta.socket.ping()
    backend.pushCode('print(2)')
    await new Promise(resolve => setTimeout(resolve, 150))
    expect([pongs, subscriber.calls.length]).toEqual([0, 1])
    thaw()
    await backend.waitFor(() => pongs === 1 && subscriber.calls.length === 2, LIMIT_MS)
    delta.socket.terminate()
  })

  test('frozen, a new websocket opens and hears nothing', async () => {
    backend.misbehave({ kind: 'freeze' })
    const socket = new WebSocket(wsUrl(backend, '/v1/graphql'), 'graphql-transport-ws')
    await new Promise(resolve => socket.once('open', resolve))
    let heard = 0
    socket.on('message', () => {
      heard += 1
    })
    const init = { apikey: backend.apiKey, 'x-flexus-service-name': 'python_execute' }
    socket.send(JSON.stringify({ type: 'connection_init', payload: init }))
    await new Promise(resolve => setTimeout(resolve, 150))
    expect(heard).toBe(0)
    socket.terminate()
  })

  test('a frozen backend can be stopped', async () => {
    await subscribed()
    backend.misbehave({ kind: 'freeze' })
    await backend.stop()
    expect(backend.connections('graphql')).toBe(0)
  })
})
