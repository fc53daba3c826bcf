import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import type { EmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { faults, startBackend, statusOf, streamed, textOf, usageOf } from './support/answers.js'
import { startInProcess } from './support/in-process-worker.js'

function args(code: string): { readonly fcall_arguments: string } {
  return { fcall_arguments: JSON.stringify({ code, timeout_seconds: null }) }
}

const SLEEPER = 'import time\nprint("begun")\ntime.sleep(30)\nprint("ended")'

async function begun(backend: EmbeddedBackend, call: ToolCall): Promise<void> {
  await backend.waitFor(() => streamed(backend, call.fcall_id) !== '', 10_000)
}

describe('calls that wait', () => {
  it('beyond QUEUE_MAX_CALLS are answered "busy, not run, safe to retry", the others run', async () => {
    const backend = await startBackend()
    await startInProcess(backend, { MAX_CONCURRENT_CALLS: '1', QUEUE_MAX_CALLS: '2' })
    const calls = Array.from({ length: 8 }, (_, n) =>
      backend.pushCall(args(`import time\ntime.sleep(0.5)\nprint(${n})`)),
    )
    const texts: string[] = []
    for (const call of calls) texts.push(textOf(await backend.waitForAnswer(call.fcall_id, 20_000)))
    const busy = texts.filter(text => text.includes('busy, not run, safe to retry'))
    expect(texts.slice(0, 3)).toEqual(['0\n', '1\n', '2\n'])
    expect(busy.length).toBeGreaterThan(0)
    expect(
      faults(
        backend,
        calls.map(call => call.fcall_id),
      ),
    ).toEqual([])
  })

  it('of another group are not kept waiting by a flood of one group', async () => {
    const backend = await startBackend()
    await startInProcess(backend, { MAX_CONCURRENT_CALLS: '2' })
    const code = args('import time\ntime.sleep(0.3)')
    const flood = Array.from({ length: 20 }, () => backend.pushCall({ ...code, located_fgroup_id: 'flood' }))
    const other = backend.pushCall({ ...code, located_fgroup_id: 'other' })
    const answer = await backend.waitForAnswer(other.fcall_id, 20_000)
    const answeredBefore = flood.filter(call => backend.answers.has(call.fcall_id)).length
    expect(statusOf(answer)).toBe('completed')
    expect(answeredBefore).toBeLessThan(8)
    for (const call of flood) await backend.waitForAnswer(call.fcall_id, 20_000)
  })

  it('a call that came too late is answered "not run"', async () => {
    const backend = await startBackend()
    await startInProcess(backend)
    const call = backend.pushCall({ ...args('print("ran")'), fcall_created_ts: Date.now() / 1000 - 590 })
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toMatch(/deadline; not run, safe to retry/)
    expect(streamed(backend, call.fcall_id)).toBe('')
  })

  it('a call whose deadline passes while it waits is answered "not run" then, not when a slot is free', async () => {
    const backend = await startBackend()
    const { worker } = await startInProcess(backend, { MAX_CONCURRENT_CALLS: '1' })
    const running = backend.pushCall(args(SLEEPER))
    const waiting = backend.pushCall({ ...args('print("ran")'), fcall_created_ts: Date.now() / 1000 - 582 })
    const answer = await backend.waitForAnswer(waiting.fcall_id, 6_000)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toMatch(/turn did not come in time.*not run, safe to retry/)
    expect(backend.answers.has(running.fcall_id)).toBe(false)
    worker.cancel(running.fcall_id, 'the test is over')
    await backend.waitForAnswer(running.fcall_id)
  })

  it('the time limit is shortened to what is left before the deadline, and the answer says so', async () => {
    const backend = await startBackend()
    await startInProcess(backend)
    const call = backend.pushCall({ ...args('while True: pass'), fcall_created_ts: Date.now() / 1000 - 583 })
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('timed_out')
    expect(textOf(answer)).toContain("the call's deadline is near")
    expect(usageOf(answer).run_ms).toBeLessThan(4_000)
  })
})

describe('cancel', () => {
  it('of a running call interrupts its code, keeps its output and gives the reason', async () => {
    const backend = await startBackend()
    const { worker } = await startInProcess(backend)
    const call = backend.pushCall(args(SLEEPER))
    await begun(backend, call)
    expect(worker.cancel(call.fcall_id, 'the person pressed stop')).toBe(true)
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('cancelled')
    expect(textOf(answer)).toMatch(/^begun\n[\s\S]*the person pressed stop; the code may have run in part/)
    await backend.waitFor(() => !worker.cancel(call.fcall_id, 'again'), 5_000)
    expect(worker.cancel('no such call', 'whatever')).toBe(false)
  })

  it('of code that ignores SIGINT ends it half a second later', async () => {
    const backend = await startBackend()
    const { worker } = await startInProcess(backend)
    const code = 'import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint("begun")\ntime.sleep(30)'
    const call = backend.pushCall(args(code))
    await begun(backend, call)
    const from = performance.now()
    worker.cancel(call.fcall_id, 'the person pressed stop')
    expect(statusOf(await backend.waitForAnswer(call.fcall_id))).toBe('cancelled')
    expect(performance.now() - from).toBeLessThan(3_000)
  })

  it('of a waiting call answers "not run" at once', async () => {
    const backend = await startBackend()
    const { worker } = await startInProcess(backend, { MAX_CONCURRENT_CALLS: '1' })
    const running = backend.pushCall(args(SLEEPER))
    const waiting = backend.pushCall(args('print("ran")'))
    await begun(backend, running)
    await backend.waitFor(() => backend.deliveries(waiting.fcall_id) > 0, 5_000)
    await sleep(50) // until it is in line
    expect(worker.cancel(waiting.fcall_id, 'the person pressed stop')).toBe(true)
    const answer = await backend.waitForAnswer(waiting.fcall_id)
    expect(statusOf(answer)).toBe('cancelled')
    expect(textOf(answer)).toMatch(/pressed stop; not run\]/)
    expect(backend.answers.has(running.fcall_id)).toBe(false)
    worker.cancel(running.fcall_id, 'the test is over')
    await backend.waitForAnswer(running.fcall_id)
  })

  it("reaches a call that came again with a person's word", async () => {
    const backend = await startBackend()
    const { worker } = await startInProcess(backend, { CONFIRM_BEFORE: 'always' })
    const call = backend.pushCall(args(SLEEPER))
    await backend.waitFor(() => backend.confirmations.length > 0, 10_000)
    backend.confirm(call.fcall_id, true)
    await begun(backend, call)
    expect(worker.cancel(call.fcall_id, 'the person pressed stop')).toBe(true)
    expect(statusOf(await backend.waitForAnswer(call.fcall_id))).toBe('cancelled')
    expect(faults(backend, [call.fcall_id])).toEqual([])
  })
})

describe('460', () => {
  it('to a posted answer stops the worker from connecting for good', async () => {
    const backend = await startBackend()
    const { worker, logged } = await startInProcess(backend)
    backend.misbehave(
      { kind: 'graphql_error', message: '460: this version may not work' },
      { operation: 'cloudtool_post_result' },
    )
    backend.pushCall(args('print(1)'))
    await backend.waitFor(() => worker.state === 'impaired', 10_000)
    await backend.waitFor(() => backend.subscribers === 0, 5_000)
    expect(logged.text()).toContain('460: this version may not work')
  })
})
