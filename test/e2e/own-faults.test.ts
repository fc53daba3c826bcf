import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { faults, startBackend, statusOf, streamed, textOf } from './support/answers.js'
import { endPrograms, logLines, type Program, startProgram, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

/** Runs a line of JavaScript in the worker's process when it gets SIGUSR2. */
const onSignal = (line: string) => ({
  NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(`process.on("SIGUSR2",()=>{${line}})`)}`,
})

describe('an error in the worker that nobody expected', () => {
  it.each([
    ['thrown', 'setImmediate(()=>{throw new Error("nobody expects this")})'],
    ['of a promise', 'Promise.reject(new Error("nobody expects this"))'],
  ])('%s is told, what runs is answered within 5 s, and the exit code is 70', async (_, line) => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, onSignal(line))
    const call = backend.pushCode('import time\nprint("begun")\ntime.sleep(50)')
    await backend.waitFor(() => streamed(backend, call.fcall_id) !== '', 10_000)
    const from = performance.now()
    worker.child.kill('SIGUSR2')
    const answer = await backend.waitForAnswer(call.fcall_id, 10_000)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toMatch(/^begun\n[\s\S]*the code may have run in part/)
    expect(await worker.exited).toEqual({ code: 70, signal: null })
    expect(performance.now() - from).toBeLessThan(9_000)
    expect(faults(backend, [call.fcall_id])).toEqual([])
    const fatal = logLines(worker).filter(entry => entry['level'] === 'fatal')
    expect(fatal).toMatchObject([{ msg: 'uncaught error', err: { message: 'nobody expects this' } }])
  })
})

describe('a worker that would neither serve nor end', () => {
  /** After its drain budget. */
  const LEAVE_WITHIN_MS = 5_000
  const ended = (worker: Program) =>
    logLines(worker).some(line => line['msg'] === 'the worker did not come to its end, and exits as it is')

  it('since something was thrown while it starts, and the start hangs, exits with 70', async () => {
    const backend = await startBackend()
    const folder = mkdtempSync(path.join(os.tmpdir(), 'hangs-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const python = path.join(folder, 'python')
    writeFileSync(python, '#!/bin/sh\nexec cat\n', { mode: 0o755 }) // it ends with whoever has started it
    const worker = await startProgram(['start'], {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_API_KEY: backend.apiKey,
      SANDBOX_PYTHON: python,
      DRAIN_MS: '0',
      ...onSignal('throw new Error("nobody expects this")'),
    })
    const isStarting = () => logLines(worker).some(line => line['msg'] === 'worker is starting')
    await expect.poll(isStarting, { timeout: 20_000 }).toBe(true)
    const from = performance.now()
    worker.child.kill('SIGUSR2')
    expect(await worker.exited).toEqual({ code: 70, signal: null })
    expect(performance.now() - from).toBeLessThan(LEAVE_WITHIN_MS + 4_000)
    expect(ended(worker)).toBe(true)
  })

  it('since its way out hangs, exits with 1', async () => {
    const backend = await startBackend()
    const neverCloses = 'process.getBuiltinModule("http").Server.prototype.close=()=>{}'
    const worker = await startWorkerProcess(backend, { DRAIN_MS: '0', ...onSignal(neverCloses) })
    worker.child.kill('SIGUSR2')
    await sleep(200)
    const from = performance.now()
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 1, signal: null })
    expect(performance.now() - from).toBeLessThan(LEAVE_WITHIN_MS + 4_000)
    expect(ended(worker)).toBe(true)
  })
})

it('a worker that stood still says so, and for how long', async () => {
  const backend = await startBackend()
  const worker = await startWorkerProcess(backend, onSignal('const end=Date.now()+1600;while(Date.now()<end);'))
  worker.child.kill('SIGUSR2')
  await expect
    .poll(() => logLines(worker).find(line => line['msg'] === 'the event loop stood still')?.['stalledMs'], {
      timeout: 8_000,
    })
    .toBeGreaterThan(1_000)
})
