import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { statusOf, streamed, textOf } from './support/answers.js'
import { endPrograms, type Program, startWorkerProcess } from './support/worker-process.js'

let backend: EmbeddedBackend
let worker: Program

beforeAll(async () => {
  backend = await startEmbeddedBackend()
  worker = await startWorkerProcess(backend)
})

afterAll(async () => {
  await endPrograms()
  await backend.close()
})

/** The code would give itself away in a delta. */
const CODE = 'print("it ran")'
/** It takes a few milliseconds; the rest is what a machine adds that others keep busy. A sandbox that was asked for takes a second. */
const ANSWERED_WITHIN_MS = 500

const BAD: readonly (readonly [what: string, call: Partial<ToolCall>, says: RegExp])[] = [
  ['garbage in place of JSON', { fcall_arguments: '{"code": "print(1)' }, /not run.*JSON/],
  ['plain prose', { fcall_arguments: 'please run my code' }, /not run/],
  ['a list', { fcall_arguments: '[1, 2]' }, /not run.*object/],
  ['a number', { fcall_arguments: '42' }, /not run/],
  ['null', { fcall_arguments: 'null' }, /not run.*code/],
  ['nothing at all', { fcall_arguments: '' }, /not run.*code/],
  ['code of the wrong type', { fcall_arguments: '{"code": 42, "timeout_seconds": null}' }, /"code" must be a string/],
  [
    'code that is an object',
    { fcall_arguments: '{"code": {"a": 1}, "timeout_seconds": null}' },
    /"code" must be a string/,
  ],
  [
    'a time limit that is a word',
    { fcall_arguments: JSON.stringify({ code: CODE, timeout_seconds: 'soon' }) },
    /"timeout_seconds" must be/,
  ],
  ['a time limit of 0', { fcall_arguments: JSON.stringify({ code: CODE, timeout_seconds: 0 }) }, /above 0/],
  ['empty code', { fcall_arguments: '{"code": "", "timeout_seconds": null}' }, /"code" is empty/],
  ['code of blanks', { fcall_arguments: '{"code": " \\n\\t ", "timeout_seconds": null}' }, /"code" is empty/],
  [
    '2 MiB of code',
    { fcall_arguments: JSON.stringify({ code: `${CODE}\n${'# padding\n'.repeat(209_715)}`, timeout_seconds: null }) },
    /too large: \d+ bytes, and at most 1048576/,
  ],
  ['a NUL', { fcall_arguments: JSON.stringify({ code: `${CODE}\0`, timeout_seconds: null }) }, /NUL/],
  [
    'half a surrogate pair',
    { fcall_arguments: '{"code": "print(\\"it ran\\") # \\ud83d", "timeout_seconds": null}' },
    /surrogate/,
  ],
  ['deeply nested JSON', { fcall_arguments: '['.repeat(100_000) }, /not run/],
  ['an unknown parameter', { fcall_arguments: JSON.stringify({ kode: CODE }) }, /not run/],
]

