import type { Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { WebSocket } from 'ws'
import { SESSION_LIMITS } from '../../src/backend/session.js'
import { keyCredentials, UNTRUSTED_KEY } from './support/fixtures.js'
import { acknowledging, json, startHttp, startWs, until } from './support/servers.js'
import { alsoClose, closeSessions, listen, nothing, pause, sendNext, serve, start } from './support/sessions.js'

afterEach(closeSessions)

describe('a session ends', () => {
  it.each([
    [1000, '', 'retry', 'network'],
    [1001, '', 'retry', 'network'],
    [1012, 'restarting', 'retry', 'network'],
    [1013, '', 'retry', 'network'],
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
    alsoClose(server.close)
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
