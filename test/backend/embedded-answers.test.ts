import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import {
  askPerson,
  deltaFrame,
  GOOD_PARAMETERS,
  openDelta,
  post,
  postResponse,
  register,
  send,
  serviceHeaders,
  subscribe,
  WAIT,
} from './embedded-client.js'

const LIMIT_MS = 5000

let backend: EmbeddedBackend

beforeEach(async () => {
  backend = await startEmbeddedBackend()
})

afterEach(async () => {
  await backend.close()
})

describe('results', () => {
  test('an answer is kept parsed, with provenance and dollars', async () => {
    const call = backend.pushCode('print(1)')
    expect(await post(backend, call, '1\n')).toEqual({ data: { cloudtool_post_result: true } })
    expect(await backend.waitForAnswer(call.fcall_id)).toMatchObject({
      content: '1\n',
      provenance: { system: 'python_execute' },
      dollars: 0.25,
      placeholder: false,
      duplicate: false,
    })
  })

  test('parts are accepted', async () => {
    const call = backend.pushCode('print(1)')
    const parts = [{ m_type: 'image/png', m_content: 'aGk=' }]
    await post(backend, call, parts)
    expect((await backend.waitForAnswer(call.fcall_id)).content).toEqual(parts)
  })

  test('a second post is refused with 409 and kept as a duplicate', async () => {
    const call = backend.pushCode('print(1)')
    await post(backend, call, 'one')
    const second = await post(backend, call, 'two')
    expect(second.errors?.[0]?.message).toBe('409: this call already has its result')
    expect(backend.answers.get(call.fcall_id)?.map(answer => answer.content)).toEqual(['one', 'two'])
    expect(backend.duplicates).toHaveLength(1)
    expect((await backend.waitForAnswer(call.fcall_id)).content).toBe('one')
  })

  test('a placeholder is kept apart and the final answer may still come', async () => {
    const call = backend.pushCode('print(1)')
    await post(backend, call, 'WAIT_SUBCHATS', { placeholder: true })
    expect(backend.placeholders).toHaveLength(1)
    expect(backend.answers.has(call.fcall_id)).toBe(false)
    expect(await post(backend, call, 'final')).toEqual({ data: { cloudtool_post_result: true } })
  })

  test('an unknown call is 404', async () => {
    const call = backend.pushCode('print(1)')
    const answer = await post(backend, { ...call, fcall_id: 'fcall_unknown' }, 'x')
    expect(answer.errors?.[0]?.message).toBe('404: no such call')
  })

  test('a wrong untrusted key is 403', async () => {
    const answer = await post(backend, backend.pushCode('print(1)'), 'x', { key: 'wrong' })
    expect(answer.errors?.[0]?.message).toMatch(/^403: /)
  })

  test.each([
    ['a number', 3],
    ['parts with a wrong field', [{ m_type: 'text', text: 'x' }]],
    ['no parts', []],
    ['U+0000', 'a\0b'],
    ['half a surrogate pair', 'a\ud83d'],
  ])('content that no front end could show is refused: %s', async (_what, content) => {
    const answer = await post(backend, backend.pushCode('print(1)'), content)
    expect(answer.errors?.[0]?.message).toMatch(/^400: ftm_content/)
  })

  test('a body beyond the limit is refused with 413', async () => {
    const small = await startEmbeddedBackend({ maxBodyBytes: 1000 })
    const response = await postResponse(small, small.pushCode('print(1)'), 'x'.repeat(200_000))
    expect(response.status).toBe(413)
    await small.close()
  })
})

describe('asking a person', () => {
  test('a second request is refused as already requested', async () => {
    const call = backend.pushCode('print(1)')
    await askPerson(backend, call)
    expect((await askPerson(backend, call)).errors?.[0]?.message).toContain('confirmation already requested')
    expect(backend.confirmations).toMatchObject([
      { fcallId: call.fcall_id, command: 'print(1)', explanation: 'Run this?' },
    ])
  })

  test("a request without the call's own key is 403", async () => {
    const answer = await askPerson(backend, backend.pushCode('print(1)'), {})
    expect(answer.errors?.[0]?.message).toMatch(/^403: /)
  })
})

