import { afterEach, describe, expect, it } from 'vitest'
import { startBackend, statusOf, streamed } from './support/answers.js'
import { endPrograms, logLines, type Program, startProgram, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

function urlOf(program: Program): string {
  const line = logLines(program).find(entry => entry['msg'] === 'health can be looked at')
  return String(line?.['url'])
}

async function ready(
  url: string,
): Promise<{ status: number; body: { reasons: string[]; tier?: string; state: string } }> {
  const response = await fetch(`${url}/readyz`)
  return { status: response.status, body: (await response.json()) as never }
}

describe('/readyz of a worker', () => {
  it('is red with the reason until it is registered, green then, and red when the backend has gone', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend)
    const url = urlOf(worker)
    await expect.poll(async () => (await ready(url)).status, { timeout: 5_000 }).toBe(200)
    expect((await ready(url)).body).toMatchObject({ state: 'serving', reasons: [] })
    const { fcall_id } = backend.pushCode('print(1)')
    expect(statusOf(await backend.waitForAnswer(fcall_id))).toBe('completed')
    const counted = async () => (await (await fetch(`${url}/metrics`)).text()).match(/call_seconds_count.*/)?.[0]
    await expect.poll(counted, { timeout: 5_000 }).toBe('call_seconds_count{status="completed"} 1')
    const metrics = await (await fetch(`${url}/metrics`)).text()
    expect(metrics).not.toContain(fcall_id)
    const page = await (await fetch(url)).text()
    expect(page).toContain('completed')
    expect(page).not.toContain(fcall_id)
    await backend.close()
    await expect.poll(async () => (await ready(url)).status, { timeout: 5_000 }).toBe(503)
    expect((await ready(url)).body.reasons).toEqual([
      expect.stringMatching(
        new RegExp(`^not subscribed: (waiting|connecting) \\(${new URL(backend.url).host}: (network: E|closed with )`),
      ),
    ])
    const outage = logLines(worker).find(line => line['msg'] === 'no connection to the backend')
    expect(outage).toMatchObject({ address: new URL(backend.url).host, kind: 'retry' })
    expect((await fetch(`${url}/livez`)).status).toBe(200)
  })

  it('says so where the port can not be had, and the worker does not start', async () => {
    const backend = await startBackend()
    const first = await startWorkerProcess(backend)
    const second = await startProgram(['start'], {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_API_KEY: backend.apiKey,
      HEALTH_PORT: new URL(urlOf(first)).port,
    })
    expect((await second.exited).code).toBe(71)
    expect(second.stderr()).toMatch(/^HEALTH_PORT: 127\.0\.0\.1:\d+ can not be had: another program uses it/)
  })
})

it('a worker whose log nobody reads any more answers what it has and ends', async () => {
  const backend = await startBackend()
  const worker = await startWorkerProcess(backend)
  const call = backend.pushCode('import time\nprint("begun")\ntime.sleep(2)\nprint("done")')
  await backend.waitFor(() => streamed(backend, call.fcall_id) !== '', 10_000)
  worker.child.stdout?.destroy()
  expect(statusOf(await backend.waitForAnswer(call.fcall_id, 10_000))).toBe('completed')
  expect(await worker.exited).toEqual({ code: 0, signal: null })
})

it('a worker whose log is not read for a while serves as ever, and the log is whole when it is read', async () => {
  const backend = await startBackend()
  const worker = await startWorkerProcess(backend, { LOG_LEVEL: 'debug' })
  worker.child.stdout?.pause()
  const unread = worker.stdout().length
  // About 2 kB of log each: more than pipe and socket take.
  const calls = Array.from({ length: 400 }, (_, n) => backend.pushCode(`print(${n})`))
  for (const call of calls) expect(statusOf(await backend.waitForAnswer(call.fcall_id, 30_000))).toBe('completed')
  expect(worker.stdout().length).toBe(unread)
  worker.child.kill('SIGTERM')
  worker.child.stdout?.resume()
  expect(await worker.exited).toEqual({ code: 0, signal: null })
  const lines = logLines(worker)
  expect(lines.filter(({ msg }) => msg === 'call handled')).toHaveLength(400)
  expect(lines.at(-1)?.['msg']).toBe('worker has stopped')
}, 90_000)
