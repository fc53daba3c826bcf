import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { describe, expect, it, onTestFinished } from 'vitest'
import { sleep as realSleep, type Sleep } from '../../src/backend/waiting.js'
import type { CallContext } from '../../src/call.js'
import type { BackendConfig, Config } from '../../src/config.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { DiskJournal } from '../../src/journal/disk-journal.js'
import type { Journal } from '../../src/journal/journal.js'
import { MemoryJournal } from '../../src/journal/memory-journal.js'
import { broken, busy, notRun, rejected } from '../../src/tool/outcome-without-run.js'
import { Interruption, type Invocation, type Reply, type Tool } from '../../src/tool/tool.js'
import { Worker } from '../../src/worker.js'
import { captureLog } from '../backend/support/fixtures.js'
import { config as baseConfig, context } from './tool/fixtures.js'

type Handle = (invocation: Invocation<unknown>) => Promise<Reply>

function text(content: string): Reply {
  return { kind: 'answer', content, provenance: {}, dollars: 0, outcome: null }
}

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

/** A worker with a scripted tool in place of the sandbox. */
async function start(
  handle: Handle,
  changes: {
    slots?: number
    drainMs?: number
    sleep?: Sleep
    journal?: (log: Logger) => Promise<Journal>
    postingMostBytes?: number
  } = {},
) {
  const backend = await startEmbeddedBackend()
  const logged = captureLog()
  const reach: BackendConfig = {
    baseUrl: backend.url,
    endpoint: '/v1/graphql',
    credentials: { mode: 'key', apiKey: backend.apiKey },
  }
  const config: Config = {
    ...baseConfig,
    backend: reach,
    drainMs: changes.drainMs ?? 2_000,
    sandbox: { ...baseConfig.sandbox, slots: changes.slots ?? 2 },
  }
  const forbidden: string[] = []
  let started = 0
  const worker = new Worker({
    config,
    backend: reach,
    journal: (await changes.journal?.(logged.log)) ?? new MemoryJournal(),
    tools: [
      tool(invocation => {
        started++
        return handle(invocation)
      }),
    ],
    outcomes: {
      rejected: (message, called) => rejected(context, message, called),
      busy: called => busy(context, called),
      notRun: (status, reason, called) => notRun(context, status, reason, called),
      broken: (reason, started, called) => broken(context, reason, started, called),
    },
    log: logged.log,
    onForbidden: reason => forbidden.push(reason),
    ...(changes.sleep === undefined ? {} : { sleep: changes.sleep }),
    ...(changes.postingMostBytes === undefined ? {} : { postingMostBytes: changes.postingMostBytes }),
  })
  onTestFinished(async () => {
    await worker.stop('the test is over')
    await backend.close()
  })
  await backend.waitFor(() => backend.subscribers > 0 && backend.registrations.length > 0, 10_000)
  /** A call is "delivered" when the backend has sent it; whether it runs only the tool knows. */
  const running = (count: number) => backend.waitFor(() => started >= count, 5_000)
  return { backend, worker, logged, forbidden, running }
}

function tool(handle: Handle, parameters: Tool['parameters'] = { type: 'object' }): Tool {
  return {
    name: 'python_execute',
    description: 'A scripted tool.',
    parameters,
    parse: args => ({ ok: true, args }),
    before: () => null,
    handle,
  }
}

function answerOf(backend: EmbeddedBackend, fcallId: string): unknown {
  return backend.answers.get(fcallId)?.[0]?.content
}

describe('Worker', () => {
  it('leaves calls to others while it is full, keeps the tool registered, and takes calls again', async () => {
    const { backend, worker } = await start(untilAborted, { slots: 2 })
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
    const { backend, worker, logged } = await start(handle, { slots: 1 })
    for (let n = 0; n < 10; n++) await backend.waitForAnswer(backend.pushCall().fcall_id)
    expect(worker.state).toBe('serving')
    expect(logged.lines.filter(line => line['to'] === 'full')).toEqual([])
    expect(backend.connections('graphql')).toBe(1)
    expect(backend.registrations).toHaveLength(1)
  })

  it('registers again after a lost connection, but not after a pause of its own', async () => {
    const { backend, worker } = await start(untilAborted, { slots: 1 })
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
    const { backend, worker } = await start(untilAborted, { sleep: hasty })
    const stop = backend.misbehave(
      { kind: 'graphql_error', message: '403: no such key' },
      { operation: 'cloudtool_confirm_exists' },
    )
    await backend.waitFor(() => worker.state === 'impaired' && backend.subscribers === 0, 5_000)
    stop()
    await backend.waitFor(() => worker.state === 'serving' && backend.subscribers === 1, 5_000)
  })

  it('answers a call of which only the identity can be read, and takes the next', async () => {
    const { backend } = await start(async () => text('done'))
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
    const { backend, worker, running } = await start(untilAborted)
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
    const { backend, worker, forbidden } = await start(async () => text('done'))
    backend.misbehave({ kind: 'graphql_error', message: '460: too old' }, { operation: 'cloudtool_post_result' })
    backend.pushCall()
    await backend.waitFor(() => forbidden.length > 0 && backend.subscribers === 0, 5_000)
    expect(forbidden).toEqual(['460: too old'])
    expect(worker.state).toBe('impaired')
  })

  it('stopped answers what waits before what runs, ends what runs in time, and is true to its word', async () => {
    const { backend, worker, running } = await start(untilAborted, { slots: 1, drainMs: 2_000 })
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
    const { backend, worker, running, logged } = await start(untilAborted, { slots: 2, drainMs: 1_500 })
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
    const { backend, worker, running } = await start(() => new Promise(() => {}), { drainMs: 500 })
    backend.pushCall()
    await running(1)
    const from = performance.now()
    expect(await worker.stop('test')).toBe(false)
    expect(performance.now() - from).toBeLessThan(4_000)
  })

  it('stopped twice stops once', async () => {
    const { worker } = await start(untilAborted)
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

describe('Answers that the backend does not take', () => {
  const KIB = 1024
  const large = 'x'.repeat(300 * KIB)
  const POST = 'cloudtool_post_result'

  it('are held in memory up to a bound; beyond it they wait on disk, have their turn, and calls are taken meanwhile', {
    timeout: 120_000,
  }, async () => {
    const dir = mkdtempSync(path.join(os.tmpdir(), 'worker-'))
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
    const journal = (log: Logger) => DiskJournal.open({ stateDir: dir, log, onHealth: () => {} })
    const { backend, worker, logged } = await start(async () => text(large), { journal, postingMostBytes: 1_000 * KIB })
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
    const { backend, worker } = await start(async () => text(large), { postingMostBytes: 1_000 * KIB })
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
})