describe('registration', () => {
  test('a good one is kept', async () => {
    expect(await register(backend, GOOD_PARAMETERS)).toEqual({ data: { cloudtool_confirm_exists: true } })
    expect(backend.registrations).toMatchObject([
      { toolName: 'python_execute', parameters: GOOD_PARAMETERS, shared: true },
    ])
  })

  test.each([
    ['not JSON', 'nonsense', 'not the JSON'],
    ['no order', { ...GOOD_PARAMETERS, properties: { code: { type: 'string' } } }, 'parameters.code: no order'],
    ['open', { ...GOOD_PARAMETERS, additionalProperties: true }, 'parameters: additionalProperties'],
    ['not required', { ...GOOD_PARAMETERS, required: [] }, 'parameters: not in required: code'],
    [
      'a fault in a list of a branch',
      {
        ...GOOD_PARAMETERS,
        properties: { code: { anyOf: [{ type: 'null' }, { items: { properties: {} } }], order: 0 } },
      },
      'parameters.code.anyOf[1][]: additionalProperties',
    ],
  ])('a schema with a fault is refused with its path: %s', async (_what, parameters, expected) => {
    const answer = await register(backend, parameters)
    expect(answer.errors?.[0]?.message).toContain(`400: ctool_parameters: `)
    expect(answer.errors?.[0]?.message).toContain(expected)
    expect(backend.registrations).toEqual([])
  })
})

describe('deltas', () => {
  test('texts are kept in their order with their times', async () => {
    const call = backend.pushCode('print(1)')
    const delta = await openDelta(backend)
    delta.text(call, 'a')
    delta.text(call, 'b')
    await backend.waitFor(() => backend.deltas(call.fcall_id).length === 2, LIMIT_MS)
    const [first, second] = backend.deltas(call.fcall_id)
    expect([first?.text, second?.text]).toEqual(['a', 'b'])
    expect(second?.atMs).toBeGreaterThanOrEqual(first?.atMs ?? Number.POSITIVE_INFINITY)
    delta.socket.terminate()
  })

  test('frames that no front end could place are faults, and good ones after them still count', async () => {
    const call = backend.pushCode('print(1)')
    const delta = await openDelta(backend)
    delta.socket.send('not json')
    delta.socket.send(JSON.stringify({ ...deltaFrame(call, 'x'), ftm_num: 999 }))
    delta.text(call, '')
    delta.text({ ...call, fcall_id: 'fcall_unknown' }, 'x')
    delta.text(call, 'good')
    await backend.waitFor(() => backend.deltas(call.fcall_id).length === 1, LIMIT_MS)
    expect(backend.deltaFaults).toHaveLength(4)
    delta.socket.terminate()
  })
})

describe('credentials', () => {
  const accepted = { apiKey: 'fx-good', ticket: 'ticket-good', superuserToken: 'token-good' }
  const service = { 'x-flexus-service-name': 'python_execute' }

  test.each([
    ['key', { authorization: 'Bearer fx-good' }, { apikey: 'fx-good' }],
    ['ticket', { 'x-flexus-ws-ticket': 'ticket-good' }, { 'x-flexus-ws-ticket': 'ticket-good' }],
    ['superuser', { 'x-flexus-superuser': 'token-good' }, { 'x-flexus-superuser': 'token-good' }],
  ])('a good %s is let in over HTTP and websocket', async (_mode, headers, params) => {
    backend.accept(accepted)
    expect((await register(backend, GOOD_PARAMETERS, { ...headers, ...service })).errors).toBeUndefined()
    const subscriber = subscribe(backend, { params: { ...params, ...service } })
    await backend.waitFor(() => backend.subscribers === 1, LIMIT_MS)
    await subscriber.close()
  })

  test.each([
    ['none', {}, {}],
    ['a wrong key', { authorization: 'Bearer fx-bad' }, { apikey: 'fx-bad' }],
    ['a key as a ticket', { 'x-flexus-ws-ticket': 'fx-good' }, { 'x-flexus-ws-ticket': 'fx-good' }],
  ])('%s is refused with 403 over HTTP and with 4403 over the websocket', async (_what, headers, params) => {
    backend.accept({ apiKey: 'fx-good' })
    const answer = await register(backend, GOOD_PARAMETERS, { ...headers, ...service } as Record<string, string>)
    expect(answer.errors?.[0]?.message).toMatch(/^403: /)
    const subscriber = subscribe(backend, { params: { ...params, ...service } })
    expect(await subscriber.ended).toMatchObject({ code: 4403, reason: expect.stringMatching(/^403: /) })
  })

  test('a request without the name of its service is refused', async () => {
    const answer = await register(backend, GOOD_PARAMETERS, { authorization: `Bearer ${backend.apiKey}` })
    expect(answer.errors?.[0]?.message).toMatch(/^400: x-flexus-service-name/)
  })

  test('a subscription over HTTP is refused', async () => {
    const response = await send(backend, WAIT, { names: [] }, serviceHeaders(backend))
    expect(await response.json()).toMatchObject({ errors: [{ message: expect.stringMatching(/^400: /) }] })
  })
})
