import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { faults, startBackend, statusOf } from './support/answers.js'
import { endPrograms, logLines, startProgram, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

describe('STATE_DIR', () => {
  it('is held by one worker: a second one ends with 78 and names the first, which serves on', async () => {
    const backend = await startBackend()
    const first = await startWorkerProcess(backend)
    const health = logLines(first).find(line => line['msg'] === 'health can be looked at')
    const second = await startProgram(['start'], {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_API_KEY: backend.apiKey,
      STATE_DIR: path.join(first.tmp, 'state'),
      HEALTH_PORT: new URL(String(health?.['url'])).port, // as of two workers with one environment
    })
    expect(await second.exited).toEqual({ code: 78, signal: null })
    expect(second.stderr()).toContain(`in use by another worker (pid ${first.pid} on `)
    expect(logLines(second).at(-1)).toMatchObject({ level: 'fatal', msg: 'worker can not start' })
    const { fcall_id } = backend.pushCode('print(1)')
    expect(statusOf(await backend.waitForAnswer(fcall_id))).toBe('completed')
  })

  it('can be had again at once when its worker was killed', async () => {
    const backend = await startBackend()
    const first = await startWorkerProcess(backend)
    first.child.kill('SIGKILL')
    await first.exited
    const second = await startWorkerProcess(backend, { STATE_DIR: path.join(first.tmp, 'state') })
    const { fcall_id } = backend.pushCode('print(1)')
    expect(statusOf(await backend.waitForAnswer(fcall_id))).toBe('completed')
    second.child.kill('SIGTERM')
    expect(await second.exited).toEqual({ code: 0, signal: null })
    expect(faults(backend, [fcall_id])).toEqual([])
    expect(readdirSync(path.join(first.tmp, 'state', 'calls'))).toEqual([])
  })

  it('that can not be made ends the worker with 78, in words', async () => {
    const backend = await startBackend()
    const program = await startProgram(['start'], {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_API_KEY: backend.apiKey,
      STATE_DIR: '/dev/null/state',
    })
    expect((await program.exited).code).toBe(78)
    expect(program.stderr()).toMatch(
      /^STATE_DIR: \/dev\/null\/state can not be used \(ENOTDIR.*\); give a folder that uid \d+ may write to/,
    )
  })

  it('that this user may not write to ends the worker with 78, and a user without group 0 is told of it', async () => {
    const backend = await startBackend()
    const nobody = process.getuid?.() === 0 ? ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'] : []
    const folder = mkdtempSync(path.join(os.tmpdir(), 'refuses-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    chmodSync(folder, 0o500)
    const reach = { FLEXUS_API_BASEURL: backend.url, FLEXUS_API_KEY: backend.apiKey }
    const program = await startProgram(['start'], { ...reach, STATE_DIR: path.join(folder, 's') }, 'ignore', nobody)
    expect((await program.exited).code).toBe(78)
    expect(program.stderr()).toMatch(
      /^STATE_DIR: \/\S+ can not be used \(EACCES.*\); give a folder that uid \d+ may write to, one for each worker; .* docker run --user \d+:0\n$/,
    )
  })

  it('is not touched by exec and demo', async () => {
    const program = await startProgram(['demo'])
    expect((await program.exited).code).toBe(0)
    const script = path.join(program.tmp, 'script.py')
    mkdirSync(program.tmp, { recursive: true })
    writeFileSync(script, 'print(1)')
    const exec = await startProgram(['exec', script])
    expect((await exec.exited).code).toBe(0)
    for (const { tmp } of [program, exec]) expect(existsSync(path.join(tmp, 'state'))).toBe(false)
  })
})
