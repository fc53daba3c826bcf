import { afterEach, describe, expect, it } from 'vitest'
import { API_KEY, sampleCall, UNTRUSTED_KEY } from './support/fixtures.js'
import { acknowledging, until } from './support/servers.js'
import { closeSessions, nothing, sendNext, serve, start } from './support/sessions.js'

afterEach(closeSessions)

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