describe('bad input', () => {
  it.each(BAD)('%s is answered clearly and at once, and nothing runs', async (_what, partial, says) => {
    const times: number[] = []
    // The best of three: what is measured is the worker, not the pauses of the machine.
    for (let attempt = 0; attempt < 3 && Math.min(...times, Number.POSITIVE_INFINITY) > ANSWERED_WITHIN_MS; attempt++) {
      const begun = performance.now()
      const call = backend.pushCall(partial)
      const answer = await backend.waitForAnswer(call.fcall_id)
      times.push(answer.atMs - begun)
      expect(statusOf(answer)).toBe('rejected')
      expect(textOf(answer)).toMatch(says)
      expect(textOf(answer).length).toBeLessThan(1_500)
      expect(answer.provenance['started']).toBe(false)
      expect(streamed(backend, call.fcall_id)).toBe('')
    }
    expect(Math.min(...times)).toBeLessThan(ANSWERED_WITHIN_MS)
  })

  it('12 MiB of code are answered like 2, on the same connection', async () => {
    const registrations = backend.registrations.length
    const call = backend.pushCode('#'.repeat(12 * 1024 * 1024))
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(textOf(answer)).toMatch(/too large: \d+ bytes, and at most 1048576/)
    expect(backend.deliveries(call.fcall_id)).toBe(1)
    expect(backend.registrations).toHaveLength(registrations)
  })

  it('a call with a key that can not be sent is logged and does not run, as nobody could be answered', async () => {
    const call = backend.pushCall({ fcall_untrusted_key: 'ключ', fcall_arguments: JSON.stringify({ code: CODE }) })
    await backend.waitFor(
      () => worker.stdout().includes('fcall_untrusted_key is wrong: can not be sent as a header'),
      10_000,
    )
    const next = backend.pushCode('print("still serving")')
    expect(textOf(await backend.waitForAnswer(next.fcall_id))).toBe('still serving\n')
    expect(streamed(backend, call.fcall_id)).toBe('')
    expect(worker.stdout()).not.toContain('ключ')
  })

  it('a call with a persona that can not be sent runs for nobody in particular', async () => {
    const args = JSON.stringify({ code: CODE })
    const call = backend.pushCall({ connected_persona_id: 'персона', fcall_arguments: args })
    expect(await backend.waitForAnswer(call.fcall_id)).toMatchObject({ content: 'it ran\n', personaId: null })
  })

  it('a tool that does not exist is answered with those that do', async () => {
    // The backend delivers by name, so this one has to be smuggled in.
    const call = backend.pushCall({ fcall_name: 'no_such_tool' })
    backend.sendToSubscriptions('next', { data: { cloudtool_wait_for_call: call } })
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('rejected')
    expect(textOf(answer)).toContain('There is no tool "no_such_tool" here')
    expect(textOf(answer)).toContain('python_execute')
  })

  it('messages that are no calls are logged without their keys and cost nothing', async () => {
    const key = 'malformed-call-key-5521'
    const registrations = backend.registrations.length
    const payloads: unknown[] = [
      null,
      {},
      { data: null },
      { data: { cloudtool_wait_for_call: null } },
      { data: { cloudtool_wait_for_call: 'a call' } },
      { data: { cloudtool_wait_for_call: { fcall_id: 'broken', fcall_untrusted_key: key, fcall_ftm_alt: 'x' } } },
      { data: { cloudtool_wait_for_call: { fcall_id: { nested: key } } } },
      { errors: [{ message: '500: something went wrong' }] },
    ]
    for (const payload of payloads) backend.sendToSubscriptions('next', payload)
    const call = backend.pushCode('print("still serving")')
    expect(textOf(await backend.waitForAnswer(call.fcall_id, 20_000))).toBe('still serving\n')
    await sleep(50)
    expect(worker.stdout()).toContain('the backend sent something that is no call')
    expect(worker.stdout()).not.toContain(key)
    expect(backend.registrations).toHaveLength(registrations) // one connection all along
  })

  it.each([
    ['coordinates that are no number', { fcall_ftm_alt: 'x' }, /fcall_ftm_alt/],
    ['no creation time', { fcall_created_ts: null }, /fcall_created_ts/],
    ['no tool name', { fcall_name: '' }, /fcall_name/],
  ])('a call with %s but a readable id and key is rejected, and nothing runs', async (_what, changes, says) => {
    const call = backend.pushCall({ fcall_name: 'no_such_tool' }) // known to the backend, and delivered by nobody but us
    const value = { ...call, fcall_name: 'python_execute', ...changes }
    backend.sendToSubscriptions('next', { data: { cloudtool_wait_for_call: value } })
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('rejected')
    expect(textOf(answer)).toMatch(says)
    expect(answer.provenance['started']).toBe(false)
  })

  it.each([
    ['text that is no JSON', 'this is not JSON'],
    ['JSON that is no message', '{"type":"no such type"}'],
    ['a message for another subscription', '{"id":"unknown","type":"next","payload":{"data":{}}}'],
  ])('after %s on the websocket the worker serves on', async (_what, text) => {
    backend.sendRaw(text)
    const call = backend.pushCode('print("still serving")')
    expect(textOf(await backend.waitForAnswer(call.fcall_id, 20_000))).toBe('still serving\n')
    expect(worker.child.exitCode).toBeNull()
  })

  it('calls that end badly leave the worker serving', async () => {
    const calls = ['raise SystemExit(3)', 'import os; os.kill(os.getpid(), 11)', 'def broken(:'].map(code =>
      backend.pushCode(code),
    )
    const statuses = await Promise.all(calls.map(async call => statusOf(await backend.waitForAnswer(call.fcall_id))))
    expect(statuses).toEqual(['failed', 'crashed', 'failed'])
    const call = backend.pushCode('print("still serving")')
    expect(textOf(await backend.waitForAnswer(call.fcall_id))).toBe('still serving\n')
    expect(backend.deltaFaults).toEqual([])
    expect(backend.duplicates).toEqual([])
  })
})
