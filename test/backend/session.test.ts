import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { WebSocket } from 'ws'
import type { ToolCall } from '../../src/backend/protocol.js'
import { runSession, SESSION_LIMITS, type SessionOptions } from '../../src/backend/session.js'
import type { SessionEnd } from '../../src/backend/session-end.js'
import { API_KEY, captureLog, keyCredentials, sampleCall, UNTRUSTED_KEY } from './support/fixtures.js'
import { acknowledging, json, startHttp, startWs, type TestWsServer, until } from './support/servers.js'

let cleanup: (() => unknown)[] = []

afterEach(async () => {
  for (const close of cleanup) await close()
  cleanup = []
})

interface Running {
  readonly end: Promise<SessionEnd>
  readonly calls: ToolCall[]
  readonly malformed: [string, string | null][]
  subscribed: number
  stop(): void
  logged(): string
}

function start(url: string, options: Partial<SessionOptions> = {}): Running {
  const controller = new AbortController()
  const captured = captureLog()
  const running: Running = {
    calls: [],
    malformed: [],
    subscribed: 0,
    stop: () => controller.abort(),
    logged: captured.text,
    end: runSession(
      {
        url,
        toolNames: ['python_execute'],
        fgroupId: null,
        fuserId: null,
        credentials: keyCredentials(),
        log: captured.log,
        onSubscribed: () => {
          running.subscribed += 1
        },
        onCall: call => running.calls.push(call),
        onMalformed: (reason, fcallId) => running.malformed.push([reason, fcallId]),
        ...options,
      },
      controller.signal,
    ),
  }
  cleanup.push(() => controller.abort())
  return running
}

async function serve(...args: Parameters<typeof startWs>): Promise<TestWsServer> {
  const server = await startWs(...args)
  cleanup.push(server.close)
  return server
}

function sendNext(socket: WebSocket, id: string, payload: unknown): void {
  socket.send(JSON.stringify({ id, type: 'next', payload }))
}

const nothing = () => {}
const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

describe('a session', () => {
  it('introduces itself, subscribes, and hands over calls in order', async () => {
    const server = await serve(
      acknowledging((id, socket) => {
        for (const fcall_id of ['a', 'b', 'c']) {
          sendNext(socket, id, { data: { cloudtool_wait_for_call: sampleCall({ fcall_id }) } })
        }
      }),
    )
    const session = start(server.url)
    await until(() => session.calls.length === 3)
    expect(session.calls.map(call => call.fcall_id)).toEqual(['a', 'b', 'c'])
    expect(session.subscribed).toBe(1)
    expect(server.received[0]).toEqual({
      type: 'connection_init',
      payload: { apikey: API_KEY, 'x-flexus-service-name': 'python_execute' },
    })
    expect(server.received[1]).toMatchObject({
      type: 'subscribe',
      payload: { variables: { names: ['python_execute'], fgroup_id: null, fuser_id: null } },
    })
  })

  it('that is stopped completes the subscription, then closes with 1000', async () => {
    const server = await serve(acknowledging(nothing))
    const session = start(server.url)
    await until(() => session.subscribed === 1)
    const closed = new Promise(resolve => [...server.sockets][0]?.once('close', resolve))
    session.stop()
    expect(await session.end).toMatchObject({ kind: 'stopped', stableMs: expect.any(Number) })
    expect(server.received.at(-1)).toMatchObject({ type: 'complete' })
    expect(await closed).toBe(1000)
  })

  it('still takes a call that was under way when it was stopped', async () => {
    const server = await serve((message, socket) => {
      acknowledging(nothing)(message, socket)
      if (message['type'] === 'complete') {
        sendNext(socket, String(message['id']), { data: { cloudtool_wait_for_call: sampleCall() } })
      }
    })
    // The server reads our close after our complete, so its call is sent before it answers the close.
    const session = start(server.url)
    await until(() => session.subscribed === 1)
    session.stop()
    await session.end
    expect(session.calls).toHaveLength(1)
  })

  it('that is stopped leaves a peer that does not answer', async () => {
    const server = await serve(acknowledging(nothing))
    const session = start(server.url, { limits: { stopMs: 50 } })
    await until(() => session.subscribed === 1)
    for (const socket of server.sockets) socket.pause()
    session.stop()
    expect((await session.end).kind).toBe('stopped')
  })

  it('can be stopped before it is connected', async () => {
    const server = await serve(nothing)
    const session = start(server.url)
    session.stop()
    expect(await session.end).toMatchObject({ kind: 'stopped', stableMs: 0 })
  })

  it('can be stopped while it waits for the ack', async () => {
    const server = await serve(nothing)
    const session = start(server.url)
    await until(() => server.received.length === 1)
    session.stop()
    expect((await session.end).kind).toBe('stopped')
  })
})

