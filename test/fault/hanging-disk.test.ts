import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { faults, startBackend, statusOf, textOf } from '../e2e/support/answers.js'
import { endPrograms, logLines, startProgram, startWorkerProcess } from '../e2e/support/worker-process.js'
import { countedCode, expectEnding, findingsOf } from './support/cell.js'

const SOURCE = fileURLToPath(new URL('support/hanging.c', import.meta.url))
const COMPILER = process.env['CC'] ?? 'cc'
/** What an operation on the disk may take. */
const DISK_WITHIN_MS = 10_000

// A disk that hangs as a network share does that has gone, or a name server. Part of the full grid: it needs a compiler.
describe('a worker whose disk hangs', { timeout: 120_000 }, () => {
  let folder = ''
  let library = ''
  let hangFile = ''
  let env: Record<string, string> = {}

  beforeAll(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'hanging-'))
    library = path.join(folder, 'hanging.so')
    const { status, stderr } = spawnSync(COMPILER, ['-shared', '-fPIC', '-o', library, SOURCE, '-ldl'], {
      encoding: 'utf8',
    })
    expect(status, stderr).toBe(0)
    hangFile = path.join(folder, 'hangs')
    const stateDir = path.join(folder, 'state')
    env = { LD_PRELOAD: library, HANG_FILE: hangFile, STATE_DIR: stateDir, DRAIN_MS: '3000' }
  })
  afterEach(async () => {
    rmSync(hangFile, { force: true })
    await endPrograms()
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const hang = () => writeFileSync(hangFile, '')
  const unhang = () => rmSync(hangFile)

  it('while it starts ends in bounded time, and says why', async () => {
    hang()
    const backend = await startBackend()
    const from = performance.now()
    const program = await startProgram(['start'], {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_API_KEY: backend.apiKey,
      ...env,
    })
    // A thread of it still waits for the disk, so that nothing else ends it.
    expect(await program.exited).toEqual({ code: null, signal: 'SIGKILL' })
    expect(performance.now() - from).toBeLessThan(60_000)
    expect(program.stderr()).toMatch(
      /^STATE_DIR: .* can not be used \(its disk gave no answer within 10 s\); give a folder/,
    )
    expect(logLines(program).at(-1)?.['msg']).toBe('worker can not start')
  })

  it('answers calls from memory meanwhile; what is written late brings back nothing that was removed', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, env)
    const said = (message: string) => logLines(worker).some(({ msg }) => msg === message)
    hang()
    const calls = Array.from({ length: 5 }, () => backend.pushCode(countedCode(0)))
    for (const { fcall_id } of calls) await backend.waitForAnswer(fcall_id, 3 * DISK_WITHIN_MS)
    for (const call of calls) expectEnding(findingsOf(backend, call), ['ran'])
    expect(said('the journal can not be written: calls are kept in memory only, and kill -9 would lose them')).toBe(
      true,
    )
    unhang()
    await backend.waitFor(() => said('the journal can be written again'), 30_000)
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(readdirSync(path.join(folder, 'state', 'calls'))).toEqual([])
  })

  it.each([
    ['in time ends as it should', { end: true, exit: { code: 0, signal: null } }],
    ['in no time ends all the same', { end: false, exit: { code: null, signal: 'SIGKILL' } }],
  ] as const)(
    'and that is told to stop while a name is looked up, which comes to an end %s',
    async (_, { end, exit }) => {
      const lookups = path.join(folder, 'hanging-lookups')
      writeFileSync(lookups, '')
      const worker = await startProgram(['start'], {
        // A name with a dot at its end is asked for as it is.
        FLEXUS_API_BASEURL: 'http://backend.invalid./',
        FLEXUS_API_KEY: 'fx-abcdefgh',
        HANG_LOOKUPS_FILE: lookups,
        ...env,
      })
      await expect.poll(() => logLines(worker).some(({ to }) => to === 'serving'), { timeout: 60_000 }).toBe(true)
      await sleep(1_500) // the first connect waits up to a second
      const from = performance.now()
      worker.child.kill('SIGTERM')
      await sleep(1_000)
      if (end) rmSync(lookups)
      expect(await worker.exited).toEqual(exit)
      rmSync(lookups, { force: true })
      expect(performance.now() - from).toBeLessThan(10_000)
      expect(logLines(worker).at(-1)).toMatchObject({ msg: 'worker has stopped', answered: true })
    },
  )

  it('ends within its budget when it is told to, with its last words', async () => {
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, env)
    hang()
    const call = backend.pushCode(countedCode(0))
    await backend.waitForAnswer(call.fcall_id, 3 * DISK_WITHIN_MS)
    const from = performance.now()
    worker.child.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' })
    expect(performance.now() - from).toBeLessThan(40_000)
    expect(logLines(worker).at(-1)).toMatchObject({ msg: 'worker has stopped' })
  })

  describe('below FILES_DIR alone', () => {
    const filesEnv = () => {
      const hangs = path.join(folder, 'hanging-files')
      const apart = { FILES_DIR: path.join(folder, 'files'), HANG_FILES_FILE: hangs, MAX_CONCURRENT_CALLS: '6' }
      return { hangs, env: { ...env, ...apart } }
    }

    it('reaches its backend by name, answers calls, and ends when it is told to', async () => {
      const backend = await startBackend()
      const { hangs, env } = filesEnv()
      const FLEXUS_API_BASEURL = backend.url.replace('127.0.0.1', 'localhost')
      const worker = await startWorkerProcess(backend, { ...env, FLEXUS_API_BASEURL })
      const asked: string[] = []
      const push = (chat: number) => {
        const code = `open("kept.txt", "w").write("${chat}")\nprint("written")`
        const fcall_arguments = JSON.stringify({ code, timeout_seconds: null })
        const call = backend.pushCall({ fcall_arguments, fcall_ft_id: `chat-${chat}`, located_fgroup_id: 'g' })
        asked.push(call.fcall_id)
        return backend.waitForAnswer(call.fcall_id, 40_000)
      }
      const chats = [1, 2, 3, 4, 5, 6]
      for (const answer of await Promise.all(chats.map(push))) expect(textOf(answer)).toContain('[kept: ')
      writeFileSync(hangs, '')
      // Each would wait in a thread of its own.
      const answers = await Promise.all(chats.map(push))
      for (const answer of answers) {
        expect(statusOf(answer)).toBe('completed')
        expect(textOf(answer)).toContain('[not kept for later calls: kept.txt (')
      }
      backend.dropConnections()
      await backend.waitFor(() => backend.subscribers === 0, 10_000)
      expect(statusOf(await push(7))).toBe('completed')
      const from = performance.now()
      worker.child.kill('SIGTERM')
      expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' })
      expect(performance.now() - from).toBeLessThan(10_000)
      expect(logLines(worker).at(-1)).toMatchObject({ msg: 'worker has stopped', answered: true })
      expect(faults(backend, asked)).toEqual([])
      rmSync(hangs)
    })

    it('while it starts serves all the same, and ends when it is told to', async () => {
      const backend = await startBackend()
      const { hangs, env } = filesEnv()
      writeFileSync(hangs, '')
      const worker = await startWorkerProcess(backend, env)
      const call = backend.pushCode(countedCode(0))
      await backend.waitForAnswer(call.fcall_id, 40_000)
      const from = performance.now()
      worker.child.kill('SIGTERM')
      expect(await worker.exited).toEqual({ code: null, signal: 'SIGKILL' })
      expect(performance.now() - from).toBeLessThan(10_000)
      expect(logLines(worker).at(-1)).toMatchObject({ msg: 'worker has stopped', answered: true })
      rmSync(hangs)
    })
  })
})
