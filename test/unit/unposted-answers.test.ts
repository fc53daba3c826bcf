import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DiskJournal } from '../../src/journal/disk-journal.js'
import { answerOf, startScripted, text } from './support/scripted-worker.js'

function onDisk() {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'worker-'))
  onTestFinished(() => rmSync(stateDir, { recursive: true, force: true }))
  return (log: Logger) => DiskJournal.open({ stateDir, log, onHealth: () => {} })
}

describe('Answers that the backend does not take', () => {
  const KIB = 1024
  const large = 'x'.repeat(300 * KIB)
  const POST = 'cloudtool_post_result'

  it('are held in memory up to a bound; beyond it they wait on disk, have their turn, and calls are taken meanwhile', {
    timeout: 120_000,
  }, async () => {
    const { backend, worker, logged } = await startScripted(async () => text(large), {
      journal: onDisk(),
      postingMostBytes: 1_000 * KIB,
    })
    const clear = backend.misbehave({ kind: 'http_status', status: 503 }, { operation: POST })
    const calls = Array.from({ length: 10 }, () => backend.pushCode('1'))
    const waits = (line: Record<string, unknown>) =>
      line['msg'] === 'answer waits on disk until there is room to post it'
    // Some come again meanwhile, and wait again.
    const putOff = () => new Set(logged.lines.filter(waits).map(line => line['fcall_id']))
    await backend.waitFor(() => putOff().size === 7, 60_000)
    expect(worker.state).toBe('serving')
    clear()
    for (const { fcall_id } of calls) await backend.waitForAnswer(fcall_id, 60_000)
    expect(calls.filter(({ fcall_id }) => answerOf(backend, fcall_id) !== large)).toEqual([])
    await backend.waitFor(() => worker.status.outbox.answers === 0, 5_000)
  })

  it('and that no disk keeps are shortened beyond the bound, and no more calls are taken until there is room', {
    timeout: 120_000,
  }, async () => {
    const { backend, worker } = await startScripted(async () => text(large), { postingMostBytes: 1_000 * KIB })
    const clear = backend.misbehave({ kind: 'http_status', status: 503 }, { operation: POST })
    const calls = Array.from({ length: 4 }, () => backend.pushCode('1'))
    await backend.waitFor(() => worker.state === 'impaired' && backend.subscribers === 0, 60_000)
    expect(worker.status.reasons[0]).toMatch(/^answers: \d+ MiB of answers wait in memory alone for the backend/)
    clear()
    for (const { fcall_id } of calls) await backend.waitForAnswer(fcall_id, 60_000)
    const lengths = calls.map(({ fcall_id }) => String(answerOf(backend, fcall_id)).length)
    expect(lengths.filter(length => length === large.length)).toHaveLength(3)
    expect(lengths.filter(length => length <= 16 * KIB)).toHaveLength(1)
    await backend.waitFor(() => worker.state === 'serving' && backend.subscribers === 1, 10_000)
  })

  it('neither become a storm of posts nor pile up, and each is posted once when it does', {
    timeout: 120_000,
  }, async () => {
    const handle = async () => {
      await sleep(20)
      return text('done')
    }
    const { backend, worker, logged } = await startScripted(handle, { journal: onDisk(), outboxMostAnswers: 200 })
    const clear = backend.misbehave({ kind: 'http_status', status: 503 }, { operation: POST })
    const failed = () => logged.lines.filter(line => line['mutation'] === POST && line['kind'] === 'retry').length
    const first = Array.from({ length: 400 }, () => backend.pushCode('1'))
    await backend.waitFor(() => worker.state === 'impaired' && backend.subscribers === 0, 60_000)
    expect(worker.status.reasons[0]).toMatch(/^answers: \d+ answers \(1 MiB\) wait for the backend to take them$/)
    const later = Array.from({ length: 100 }, () => backend.pushCode('1'))
    await sleep(5_000)
    const before = failed()
    await sleep(6_000)
    expect(failed() - before).toBeGreaterThan(0)
    expect(failed() - before).toBeLessThan(12)
    const warnings = logged.lines.filter(({ level, msg }) => Number(level) >= 40 && msg !== 'worker state changed')
    expect(warnings.length).toBeLessThan(6)
    expect(later.filter(({ fcall_id }) => backend.deliveries(fcall_id) > 0)).toEqual([])
    expect(worker.status.outbox.answers).toBe(first.length)
    clear()
    await backend.waitFor(() => worker.status.outbox.answers < first.length, 5_000)
    const calls = [...first, ...later]
    for (const { fcall_id } of calls) await backend.waitForAnswer(fcall_id, 60_000)
    await backend.waitFor(() => worker.status.outbox.answers === 0 && worker.state === 'serving', 10_000)
    expect(calls.filter(({ fcall_id }) => backend.answers.get(fcall_id)?.length !== 1)).toEqual([])
    expect(logged.messages().filter(message => /^the backend (still )?takes/.test(message))).toEqual([
      'the backend takes no answers for now',
      'the backend takes answers again',
    ])
  })

  it('take few connections where the network refuses, and the next is posted soon after it is back', {
    timeout: 90_000,
  }, async () => {
    let end: () => void = () => {}
    const ended = new Promise<void>(resolve => {
      end = resolve
    })
    const handle = async () => {
      await ended
      return text('done')
    }
    const { backend, proxy, running } = await startScripted(handle, { slots: 30, journal: onDisk() })
    const calls = Array.from({ length: 30 }, () => backend.pushCode('1'))
    await running(30)
    proxy.cut()
    proxy.refuse(true)
    await sleep(500)
    const before = proxy.attempts.length
    end()
    await sleep(30_000)
    const attempts = proxy.attempts.length - before
    expect(attempts).toBeGreaterThan(0)
    expect(attempts).toBeLessThanOrEqual(30)
    await proxy.heal()
    for (const { fcall_id } of calls) await backend.waitForAnswer(fcall_id, 6_000)
    expect(calls.filter(({ fcall_id }) => backend.answers.get(fcall_id)?.length !== 1)).toEqual([])
  })
})