describe('what is no call', () => {
  const { fcall_ft_id, ...withoutThread } = sampleCall()
  it.each([
    ['a call that lacks a field', { data: { cloudtool_wait_for_call: withoutThread } }, /fcall_ft_id/, 'c1'],
    ['null for the call', { data: { cloudtool_wait_for_call: null } }, /without a call/, null],
    ['no data', {}, /without a call/, null],
    ['a payload that is no object', 'nonsense', /without a call/, null],
    ['an error', { data: null, errors: [{ message: '500: one event failed' }] }, /one event failed/, null],
  ])('%s is reported, and the next call is taken', async (_name, payload, reason, fcallId) => {
    const server = await serve(
      acknowledging((id, socket) => {
        sendNext(socket, id, payload)
        sendNext(socket, id, { data: { cloudtool_wait_for_call: sampleCall({ fcall_id: 'good' }) } })
      }),
    )
    const session = start(server.url)
    await until(() => session.calls.length === 1)
    expect(session.malformed).toEqual([[expect.stringMatching(reason), fcallId]])
    expect(JSON.stringify(session.malformed)).not.toContain(UNTRUSTED_KEY)
  })

  it('a call that can be answered is handed over with what that takes', async () => {
    const unreadable: unknown[] = []
    const server = await serve(
      acknowledging((id, socket) => sendNext(socket, id, { data: { cloudtool_wait_for_call: withoutThread } })),
    )
    start(server.url, { onMalformed: (_reason, _fcallId, call) => unreadable.push(call) })
    await until(() => unreadable.length === 1)
    expect(unreadable[0]).toMatchObject({ fcall_id: 'c1', fcall_untrusted_key: UNTRUSTED_KEY })
  })

  it('a call of 12 MiB is taken: it is for the tool to refuse its arguments', async () => {
    const large = sampleCall({ fcall_arguments: 'x'.repeat(12 * 1024 * 1024) })
    const server = await serve(
      acknowledging((id, socket) => sendNext(socket, id, { data: { cloudtool_wait_for_call: large } })),
    )
    const session = start(server.url)
    await until(() => session.calls.length === 1)
    expect(session.calls[0]?.fcall_arguments).toHaveLength(12 * 1024 * 1024)
  })

  it('a call whose persona can not be sent is taken without it, with one warning', async () => {
    const call = sampleCall({ connected_persona_id: 'персона' })
    const server = await serve(
      acknowledging((id, socket) => sendNext(socket, id, { data: { cloudtool_wait_for_call: call } })),
    )
    const session = start(server.url)
    await until(() => session.calls.length === 1)
    expect(session.calls[0]).toMatchObject({ connected_persona_id: null })
    expect(session.logged()).toContain('the persona of a call can not be sent and is left out')
    expect(session.logged()).not.toContain('персона')
  })

  it('a handler that throws does not end the session', async () => {
    const seen: string[] = []
    const server = await serve(
      acknowledging((id, socket) => {
        for (const fcall_id of ['a', 'b']) {
          sendNext(socket, id, { data: { cloudtool_wait_for_call: sampleCall({ fcall_id }) } })
        }
      }),
    )
    start(server.url, {
      onCall: call => {
        seen.push(call.fcall_id)
        throw new Error('bug')
      },
    })
    await until(() => seen.length === 2)
    expect(server.sockets.size).toBe(1)
  })
})

