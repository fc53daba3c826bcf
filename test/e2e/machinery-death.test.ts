import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { faults, statusOf, streamed, textOf } from './support/answers.js'
import { descendants, survivors, templateOf, zygoteOf } from './support/processes.js'
import { endPrograms, type Program, startWorkerProcess } from './support/worker-process.js'

let backend: EmbeddedBackend
let worker: Program

beforeAll(async () => {
  backend = await startEmbeddedBackend()
  worker = await startWorkerProcess(backend)
})

afterAll(async () => {
  await endPrograms()
  await backend.close()
})

describe.each([
  ['the zygote', zygoteOf],
  ['the template', templateOf],
] as const)('when %s is killed while calls run', (_what, find) => {
  it('those are answered "interrupted", later calls work, nothing is answered twice or left behind', async () => {
    const running = [1, 2].map(n => backend.pushCode(`import time\nprint("begun ${n}")\ntime.sleep(60)`))
    await backend.waitFor(() => running.every(call => streamed(backend, call.fcall_id) !== ''), 10_000)
    const target = find(worker.pid)
    const below = [target, ...descendants(target.pid)] // a zygote's guests are its children, all is the template's
    process.kill(target.pid, 'SIGKILL')
    for (const [n, call] of running.entries()) {
      const answer = await backend.waitForAnswer(call.fcall_id, 10_000)
      expect(statusOf(answer)).toBe('interrupted')
      expect(textOf(answer)).toContain(`begun ${n + 1}`) // what was printed is kept
      expect(textOf(answer)).toContain('may have run in part')
      expect(answer.provenance['started']).toBe(true)
    }
    const later = [1, 2, 3].map(n => backend.pushCode(`print("later ${n}")`))
    for (const [n, call] of later.entries()) {
      expect(textOf(await backend.waitForAnswer(call.fcall_id, 10_000))).toBe(`later ${n + 1}\n`)
    }
    expect(
      faults(
        backend,
        [...running, ...later].map(call => call.fcall_id),
      ),
    ).toEqual([])
    expect(await survivors(below, 3_000)).toEqual([])
  })
})
