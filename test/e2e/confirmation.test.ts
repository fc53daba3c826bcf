import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import type { Confirmation } from '../../src/dev/records.js'
import { faults, statusOf, streamed, textOf } from './support/answers.js'
import { endPrograms, startWorkerProcess } from './support/worker-process.js'

let backend: EmbeddedBackend

beforeAll(async () => {
  backend = await startEmbeddedBackend()
  await startWorkerProcess(backend, { CONFIRM_BEFORE: 'always' })
})

afterEach(() => backend.clearMisbehaviour())

afterAll(async () => {
  await endPrograms()
  await backend.close()
})

function requests(fcallId: string): readonly Confirmation[] {
  return backend.confirmations.filter(one => one.fcallId === fcallId)
}

function asked(fcallId: string): Promise<void> {
  return backend.waitFor(() => requests(fcallId).length > 0, 15_000)
}

describe('CONFIRM_BEFORE=always', () => {
  it('asks with the code as the command, posts nothing, and runs it once after a yes', async () => {
    const call = backend.pushCode('print("approved")')
    await asked(call.fcall_id)
    expect(requests(call.fcall_id)[0]).toMatchObject({ command: 'print("approved")' })
    expect(requests(call.fcall_id)[0]?.explanation).not.toBe('')
    await sleep(200)
    expect(backend.answers.has(call.fcall_id)).toBe(false)
    expect(streamed(backend, call.fcall_id)).toBe('')
    backend.confirm(call.fcall_id, true)
    expect(textOf(await backend.waitForAnswer(call.fcall_id))).toBe('approved\n')
    expect(streamed(backend, call.fcall_id)).toBe('approved\n')
    expect(requests(call.fcall_id)).toHaveLength(1)
    expect(faults(backend, [call.fcall_id])).toEqual([])
  })

  it('answers "declined, not run" after a no', async () => {
    const call = backend.pushCode('print("never")')
    await asked(call.fcall_id)
    backend.confirm(call.fcall_id, false)
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('declined')
    expect(textOf(answer)).toContain('declined, not run')
    expect(answer.provenance['started']).toBe(false)
    expect(streamed(backend, call.fcall_id)).toBe('')
  })

  it('cuts a long command at 2 000 characters and says so', async () => {
    const code = `print("${'a'.repeat(5_000)}")`
    const call = backend.pushCode(code)
    await asked(call.fcall_id)
    const command = requests(call.fcall_id)[0]?.command ?? ''
    expect(command.startsWith(code.slice(0, 2_000))).toBe(true)
    expect(command).not.toContain(code.slice(0, 2_001))
    expect(command).toContain(`2000 of ${code.length} characters`)
  })

  it('does not ask again when the call is delivered again, and still runs it after the yes', async () => {
    const call = backend.pushCode('print("once")')
    await asked(call.fcall_id)
    backend.dropConnections()
    await backend.waitFor(() => backend.deliveries(call.fcall_id) > 1, 15_000)
    backend.confirm(call.fcall_id, true)
    await backend.waitForAnswer(call.fcall_id)
    await sleep(200)
    expect(requests(call.fcall_id)).toHaveLength(1)
    expect(streamed(backend, call.fcall_id)).toBe('once\n')
    expect(faults(backend, [call.fcall_id])).toEqual([])
  })

  it('takes "already requested" for asked', async () => {
    // The request is carried out and its answer lost, so the retry hears that a person was asked already.
    backend.misbehave({ kind: 'http_reset', commit: true }, { times: 1, operation: 'cloudtool_confirmation_request' })
    const refused: string[] = []
    backend.onEvent(event => {
      if (event.type === 'request_refused') refused.push(event.reason)
    })
    const call = backend.pushCode('print("asked")')
    await asked(call.fcall_id)
    await backend.waitFor(() => refused.some(reason => reason.includes('already requested')), 10_000)
    await sleep(200)
    expect(backend.answers.has(call.fcall_id)).toBe(false)
    backend.confirm(call.fcall_id, true)
    expect(textOf(await backend.waitForAnswer(call.fcall_id))).toBe('asked\n')
  })

  it('says so to the model when nobody can be asked', async () => {
    backend.misbehave(
      { kind: 'graphql_error', message: '400: this chat has no person' },
      { operation: 'cloudtool_confirmation_request' },
    )
    const call = backend.pushCode('print("never")')
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(textOf(answer)).toMatch(/could not be asked.*this chat has no person.*not run/)
    expect(answer.provenance['started']).toBe(false)
  })

  it('the first word stands: a no after a yes does not make a second answer', async () => {
    const call = backend.pushCode('import time\nprint("running", flush=True)\ntime.sleep(1)\nprint("done")')
    await asked(call.fcall_id)
    backend.confirm(call.fcall_id, true)
    await backend.waitFor(() => streamed(backend, call.fcall_id) !== '', 10_000)
    backend.confirm(call.fcall_id, false)
    expect(textOf(await backend.waitForAnswer(call.fcall_id))).toBe('running\ndone\n')
    expect(faults(backend, [call.fcall_id])).toEqual([])
  })
})