describe('a session ends', () => {
  it.each([
    [1000, '', 'retry', 'network'],
    [1001, '', 'retry', 'network'],
    [1012, 'restarting', 'retry', 'network'],
    [1013, '', 'retry', 'directed'],
    [1011, '', 'retry', 'directed'],
    [4400, 'bad', 'retry', 'directed'],
    [4401, 'Unauthorized', 'auth', 'directed'],
    [4403, 'Forbidden', 'auth', 'directed'],
    [4409, '', 'retry', 'directed'],
    [4429, '', 'retry', 'directed'],
    [4460, '', 'never', 'directed'],
    [4500, '403: this key does not work', 'auth', 'directed'],
    [4500, '460: too old', 'never', 'directed'],
    [4500, 'oops', 'retry', 'directed'],
  ])('when the backend closes with %i %j: %s, %s, once', async (code, reason, kind, cause) => {
    const server = await serve(acknowledging((_id, socket) => socket.close(code, reason)))
    const session = start(server.url)
    expect(await session.end).toMatchObject({ kind, cause, reason: expect.stringContaining(reason) })
    await pause(20)
    expect(server.connections).toBe(1)
  })

  it.each([1000, 4403])('when the backend closes with %i instead of an ack', async code => {
    const server = await serve((_message, socket) => socket.close(code))
    const session = start(server.url)
    expect(await session.end).toMatchObject({ kind: code === 1000 ? 'retry' : 'auth', stableMs: 0 })
    await pause(20)
    expect(server.connections).toBe(1)
    expect(session.subscribed).toBe(0)
  })

  it('when the backend completes the subscription', async () => {
    const server = await serve(acknowledging((id, socket) => socket.send(JSON.stringify({ id, type: 'complete' }))))
    expect(await start(server.url).end).toMatchObject({ kind: 'retry', reason: expect.stringContaining('completed') })
  })

  it('with the reason that came before a complete', async () => {
    const server = await serve(
      acknowledging((id, socket) => {
        sendNext(socket, id, { data: null, errors: [{ message: '400: unknown tool' }] })
        socket.send(JSON.stringify({ id, type: 'complete' }))
      }),
    )
    expect(await start(server.url).end).toMatchObject({ kind: 'retry', cause: 'directed', reason: '400: unknown tool' })
  })

  it.each([
    ['403: no', 'auth'],
    ['460: no', 'never'],
    ['400: no', 'retry'],
    ['500: no', 'retry'],
  ])('when the subscription is answered with the error %j: %s', async (message, kind) => {
    const server = await serve(
      acknowledging((id, socket) => socket.send(JSON.stringify({ id, type: 'error', payload: [{ message }] }))),
    )
    expect(await start(server.url).end).toMatchObject({ kind, reason: message })
  })

  it('when a result says that this client may not work', async () => {
    const server = await serve(
      acknowledging((id, socket) => sendNext(socket, id, { data: null, errors: [{ message: '460: no' }] })),
    )
    expect(await start(server.url).end).toMatchObject({ kind: 'never', reason: '460: no' })
  })

  it('when the connection breaks', async () => {
    const server = await serve(acknowledging((_id, socket) => socket.terminate()))
    expect(await start(server.url).end).toMatchObject({ kind: 'retry', cause: 'network' })
  })

  it('when the backend sends what is no message, without quoting it', async () => {
    const server = await serve(acknowledging((_id, socket) => socket.send(`{"${UNTRUSTED_KEY}`)))
    const session = start(server.url)
    const end = await session.end
    expect(end).toMatchObject({ kind: 'retry', cause: 'directed' })
    expect(JSON.stringify(end) + session.logged()).not.toContain(UNTRUSTED_KEY)
  })

  it('when a message is larger than what we take', async () => {
    const server = await serve(acknowledging((_id, socket) => socket.send('x'.repeat(2_000))))
    const session = start(server.url, { limits: { maxPayloadBytes: 1_000 } })
    expect(await session.end).toMatchObject({ kind: 'retry', cause: 'directed' })
    expect(session.logged()).toContain('the backend sent a message too large to be taken')
    expect(session.logged()).toContain('"maxBytes":1000')
  })

  it('when no ack comes', async () => {
    const server = await serve(nothing)
    expect(await start(server.url, { limits: { ackMs: 50 } }).end).toMatchObject({
      kind: 'retry',
      reason: 'no connection_ack in time',
    })
  })

  it('within 45 s when the peer freezes, whenever that is', () => {
    const { pingEveryMs, pongMs, credentialsMs, handshakeMs, ackMs } = SESSION_LIMITS
    expect(pingEveryMs + pongMs).toBeLessThanOrEqual(45_000)
    expect(credentialsMs + handshakeMs + ackMs).toBeLessThanOrEqual(45_000)
  })

  it.each([
    ['at once', (socket: WebSocket) => socket.terminate()],
    ['with 1000', (socket: WebSocket) => socket.close(1000)],
  ])('when the backend acknowledges and then goes %s, as one that stood for a moment', async (_how, leave) => {
    const server = await serve((message, socket) => {
      if (message['type'] !== 'connection_init') return
      socket.send(JSON.stringify({ type: 'connection_ack' }))
      leave(socket)
    })
    const session = start(server.url)
    expect((await session.end).stableMs).toBeGreaterThan(0)
    expect(session.subscribed).toBe(1)
  })

  it('when a refusal of the key comes in the place of a call', async () => {
    const server = await serve(
      acknowledging((id, socket) => sendNext(socket, id, { data: null, errors: [{ message: '403: expired' }] })),
    )
    expect(await start(server.url).end).toMatchObject({ kind: 'auth', reason: '403: expired' })
  })

  it('when the backend breaks the framing of the websocket', async () => {
    const server = await serve(
      acknowledging((_id, socket) => {
        // Reserved opcode 3, masked: neither is allowed to a server.
        const { _socket: raw } = socket as unknown as { _socket: Socket }
        raw.write(Buffer.from([0x83, 0x80, 1, 2, 3, 4]))
      }),
    )
    expect(await start(server.url).end).toMatchObject({ kind: 'retry', cause: 'directed' })
  })

  it('when the peer freezes', async () => {
    const server = await serve(
      acknowledging((_id, socket) => {
        socket.pause()
      }),
    )
    const session = start(server.url, { limits: { pingEveryMs: 30, pongMs: 50 } })
    expect(await session.end).toMatchObject({ kind: 'retry', reason: 'no pong in time' })
    expect(session.subscribed).toBe(1)
  })

  it('not while the peer answers pings', async () => {
    const server = await serve(acknowledging(nothing))
    start(server.url, { limits: { pingEveryMs: 20, pongMs: 5_000 } })
    await until(() => server.received.filter(message => message['type'] === 'ping').length >= 5)
    expect(server.sockets.size).toBe(1)
  })

  it.each(['no data at all', 'one byte after the other'])('when the upgrade is answered with %s', async how => {
    const server = await listen(socket => {
      if (how === 'no data at all') return
      const timer = setInterval(() => socket.write('H'), 10)
      socket.on('close', () => clearInterval(timer))
    })
    expect(await start(server.url, { limits: { handshakeMs: 80 } }).end).toMatchObject({
      kind: 'retry',
      cause: 'network',
    })
  })

  it.each([
    [401, '', {}, 'auth', 'directed', null],
    [403, '', {}, 'auth', 'directed', null],
    [404, '', {}, 'retry', 'directed', null],
    [400, '460: too old', {}, 'never', 'directed', null],
    [429, '', { 'retry-after': '9' }, 'retry', 'directed', 9_000],
    [503, '', {}, 'retry', 'network', null],
  ])('when the upgrade is refused with %i %j', async (status, detail, headers, kind, cause, retryAfterMs) => {
    const server = await startHttp((_request, response) =>
      json(response, status, { detail }, headers as Record<string, string>),
    )
    cleanup.push(server.close)
    expect(await start(server.url.replace('http', 'ws')).end).toMatchObject({ kind, cause, retryAfterMs })
  })

  it('when nobody listens', async () => {
    const server = await startWs(nothing)
    await server.close()
    expect(await start(server.url).end).toMatchObject({ kind: 'retry', reason: 'network: ECONNREFUSED' })
  })

  it.each(['nonsense', 'http://host/', 'ws://host/#x'])('at once when the address is %j', async url => {
    expect((await start(url).end).kind).toBe('retry')
  })

  it('when the credentials take too long, and nothing was connected', async () => {
    const server = await serve(nothing)
    const credentials = { ...keyCredentials(), initPayload: () => new Promise<never>(nothing) }
    expect((await start(server.url, { credentials, limits: { credentialsMs: 50 } }).end).kind).toBe('retry')
    expect(server.connections).toBe(0)
  })
})

async function listen(onSocket: (socket: Socket) => void): Promise<{ url: string }> {
  const sockets = new Set<Socket>()
  const server: Server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', nothing)
    socket.on('data', nothing)
    onSocket(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  cleanup.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return { url: `ws://127.0.0.1:${address.port}/` }
}
