import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { sleep as realSleep, type Sleep } from '../../src/backend/waiting.js'
import type { CallContext } from '../../src/call.js'
import type { BackendConfig } from '../../src/config.js'
import { startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { MemoryJournal } from '../../src/journal/memory-journal.js'
import { broken, busy, notRun, rejected } from '../../src/tool/outcome-without-run.js'
import { Interruption } from '../../src/tool/tool.js'
import { Worker } from '../../src/worker.js'
import { captureLog } from '../backend/support/fixtures.js'
import { answerOf, type Handle, startScripted, text, tool } from './support/scripted-worker.js'
import { config as baseConfig, context } from './tool/fixtures.js'

/** Runs until it is told to end; a well-behaved tool. */
const untilAborted: Handle = ({ signal }) =>
  new Promise(resolve => {
    const end = () => {
      const why: unknown = signal.reason
      resolve(text(why instanceof Interruption ? `interrupted: ${why.message}` : `cancelled: ${String(why)}`))
    }
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
  })

describe('Worker', () => {
  it('leaves calls to others while it is full, keeps the tool registered, and takes calls again', async () => {
    const { backend, worker } = await startScripted(untilAborted, { slots: 2 })
    const calls = [backend.pushCall(), backend.pushCall()]
    await backend.waitFor(() => worker.state === 'full' && backend.subscribers === 0, 5_000)
    for (const call of calls) worker.cancel(call.fcall_id, 'enough')
    await backend.waitFor(() => worker.state === 'serving' && backend.subscribers === 1, 5_000)
    expect(calls.map(call => answerOf(backend, call.fcall_id))).toEqual(['cancelled: enough', 'cancelled: enough'])
  })

  it('full for a moment only, keeps its subscription and does not register again', async () => {
    const handle = async () => {
      await sleep(20)
      return text('done')
    }
    const { backend, worker, logged } = await startScripted(handle, { slots: 1 })
    for (let n = 0; n < 10; n++) await backend.waitForAnswer(backend.pushCall().fcall_id)
    expect(worker.state).toBe('serving')
    expect(logged.lines.filter(line => line['to'] === 'full')).toEqual([])
    expect(backend.connections('graphql')).toBe(1)
    expect(backend.registrations).toHaveLength(1)
  })

  it('registers again after a lost connection, but not after a pause of its own', async () => {
    const { backend, worker } = await startScripted(untilAborted, { slots: 1 })
    const call = backend.pushCall()
    await backend.waitFor(() => worker.state === 'full' && backend.subscribers === 0, 5_000)
    worker.cancel(call.fcall_id, 'enough')
    await backend.waitFor(() => worker.state === 'serving' && backend.subscribers === 1, 5_000)
    await sleep(200)
    expect(backend.registrations).toHaveLength(1)
    backend.dropConnections()
    await backend.waitFor(() => backend.registrations.length === 2, 8_000)
  })

  it('impaired while its key is refused for registering, and well when that works again', async () => {
    const hasty: Sleep = (ms, signal) => realSleep(Math.min(ms, 100), signal)
    const { backend, worker } = await startScripted(untilAborted, { sleep: hasty })
    const stop = backend.misbehave(
      { kind: 'graphql_error', message: '403: no such key' },
      { operation: 'cloudtool_confirm_exists' },
    )
    await backend.waitFor(() => worker.state === 'impaired' && backend.subscribers === 0, 5_000)
    stop()
    await backend.waitFor(() => worker.state === 'serving' && backend.subscribers === 1, 5_000)
  })

  it('answers a call of which only the identity can be read, and takes the next', async () => {
    const { backend } = await startScripted(async () => text('done'))
    const call = backend.pushCall({ fcall_name: 'other' })
    const { fcall_ft_id, ...withoutThread } = call
    backend.sendToSubscriptions('next', { data: { cloudtool_wait_for_call: withoutThread } })
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(answer.content).toMatch(/^Not run: .*fcall_ft_id/)
    expect(answer.provenance).toMatchObject({ status: 'rejected', started: false })
    const next = backend.pushCall()
    expect((await backend.waitForAnswer(next.fcall_id)).content).toBe('done')
  })

  it('impaired takes no calls until what is wrong is well again, and answers those it has', async () => {
    const { backend, worker, running } = await startScripted(untilAborted)
    const first = backend.pushCall()
    await running(1)
    worker.setImpaired('sandbox', 'crash loop')
    expect(worker.status.impairments).toEqual(['sandbox'])
    expect(worker.state).toBe('impaired')
    await backend.waitFor(() => backend.subscribers === 0, 5_000)
    worker.cancel(first.fcall_id, 'enough')
    await backend.waitForAnswer(first.fcall_id)
    backend.pushCall()
    worker.setImpaired('sandbox', null)
    await running(2)
    expect(worker.state).toBe('serving')
  })

  it('told 460 in answer to a post never connects again, and says so', async () => {
    const { backend, worker, forbidden } = await startScripted(async () => text('done'))
    backend.misbehave({ kind: 'graphql_error', message: '460: too old' }, { operation: 'cloudtool_post_result' })
    backend.pushCall()
    await backend.waitFor(() => forbidden.length > 0 && backend.subscribers === 0, 5_000)
    expect(forbidden).toEqual(['460: too old'])
    expect(worker.state).toBe('impaired')
  })

  it('stopped answers what waits before what runs, ends what runs in time, and is true to its word', async () => {
    const { backend, worker, running } = await startScripted(untilAborted, { slots: 1, drainMs: 2_000 })
    const calls = [backend.pushCall(), backend.pushCall()]
    await running(1)
    await backend.waitFor(() => calls.every(call => backend.deliveries(call.fcall_id) > 0), 5_000)
    await sleep(100) // until the second is in line
    const answered: string[] = []
    backend.onEvent(event => {
      if (event.type === 'answered') answered.push(event.answer.fcallId)
    })
    const from = performance.now()
    expect(await worker.stop('test')).toBe(true)
    expect(performance.now() - from).toBeLessThan(3_000)
    expect(answered).toEqual([calls[1]?.fcall_id, calls[0]?.fcall_id])
    expect(answerOf(backend, calls[0]?.fcall_id ?? '')).toBe('interrupted: the worker is being stopped')
    expect(answerOf(backend, calls[1]?.fcall_id ?? '')).toMatch(/not run, safe to retry/)
    expect(worker.state).toBe('stopped')
  })

  it('draining is draining until it is stopped, whatever its slots do', async () => {
    const { backend, worker, running, logged } = await startScripted(untilAborted, { slots: 2, drainMs: 1_500 })
    const calls = [backend.pushCall(), backend.pushCall()]
    await running(2)
    await backend.waitFor(() => worker.state === 'full', 5_000)
    const stopped = worker.stop('test')
    expect(worker.state).toBe('draining')
    await sleep(100)
    worker.cancel(calls[0]?.fcall_id ?? '', 'enough')
    await backend.waitForAnswer(calls[0]?.fcall_id ?? '')
    worker.setImpaired('sandbox', 'crash loop')
    expect(worker.state).toBe('draining')
    expect(await stopped).toBe(true)
    const changes = logged.lines.filter(line => line['msg'] === 'worker state changed')
    expect(changes.map(({ from, to }) => `${from} ${to}`)).toEqual([
      'starting serving',
      'serving full',
      'full draining',
      'draining stopped',
    ])
    expect(backend.subscribers).toBe(0)
  })

  it('stopped gives up on a tool that does not end, within its budget, and says that a call is unanswered', async () => {
    const { backend, worker, running } = await startScripted(() => new Promise(() => {}), { drainMs: 500 })
    backend.pushCall()
    await running(1)
    const from = performance.now()
    expect(await worker.stop('test')).toBe(false)
    expect(performance.now() - from).toBeLessThan(4_000)
  })

  it('stopped twice stops once', async () => {
    const { worker } = await startScripted(untilAborted)
    expect(worker.stop('first')).toBe(worker.stop('second'))
    expect(await worker.stop('third')).toBe(true)
  })

  it('does not start with a tool whose schema is not strict', async () => {
    const backend = await startEmbeddedBackend()
    onTestFinished(() => backend.close())
    const reach: BackendConfig = {
      baseUrl: backend.url,
      endpoint: '/v1/graphql',
      credentials: { mode: 'key', apiKey: 'fx-1' },
    }
    const loose = tool(untilAborted, { type: 'object', properties: { code: { type: 'string' } }, required: [] })
    const outcomes: CallContext['outcomes'] = {
      rejected: (message, called) => rejected(context, message, called),
      busy: called => busy(context, called),
      notRun: (status, reason, called) => notRun(context, status, reason, called),
      broken: (reason, started, called) => broken(context, reason, started, called),
    }
    const log = captureLog().log
    expect(
      () =>
        new Worker({ config: baseConfig, backend: reach, journal: new MemoryJournal(), tools: [loose], outcomes, log }),
    ).toThrow('not a strict schema')
  })
})
