import net from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type HealthView, startHealthServer } from '../../../src/telemetry/health-server.js'
import { Recorder } from '../../../src/telemetry/recorder.js'
import type { HandledCall, WorkerIdentity, WorkerStatus } from '../../../src/telemetry/status.js'
import { captureLog } from '../../backend/support/fixtures.js'
import { CALL } from './fixtures.js'

const IDENTITY: WorkerIdentity = {
  service: 'python_execute',
  version: '1.2.3',
  workerId: 'abc',
  tier: 'landlock',
  layers: [
    { name: 'seccomp', inForce: true },
    { name: 'user namespace', inForce: false, why: 'EPERM: <refused>' },
  ],
  python: '3.13.5',
  node: '24.1.0',
}
const STATUS: WorkerStatus = {
  state: 'serving',
  reasons: [],
  impairments: [],
  slots: 4,
  running: 1,
  waiting: 2,
  outbox: { answers: 0, oldestMs: 0 },
  journal: { writable: true, unsaved: 0 },
}

async function served(changes: Partial<WorkerStatus> = {}, calls: readonly Partial<HandledCall>[] = []) {
  const status = { ...STATUS, ...changes }
  const recorder = new Recorder({ status: () => status, log: captureLog().log })
  recorder.identify(IDENTITY)
  for (const call of calls) recorder.callHandled({ ...CALL, at: Date.now(), ...call })
  recorder.postFailed('gave_up')
  recorder.answerLost()
  return await serving({ identity: IDENTITY, status, recorder })
}

async function serving(view: HealthView | null) {
  const server = await startHealthServer({ host: '127.0.0.1', port: 0, view: () => view })
  onTestFinished(() => server.close())
  return async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`${server.url}${path}`, init)
    return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
  }
}

describe('the health server', () => {
  it('is alive, and says of itself whether it is ready, in which tier, and with which layers', async () => {
    const get = await served()
    expect(await get('/livez')).toMatchObject({ status: 200, text: 'alive\n' })
    const { status, text } = await get('/readyz')
    expect(status).toBe(200)
    expect(JSON.parse(text)).toEqual({ ready: true, ...STATUS, tier: 'landlock', layers: IDENTITY.layers })
  })

  it.each([
    ['starting', null],
    ['not subscribed', { reasons: ['backend: the key is refused'] }],
  ])('is alive and not ready while %s, and says why', async (_, changes) => {
    const get = changes === null ? await serving(null) : await served(changes)
    expect((await get('/livez')).status).toBe(200)
    const { status, text } = await get('/readyz')
    expect(status).toBe(503)
    expect(JSON.parse(text)).toMatchObject({
      ready: false,
      reasons: changes?.reasons ?? ['the worker is starting'],
    })
  })

  it('gives Prometheus what happened, without an id in any label', async () => {
    const get = await served({ outbox: { answers: 2, oldestMs: 1_500 } }, [
      {},
      {
        status: 'timed_out',
        queueMs: null,
        killedFor: 'wall',
        totalMs: 61_000,
        delivered: false,
        deltaBytesDropped: 10,
        dollars: 0.5,
      },
      { status: 'interrupted', startMs: null, queueMs: 90_000, refused: 'deadline' },
      { status: 'interrupted', startMs: null, queueMs: null, refused: 'busy' },
      { queueMs: 2 },
    ])
    const { text, type } = await get('/metrics')
    expect(type).toMatch(/^text\/plain; version=0\.0\.4/)
    const lines = text.split('\n')
    for (const line of [
      'python_execute_slots 4',
      'python_execute_slots_used 1',
      'python_execute_calls_waiting 2',
      'python_execute_ready 1',
      'python_execute_outbox_answers 2',
      'python_execute_outbox_oldest_seconds 1.5',
      'python_execute_build_info{version="1.2.3",tier="landlock",python="3.13.5",node="24.1.0"} 1',
      'python_execute_call_seconds_count{status="completed"} 2',
      'python_execute_call_seconds_sum{status="timed_out"} 61',
      'python_execute_sandbox_start_seconds_bucket{le="0.005"} 3',
      'python_execute_queue_seconds_count 3',
      'python_execute_queue_seconds_bucket{le="60"} 2',
      'python_execute_calls_refused_total{why="deadline"} 1',
      'python_execute_calls_refused_total{why="busy"} 1',
      'python_execute_kills_total{cause="wall"} 1',
      'python_execute_posts_failed_total{why="gave_up"} 1',
      'python_execute_answers_refused_total 0',
      'python_execute_answers_lost_total 1',
      'python_execute_journal_writable 1',
      'python_execute_journal_unsaved_calls 0',
      'python_execute_delta_dropped_bytes_total 10',
      'python_execute_dollars_total 0.5',
    ]) {
      expect(lines).toContain(line)
    }
    expect(text).toContain('nodejs_eventloop_lag_seconds')
  })

  it('shows a person a page, in which nothing becomes markup', async () => {
    const get = await served({ reasons: ['sandbox: <b>down</b>'] }, [
      { status: 'failed', delivered: false, postAttempts: 3 },
    ])
    const { text, type } = await get('/')
    expect(type).toBe('text/html; charset=utf-8')
    expect(text).toContain('not ready · python_execute')
    expect(text).toContain('sandbox: &lt;b&gt;down&lt;/b&gt;')
    expect(text).toContain('user namespace: EPERM: &lt;refused&gt;')
    expect(text).toContain('not taken so far after 3 attempts')
    expect(text).toContain('1 of 4')
    expect((await (await serving(null))('/')).text).toContain('The worker is starting.')
  })

  it('has nothing else, and takes nothing', async () => {
    const get = await served()
    expect((await get('/.env')).status).toBe(404)
    expect((await get('/readyz?x=1')).status).toBe(200)
    expect((await get('/', { method: 'POST', body: 'x' })).status).toBe(405)
    const head = await get('/', { method: 'HEAD' })
    expect([head.status, head.text]).toEqual([200, ''])
  })

  it('says that it is the address which the machine does not have', async () => {
    await expect(startHealthServer({ host: '192.0.2.1', port: 0, view: () => null })).rejects.toThrow(
      'HEALTH_HOST: 192.0.2.1 can not be had: this machine has no such address; give another HEALTH_HOST',
    )
  })

  it('says which port can not be had', async () => {
    const taken = net.createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void taken.close())
    await new Promise(resolve => taken.once('listening', resolve))
    const { port } = taken.address() as net.AddressInfo
    await expect(startHealthServer({ host: '127.0.0.1', port, view: () => null })).rejects.toThrow(
      `HEALTH_PORT: 127.0.0.1:${port} can not be had: another program uses it; give another HEALTH_PORT, 0 for any, or off`,
    )
  })
})
