import { rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import type { EmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { faults, startBackend, statusOf, streamed, textOf } from './support/answers.js'
import { descendants, processWith, survivors } from './support/processes.js'
import { endPrograms, leftFolders, logLines, startProgram, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

/** On a machine that is busy with other things. */
const LATE = { timeout: 10_000 }

/** To a process that may have ended. */
function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {}
}

function pushSleeper(backend: EmbeddedBackend, seconds: number): ToolCall {
  return backend.pushCode(`import time\nprint("begun")\ntime.sleep(${seconds})\nprint("ended")`)
}

function begun(backend: EmbeddedBackend, calls: readonly ToolCall[]): Promise<void> {
  return backend.waitFor(() => calls.every(call => streamed(backend, call.fcall_id) !== ''), 15_000)
}

describe('SIGTERM', () => {
  it('lets running calls end, answers waiting ones "not run" at once, and exits 0 leaving nothing', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, { MAX_CONCURRENT_CALLS: '2' })
    const running = [pushSleeper(backend, 2), pushSleeper(backend, 2.2)]
    const waiting = [pushSleeper(backend, 1), pushSleeper(backend, 1)]
    await begun(backend, running)
    await backend.waitFor(() => waiting.every(call => backend.deliveries(call.fcall_id) > 0), 5_000)
    const below = descendants(worker.pid)
    expect(below.length).toBeGreaterThan(4)
    worker.child.kill('SIGTERM')
    for (const call of waiting) {
      const answer = await backend.waitForAnswer(call.fcall_id)
      expect(statusOf(answer)).toBe('interrupted')
      expect(textOf(answer)).toMatch(/the worker is being stopped.*not run, safe to retry/)
      expect(streamed(backend, call.fcall_id)).toBe('')
      expect(backend.answers.has(running[0]?.fcall_id ?? '')).toBe(false)
    }
    for (const call of running) expect(textOf(await backend.waitForAnswer(call.fcall_id))).toBe('begun\nended\n')
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(
      faults(
        backend,
        [...running, ...waiting].map(call => call.fcall_id),
      ),
    ).toEqual([])
    expect(await survivors(below, 2_000)).toEqual([])
    expect(await leftFolders(worker)).toEqual([])
    expect(backend.subscribers).toBe(0)
  })

  it('comes again and again while the worker leaves, and the exit code is still 0', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend)
    let timer: NodeJS.Timeout | undefined
    worker.child.stdout?.on('data', () => {
      if (worker.stdout().includes('worker has stopped')) timer ??= setInterval(() => worker.child.kill('SIGTERM'), 1)
    })
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    clearInterval(timer)
  })

  it('ends what still runs within DRAIN_MS, keeps its output, and says that it may have run in part', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, { DRAIN_MS: '3000' })
    const call = pushSleeper(backend, 50)
    await begun(backend, [call])
    const from = performance.now()
    worker.child.kill('SIGTERM')
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toMatch(/^begun\n[\s\S]*the worker is being stopped; the code may have run in part/)
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - from).toBeLessThan(4_500)
  })

  it('a second signal ends running code now, and the exit code is still 0', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend)
    const call = pushSleeper(backend, 50)
    await begun(backend, [call])
    const from = performance.now()
    worker.child.kill('SIGTERM')
    await sleep(300)
    expect(backend.answers.size).toBe(0)
    worker.child.kill('SIGTERM')
    const answer = await backend.waitForAnswer(call.fcall_id)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toContain('told to stop at once')
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - from).toBeLessThan(6_000)
  })

  it('a third signal exits, whatever goes on, and no process is left', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend)
    // Nobody takes the answer, so the drain would go on.
    backend.misbehave({ kind: 'http_status', status: 503 }, { operation: 'cloudtool_post_result' })
    const call = pushSleeper(backend, 50)
    await begun(backend, [call])
    const below = descendants(worker.pid)
    for (const pauseMs of [200, 300, 0]) {
      worker.child.kill('SIGTERM')
      await sleep(pauseMs)
    }
    expect(await worker.exited).toEqual({ code: 143, signal: null })
    expect(await survivors(below, 2_000)).toEqual([])
  })

  it('exits 0 when an answer that could not be delivered is in the journal, and 1 when it is nowhere', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, { DRAIN_MS: '2000' })
    backend.misbehave({ kind: 'http_status', status: 503 }, { operation: 'cloudtool_post_result' })
    const call = backend.pushCode('print("done")')
    await begun(backend, [call])
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 0, signal: null })

    const other = await startWorkerProcess(backend, { DRAIN_MS: '2000' })
    await rm(path.join(other.tmp, 'state', 'calls'), { recursive: true })
    const lost = backend.pushCode('print("done")')
    await begun(backend, [lost])
    other.child.kill('SIGTERM')
    expect(await other.exited).toEqual({ code: 1, signal: null })
  })

  it('while the sandbox is still starting it ends as cleanly, and never asks for calls', async () => {
    const backend = await startBackend()
    let connected = false
    backend.onEvent(event => {
      if (event.type === 'connected' || event.type === 'subscribed' || event.type === 'registered') connected = true
    })
    const worker = await startProgram(['start'], { FLEXUS_API_BASEURL: backend.url, FLEXUS_API_KEY: backend.apiKey })
    while (descendants(worker.pid).length === 0) await sleep(10)
    const below = descendants(worker.pid)
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(await survivors(below, 2_000)).toEqual([])
    expect(await leftFolders(worker)).toEqual([])
    expect(connected).toBe(false)
  })

  it('twice while the sandbox is still starting exits at once, and no process is left', async () => {
    const backend = await startBackend()
    const worker = await startProgram(['start'], { FLEXUS_API_BASEURL: backend.url, FLEXUS_API_KEY: backend.apiKey })
    // What it waits for stands still, so that the start does, however long the signals take.
    const held = () => descendants(worker.pid).filter(one => one.ppid === worker.pid && one.state === 'T')
    while (held().length === 0) {
      for (const { pid } of descendants(worker.pid)) sendSignal(pid, 'SIGSTOP')
      await sleep(10)
    }
    const below = descendants(worker.pid)
    worker.child.kill('SIGTERM')
    await expect.poll(() => logLines(worker).filter(line => line['msg'] === 'signal received'), LATE).toHaveLength(1)
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 143, signal: null })
    for (const { pid } of below) sendSignal(pid, 'SIGCONT')
    expect(await survivors(below, 2_000)).toEqual([])
  })
})

describe('kill -9', () => {
  it('of the worker leaves no process of its sandboxes after 2 s, and the next start removes its folder', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend)
    backend.pushCode(
      'import subprocess, sys, time\nsubprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)", "e2e-marker"])\ntime.sleep(99)',
    )
    const marked = await processWith('e2e-marker', worker.pid, 10_000)
    const below = descendants(worker.pid)
    expect(below.map(one => one.pid)).toContain(marked.pid)
    worker.child.kill('SIGKILL')
    expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' })
    expect(await survivors(below, 2_000)).toEqual([])
    expect(await leftFolders(worker)).toHaveLength(1)
    const next = await startProgram(['exec', '-'], { TMPDIR: worker.tmp }, 'pipe')
    next.child.stdin?.end('import os; print(os.getpid() > 0)')
    expect(await next.exited).toEqual({ code: 0, signal: null })
    expect(await leftFolders(worker)).toEqual([])
  })
})
