import { afterEach, describe, expect, it } from 'vitest'
import { faults, startBackend, statusOf, streamed, textOf } from './support/answers.js'
import { endPrograms, logLines, startWorkerProcess } from './support/worker-process.js'

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
