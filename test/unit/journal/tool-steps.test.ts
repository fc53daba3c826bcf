import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DiskJournal, type DiskJournalOptions } from '../../../src/journal/disk-journal.js'
import type { ClaimedCall, StoredAnswer } from '../../../src/journal/journal.js'
import { ToolSteps } from '../../../src/journal/tool-steps.js'
import type { ToolStep } from '../../../src/toolbox/tool-log.js'
import { captureLog } from '../../backend/support/fixtures.js'
import { makeSmallDisk } from '../../fault/support/small-disk.js'

const ANSWER: StoredAnswer = { content: '"done"', provenance: '{}', dollars: 0, asPlaceholder: false }

function folder(): string {
  const made = mkdtempSync(path.join(os.tmpdir(), 'tool-steps-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

function called(n: number): ToolStep {
  return { step: 'called', n, tool: 'mail.send', hash: 'h', argsPreview: '{}' }
}

function answered(n: number, value: string): ToolStep {
  return { step: 'answered', n, ok: true, ms: 1, bytes: value.length, dollars: 0.5, answer: { value } }
}

const names = (stateDir: string) => readdirSync(path.join(stateDir, 'tools'))
const onlyFile = (stateDir: string) => path.join(stateDir, 'tools', names(stateDir)[0] ?? '')

describe('what a call has called, on disk', () => {
  it('comes back as it was, in another life too', async () => {
    const dir = folder()
    const steps = await ToolSteps.open(dir, [])
    for (const step of [called(0), answered(0, 'é'), called(1)]) await steps.note('c', step)
    const all = { steps: [called(0), answered(0, 'é'), called(1)], isWhole: true }
    expect(await steps.read('c')).toEqual(all)
    expect(await (await ToolSteps.open(dir, ['c'])).read('c')).toEqual(all)
    expect(await steps.read('other')).toEqual({ steps: [], isWhole: true })
  })

  it('keeps no worker from its start where the disk takes no folder for it, and is written once it does', async () => {
    const disk = await makeSmallDisk()
    onTestFinished(() => disk.close())
    disk.setReadOnly(true)
    const steps = await ToolSteps.open(disk.pathFromHere, [])
    await expect(steps.note('c', called(0))).rejects.toThrow('EROFS')
    disk.setReadOnly(false)
    await steps.note('c', called(1))
    expect(await (await ToolSteps.open(disk.pathFromHere, ['c'])).read('c')).toEqual({
      steps: [called(1)],
      isWhole: true,
    })
  })

  it('is read after all that was written before', async () => {
    const steps = await ToolSteps.open(folder(), [])
    const notes = Array.from({ length: 20 }, (_, n) => steps.note('c', called(n)))
    expect((await steps.read('c')).steps).toHaveLength(20)
    await Promise.all(notes)
  })

  it('ends with what was whole when the worker was ended, which is no damage', async () => {
    const dir = folder()
    await (await ToolSteps.open(dir, [])).note('c', called(0))
    appendFileSync(onlyFile(dir), '{"step":"called","n":1,"to')
    const next = await ToolSteps.open(dir, ['c'])
    expect(await next.read('c')).toEqual({ steps: [called(0)], isWhole: true })
  })

  it('loses one line where one was torn, and says so', async () => {
    const dir = folder()
    await (await ToolSteps.open(dir, [])).note('c', called(0))
    appendFileSync(onlyFile(dir), '{"step":"called","n":1,"to')
    const next = await ToolSteps.open(dir, ['c'])
    await next.note('c', called(2))
    await next.note('c', called(3))
    expect(await next.read('c')).toEqual({ steps: [called(0), called(2), called(3)], isWhole: false })
    expect(readFileSync(onlyFile(dir), 'utf8').split('\n')).toHaveLength(5)
  })

  it('survives a write that failed', async () => {
    const dir = folder()
    const steps = await ToolSteps.open(dir, [])
    await steps.note('c', called(0))
    const file = onlyFile(dir)
    const text = readFileSync(file)
    rmSync(file)
    mkdirSync(file)
    await expect(steps.note('c', called(1))).rejects.toThrow('EISDIR')
    rmSync(file, { recursive: true })
    writeFileSync(file, Buffer.concat([text, Buffer.from('{"step":')]))
    await steps.note('c', called(1))
    expect(await steps.read('c')).toEqual({ steps: [called(0), called(1)], isWhole: false })
  })

  it('leaves a mark where it is forgotten, in another life too, until it is removed', async () => {
    const dir = folder()
    const steps = await ToolSteps.open(dir, [])
    await steps.note('c', called(0))
    await steps.forget('c')
    expect(await steps.read('c')).toEqual({ steps: [], isWhole: false })
    expect(readFileSync(onlyFile(dir))).toHaveLength(0)
    const next = await ToolSteps.open(dir, [])
    expect([next.has('c'), next.isForgotten('c'), next.isForgotten('d')]).toEqual([true, true, false])
    await next.remove('c')
    expect([next.has('c'), names(dir)]).toEqual([false, []])
  })
})

describe('a call that waits for a person', () => {
  const callOf = (id: string, confirmed: boolean | null = null): ClaimedCall => {
    return { fcall_id: id, fcall_untrusted_key: 'k', connected_persona_id: null, confirmed_by_human: confirmed }
  }

  async function open(stateDir: string, changes: Partial<DiskJournalOptions> = {}): Promise<DiskJournal> {
    const journal = await DiskJournal.open({ stateDir, log: captureLog().log, onHealth: () => {}, ...changes })
    onTestFinished(async () => void (await journal.close()))
    return journal
  }

  async function ask(journal: DiskJournal, id: string, value = ''): Promise<void> {
    journal.claim(id, callOf(id))
    await journal.started(id)
    const log = journal.toolLog(callOf(id))
    expect(await log.note(called(0))).toBe(true)
    await log.note(answered(0, value))
    journal.asking(id)
    journal.asked(id)
  }

  it('has what it called when they have decided, in another life too, until that is answered', async () => {
    const dir = folder()
    const first = await open(dir)
    await ask(first, 'c', 'x')
    await first.close()
    const next = await open(dir)
    const key = next.keyOf(callOf('c', true))
    expect(next.claim(key, callOf('c', true))).toEqual({ kind: 'fresh' })
    expect(await next.toolLog(callOf('c')).earlier()).toEqual({ steps: [called(0), answered(0, 'x')], isWhole: true })
    await next.settled(key, ANSWER)
    next.delivered(key)
    await expect.poll(() => names(dir)).toEqual([])
    await next.close()
    expect(readdirSync(path.join(dir, 'calls'))).toEqual([])
  })

  it('is known by one record at least while a decision is written down', async () => {
    const dir = folder()
    const journal = await open(dir)
    await ask(journal, 'c')
    await expect.poll(() => readdirSync(path.join(dir, 'calls'))).toHaveLength(1)
    const key = journal.keyOf(callOf('c', true))
    journal.claim(key, callOf('c', true))
    let least = 9
    for (let n = 0; n < 200; n++) {
      const records = readdirSync(path.join(dir, 'calls')).filter(name => name.endsWith('.json'))
      least = Math.min(least, records.length)
      await new Promise(resolve => setImmediate(resolve))
    }
    expect(least).toBe(1)
    await expect.poll(() => readdirSync(path.join(dir, 'calls'))).toHaveLength(1)
    await journal.settled(key, ANSWER)
    journal.delivered(key)
    await expect.poll(() => [...readdirSync(path.join(dir, 'calls')), ...names(dir)]).toEqual([])
  })

  it('has room for its answers within a bound, beyond which the oldest are forgotten, but not that it has called', async () => {
    const dir = folder()
    const journal = await open(dir, { askedMostBytes: 30_000 })
    for (const id of ['a', 'b', 'c']) await ask(journal, id, 'x'.repeat(12_000))
    await expect.poll(() => names(dir)).toHaveLength(2)
    await journal.close()
    const next = await open(dir)
    const wholes = await Promise.all(['a', 'b', 'c'].map(id => next.toolLog(callOf(id)).earlier()))
    expect(wholes.map(({ isWhole }) => isWhole)).toEqual([false, true, true])
    expect(next.keyOf(callOf('a', true))).not.toBe('a')
  })

  it('is not run anew where it was forgotten: it stays known that it has called tools', async () => {
    const dir = folder()
    let now = Date.now()
    const journal = await open(dir, { wallClock: () => now })
    await ask(journal, 'c')
    await expect.poll(() => readdirSync(path.join(dir, 'calls'))).toHaveLength(1)
    now += 31 * 24 * 3_600_000
    await ask(journal, 'later')
    await expect.poll(() => names(dir).filter(name => name.endsWith('.forgotten'))).toHaveLength(1)
    await journal.close()
    const next = await open(dir, { wallClock: () => now })
    const key = next.keyOf(callOf('c', true))
    expect(next.claim(key, callOf('c', true))).toEqual({ kind: 'fresh' })
    expect(await next.toolLog(callOf('c')).earlier()).toEqual({ steps: [], isWhole: false })
    await next.started(key)
    await next.settled(key, ANSWER)
    next.delivered(key)
    await expect.poll(() => names(dir).filter(name => name.endsWith('.forgotten'))).toEqual([])
  })
})
