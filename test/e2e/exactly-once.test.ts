import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { faults, startBackend, statusOf, streamed, textOf } from './support/answers.js'
import { endPrograms, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

describe('exactly one answer', () => {
  it('200 calls that are pushed at once are all answered once, each with its own output', {
    timeout: 60_000,
  }, async () => {
    const backend = await startBackend()
    await startWorkerProcess(backend)
    const calls = Array.from({ length: 200 }, (_, n) => backend.pushCode(`print(${n} * 7)`))
    for (const [n, call] of calls.entries()) {
      expect(textOf(await backend.waitForAnswer(call.fcall_id, 40_000))).toBe(`${n * 7}\n`)
      expect(streamed(backend, call.fcall_id)).toBe(`${n * 7}\n`)
    }
    // A second post would come at once: everything that waits is delivered anew with each subscription.
    await sleep(300)
    expect(
      faults(
        backend,
        calls.map(call => call.fcall_id),
      ),
    ).toEqual([])
  })

  it('a backend that is gone for 3 s in mid-call loses nothing, and the tool is registered anew', {
    timeout: 60_000,
  }, async () => {
    const backend = await startBackend()
    await startWorkerProcess(backend)
    const ends = [1, 2.5, 5].map(seconds =>
      backend.pushCode(`import time\nprint("begun")\ntime.sleep(${seconds})\nprint("ended after ${seconds}")`),
    )
    await backend.waitFor(() => ends.every(call => backend.deltas(call.fcall_id).length > 0), 10_000)
    const registrations = backend.registrations.length
    await backend.stop()
    await sleep(3_000)
    await backend.start()
    for (const call of ends) {
      const answer = await backend.waitForAnswer(call.fcall_id, 40_000)
      expect(statusOf(answer)).toBe('completed')
      expect(textOf(answer)).toMatch(/^begun\nended after/)
    }
    await backend.waitFor(() => backend.registrations.length > registrations, 15_000)
    const later = backend.pushCode('print("later")')
    expect(textOf(await backend.waitForAnswer(later.fcall_id))).toBe('later\n')
    expect(
      faults(
        backend,
        [...ends, later].map(call => call.fcall_id),
      ),
    ).toEqual([])
  })

  it("a call that comes again with a person's word that nobody asked for runs once", async () => {
    const backend = await startBackend()
    await startWorkerProcess(backend)
    const call = backend.pushCode('import time\nprint("ran")\ntime.sleep(0.5)')
    await backend.waitFor(() => backend.deltas(call.fcall_id).length > 0, 10_000)
    backend.confirm(call.fcall_id, true)
    await backend.waitFor(() => backend.deliveries(call.fcall_id) === 2, 5_000)
    expect(textOf(await backend.waitForAnswer(call.fcall_id))).toBe('ran\n')
    await sleep(700)
    expect(faults(backend, [call.fcall_id])).toEqual([])
    expect(streamed(backend, call.fcall_id)).toBe('ran\n')
  })

  it('an answer whose acceptance got lost is not posted as another one', async () => {
    const backend = await startBackend()
    await startWorkerProcess(backend)
    backend.misbehave({ kind: 'http_reset', commit: true }, { times: 1, operation: 'cloudtool_post_result' })
    const call = backend.pushCode('print("once")')
    await backend.waitForAnswer(call.fcall_id)
    await backend.waitFor(() => backend.duplicates.length > 0, 10_000)
    const later = backend.pushCode('print("next")')
    await backend.waitForAnswer(later.fcall_id)
    expect(backend.duplicates).toHaveLength(1) // the retry itself, which the refusal ended
    expect(backend.answers.get(call.fcall_id)?.[0]?.content).toBe('once\n')
  })

  it('a call that is delivered again while its post is being retried is posted by one of the two', async () => {
    const backend = await startBackend()
    await startWorkerProcess(backend)
    const clear = backend.misbehave({ kind: 'http_status', status: 503 }, { operation: 'cloudtool_post_result' })
    const call = backend.pushCode('print("once")')
    await backend.waitFor(() => backend.deltas(call.fcall_id).length > 0, 10_000)
    backend.dropConnections()
    await backend.waitFor(() => backend.deliveries(call.fcall_id) > 1, 10_000)
    clear()
    await backend.waitForAnswer(call.fcall_id, 20_000)
    await sleep(300)
    expect(faults(backend, [call.fcall_id])).toEqual([])
    expect(streamed(backend, call.fcall_id)).toBe('once\n') // and ran once
  })

  it('an answer that the backend finds too large comes shorter, and says so', async () => {
    const backend = await startBackend({ maxBodyBytes: 60_000 })
    await startWorkerProcess(backend)
    const call = backend.pushCode('print("x" * 49_000 + "\\u00e9" * 400)\nprint("the end")')
    expect(textOf(await backend.waitForAnswer(call.fcall_id))).toContain('the end')
    const large = backend.pushCode('print("\\\\" * 45_000)\nprint("the end")')
    const text = textOf(await backend.waitForAnswer(large.fcall_id))
    expect(text.length).toBeLessThan(45_000)
    expect(text).toContain('the middle of this answer was left out')
    expect(text).toContain('the end')
    expect(
      faults(
        backend,
        [call, large].map(one => one.fcall_id),
      ),
    ).toEqual([])
  })
})
