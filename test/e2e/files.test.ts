import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { faults, startBackend, statusOf, streamed, textOf } from './support/answers.js'
import { endPrograms, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

/** A state folder that outlives a worker. */
function stateDir(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'files-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return path.join(folder, 'state')
}

const argumentsOf = (code: string) => ({ fcall_arguments: JSON.stringify({ code, timeout_seconds: null }) })

const WRITE = 'open("data.csv", "w").write("a,b\\n1,2\\n")\nprint("written")'
const READ =
  'import os\nprint(sorted(os.listdir()))\nprint(open("data.csv").read(), end="") if os.path.exists("data.csv") else None'

describe('files of a chat', () => {
  it('are there again in its next call, also in the next life of the worker, and in no other chat', async () => {
    const env = { STATE_DIR: stateDir() }
    const backend = await startBackend()
    const asked: string[] = []
    const ask = async (code: string, thread: string, group = 'g1') => {
      const call = backend.pushCall({ ...argumentsOf(code), fcall_ft_id: thread, located_fgroup_id: group })
      asked.push(call.fcall_id)
      return await backend.waitForAnswer(call.fcall_id, 30_000)
    }
    const first = await startWorkerProcess(backend, env)
    const written = await ask(WRITE, 'chat-1')
    expect(textOf(written)).toBe(
      'written\n[files: data.csv (8 bytes)]\n[kept: later calls of this chat find these files again in their working directory]',
    )
    expect(written.provenance['files']).toMatchObject([
      { path: 'data.csv', kept: expect.stringMatching(/^files:.*data.csv$/) },
    ])
    expect(textOf(await ask(READ, 'chat-1'))).toBe("['data.csv']\na,b\n1,2\n")
    first.child.kill('SIGTERM')
    await first.exited
    await startWorkerProcess(backend, env)
    expect(textOf(await ask(READ, 'chat-1'))).toBe("['data.csv']\na,b\n1,2\n")
    expect(textOf(await ask(READ, 'chat-2'))).toBe('[]\n')
    expect(textOf(await ask(READ, 'chat-1', 'g2'))).toBe('[]\n')
    expect(textOf(await ask(READ, ''))).toBe('[]\n')
    expect(textOf(await ask('import os\nos.remove("data.csv")', 'chat-1'))).toBe('[no output]')
    expect(textOf(await ask(READ, 'chat-1'))).toBe('[]\n')
    expect(faults(backend, asked)).toEqual([])
  }, 120_000)

  it('are not kept of a call that is interrupted, nor anywhere where FILES=off', async () => {
    const backend = await startBackend()
    const env = { STATE_DIR: stateDir(), DRAIN_MS: '5000' }
    const first = await startWorkerProcess(backend, env)
    const thread = { fcall_ft_id: 'chat', located_fgroup_id: 'g' }
    const call = backend.pushCall({ ...argumentsOf(`${WRITE}\nimport time\ntime.sleep(60)`), ...thread })
    await backend.waitFor(() => streamed(backend, call.fcall_id).includes('written'), 30_000)
    first.child.kill('SIGTERM')
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toContain(
      '[not kept for later calls, since the call was interrupted: its files and what it changed]',
    )
    await first.exited
    const second = await startWorkerProcess(backend, env)
    const next = backend.pushCall({ ...argumentsOf(READ), ...thread })
    expect(textOf(await backend.waitForAnswer(next.fcall_id, 30_000))).toBe('[]\n')
    second.child.kill('SIGTERM')
    await second.exited
    await startWorkerProcess(backend, { ...env, FILES: 'off' })
    const written = backend.pushCall({ ...argumentsOf(WRITE), ...thread })
    expect(textOf(await backend.waitForAnswer(written.fcall_id, 30_000))).toBe('written\n[files: data.csv (8 bytes)]')
    const last = backend.pushCall({ ...argumentsOf(READ), ...thread })
    expect(textOf(await backend.waitForAnswer(last.fcall_id, 30_000))).toBe('[]\n')
    expect(backend.registrations.at(-1)?.description).toContain('Nothing persists')
  }, 120_000)
})
