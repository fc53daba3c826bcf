import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { AnsweredFiles } from '../../../src/journal/answered-files.js'
import { DiskJournal, type DiskJournalOptions } from '../../../src/journal/disk-journal.js'
import type { ClaimedCall, StoredAnswer } from '../../../src/journal/journal.js'
import { NamesFile } from '../../../src/journal/names-file.js'
import { captureLog } from '../../backend/support/fixtures.js'

const ANSWER: StoredAnswer = { content: '"done"', provenance: '{}', dollars: 0.25, asPlaceholder: false }
const MINUTE = 60_000
const START = 1_700_000_000_000

function callOf(id: string, confirmed: boolean | null = null): ClaimedCall {
  return { fcall_id: id, fcall_untrusted_key: 'k', connected_persona_id: null, confirmed_by_human: confirmed }
}

function folder(): string {
  const made = mkdtempSync(path.join(os.tmpdir(), 'journal-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

async function open(stateDir: string, changes: Partial<DiskJournalOptions> = {}): Promise<DiskJournal> {
  const journal = await DiskJournal.open({ stateDir, log: captureLog().log, onHealth: () => {}, ...changes })
  onTestFinished(async () => void (await journal.close()))
  return journal
}

const filesOf = (stateDir: string) => readdirSync(path.join(stateDir, 'answered'))

async function answer(journal: DiskJournal, id: string, content = ANSWER.content): Promise<void> {
  journal.claim(id, callOf(id))
  await journal.started(id)
  await journal.settled(id, { ...ANSWER, content })
  journal.delivered(id)
}

describe('a call that has its answer and is delivered again', () => {
  it('in the next life of the worker, is answered as before and does not run', async () => {
    const dir = folder()
    const first = await open(dir)
    await answer(first, 'c')
    await first.close()
    const next = await open(dir)
    expect(next.leftovers()).toEqual([])
    expect(next.claim('c', callOf('c'))).toEqual({ kind: 'stored' })
    expect(await next.stored('c')).toEqual(ANSWER)
    // The backend has it, whatever it says now.
    expect(next.undelivered('c')).toBe(true)
    expect(next.claim('c', callOf('c'))).toEqual({ kind: 'settled', answer: ANSWER })
    expect(await next.rejected('c', '404: no such call')).toBe(true)
  })

  it('in the same life, is safe where its second post is not taken', async () => {
    const journal = await open(folder())
    await answer(journal, 'c')
    expect(journal.claim('c', callOf('c'))).toEqual({ kind: 'settled', answer: ANSWER })
    expect(journal.undelivered('c')).toBe(true)
  })

  it('after a person has decided, is known with their word and without', async () => {
    const dir = folder()
    const first = await open(dir)
    first.claim('c', callOf('c'))
    first.asking('c')
    first.asked('c')
    const key = first.keyOf(callOf('c', true))
    first.claim(key, callOf('c', true))
    await first.started(key)
    await first.settled(key, ANSWER)
    first.delivered(key)
    await first.close()
    const next = await open(dir)
    expect(next.claim('c', callOf('c'))).toEqual({ kind: 'known' })
    expect(next.keyOf(callOf('c', true))).toBe(key)
    expect(next.claim(key, callOf('c', true))).toEqual({ kind: 'stored' })
  })

  it('is still known where its answer can not be read any more', async () => {
    const dir = folder()
    const first = await open(dir)
    await answer(first, 'c')
    await first.close()
    const [name = ''] = filesOf(dir)
    truncateSync(path.join(dir, 'answered', name), 10)
    const next = await open(dir)
    expect(next.claim('c', callOf('c'))).toEqual({ kind: 'stored' })
    expect(await next.stored('c')).toBeNull()
  })

  it('is known although its answer was refused for good', async () => {
    const dir = folder()
    const first = await open(dir)
    first.claim('c', callOf('c'))
    await first.settled('c', ANSWER)
    await first.rejected('c', '400: no')
    await first.close()
    rmSync(path.join(dir, 'rejected'), { recursive: true }) // as when 1 000 others came after it
    const next = await open(dir)
    expect(next.claim('c', callOf('c'))).toEqual({ kind: 'stored' })
    expect(await next.stored('c')).toEqual(ANSWER)
  })

  it('is forgotten after a quarter of an hour, and its answer is gone from the disk', async () => {
    const dir = folder()
    const first = await open(dir)
    await answer(first, 'c')
    await first.close()
    const early = await open(dir, { wallClock: () => Date.now() + 14 * MINUTE })
    expect(early.claim('c', callOf('c'))).toEqual({ kind: 'stored' })
    await early.close()
    const late = await open(dir, { wallClock: () => Date.now() + 16 * MINUTE })
    await expect.poll(() => filesOf(dir)).toEqual([])
    expect(late.claim('c', callOf('c'))).toEqual({ kind: 'fresh' })
  })
})

describe('a call of which only the name is kept', () => {
  const bounds = { files: 10, names: 20 }
  const name = (n: number) => `${String(n).padStart(64, '0')}.json`

  /** `count` more calls that were answered a second after each other. */
  async function take(answered: AnsweredFiles, dir: string, from: number, count: number): Promise<void> {
    for (let n = from; n < from + count; n++) {
      writeFileSync(path.join(dir, name(n)), 'an answer')
      await answered.take(path.join(dir, name(n)), START + n * 1_000)
    }
  }
  const openIn = (dir: string) => AnsweredFiles.open(path.join(dir, 'answered'), bounds)
  const has = (answered: AnsweredFiles, count: number) =>
    [...Array(count).keys()].filter(n => answered.has(name(n))).length

  it('is known, in the next life too, and takes no file of its own', async () => {
    const dir = folder()
    const answered = await openIn(dir)
    await take(answered, dir, 0, 25)
    expect(filesOf(dir).length).toBeLessThanOrEqual(11)
    expect(await answered.read(name(0)).catch(() => null)).toBeNull()
    writeFileSync(path.join(dir, 'answered', 'names'), '\n123 half a li', { flag: 'a' }) // the worker died in a write
    const next = await openIn(dir)
    await take(next, dir, 25, 2)
    for (const each of [next, await openIn(dir)]) {
      expect(has(each, 27)).toBe(27)
      expect(each.mayHaveForgotten(0, START)).toBe(false)
    }
  })

  it('is one of a bounded number, and of calls from before the others it can be told, in the next life too', async () => {
    const dir = folder()
    const answered = await openIn(dir)
    await take(answered, dir, 0, 40)
    for (const each of [answered, await openIn(dir)]) {
      expect(has(each, 40)).toBeLessThanOrEqual(30)
      expect(each.mayHaveForgotten(START, START + MINUTE)).toBe(true)
      expect(each.mayHaveForgotten(START + 2 * MINUTE, START + 2 * MINUTE)).toBe(false)
      expect(each.mayHaveForgotten(START, START + 20 * MINUTE)).toBe(false)
    }
  })

  it('is forgotten after a quarter of an hour, and gone from the disk', async () => {
    const dir = folder()
    const answered = await openIn(dir)
    await take(answered, dir, 0, 25)
    await answered.prune(START + 16 * MINUTE)
    expect([has(answered, 25), filesOf(dir)]).toEqual([0, []])
  })

  it('keeps its file where the name can not be written', async () => {
    const dir = folder()
    const answered = await openIn(dir)
    mkdirSync(path.join(dir, 'answered', 'names'))
    await take(answered, dir, 0, 15)
    expect(filesOf(dir)).toHaveLength(16)
    rmdirSync(path.join(dir, 'answered', 'names'))
    await take(answered, dir, 15, 10)
    expect(filesOf(dir).length).toBeLessThanOrEqual(11)
    expect(has(await openIn(dir), 25)).toBe(25)
  })

  it('is in a list that does not grow without end', async () => {
    const file = path.join(folder(), 'names')
    const names = await NamesFile.open(file, 5)
    await names.add([...Array(10_010).keys()].map(n => [name(n), START + n]))
    await names.prune(START)
    expect(readFileSync(file, 'utf8').split('\n')).toHaveLength(6)
    for (const each of [names, await NamesFile.open(file, 5)]) {
      expect([10_004, 10_005, 10_009].map(n => each.has(name(n)))).toEqual([false, true, true])
      expect(each.mayHaveForgotten(START, START)).toBe(true)
    }
  })

  it('does not run again, and says what is known where it may be one of those', async () => {
    const dir = folder()
    const journal = await open(dir)
    await answer(journal, 'c0')
    await journal.close()
    for (let n = 0; n < 2_000; n++) writeFileSync(path.join(dir, 'answered', name(n)), '')
    const next = await open(dir)
    await expect.poll(() => filesOf(dir).length, { timeout: 10_000 }).toBe(1_801)
    expect(next.claim('c0', callOf('c0'))).toEqual({ kind: 'stored' })
    expect(await next.stored('c0')).toBeNull()
    await next.close()
    // As when more than 100 000 have come after it.
    writeFileSync(path.join(dir, 'answered', 'names'), `${Date.now()} -\n${Date.now()} ${name(1)}`)
    const last = await open(dir)
    expect(last.claim('c0', callOf('c0'), Date.now())).toEqual({ kind: 'forgotten' })
    expect(last.claim('new', callOf('new'), Date.now() + 2 * MINUTE)).toEqual({ kind: 'fresh' })
    await expect.poll(() => readdirSync(path.join(dir, 'calls')).length).toBe(2)
    await last.close()
    const states = (await open(dir)).leftovers().map(({ key, state }) => `${key} ${state}`)
    expect(states.toSorted()).toEqual(['c0 started', 'new claimed'])
  })
})

describe('AnsweredFiles', () => {
  const bounds = { files: 3, bytes: 1_000 }
  const name = (n: number) => `${String(n).padStart(64, '0')}.json`

  it('keeps the last ones, and of their answers what there is room for', async () => {
    const dir = folder()
    const journal = await open(dir)
    for (const id of ['a', 'b', 'c']) await answer(journal, id, JSON.stringify('x'.repeat(300)))
    await journal.close()
    const answered = await AnsweredFiles.open(path.join(dir, 'answered'), bounds)
    await answered.prune(Date.now())
    const sizes = filesOf(dir).map(file => statSync(path.join(dir, 'answered', file)).size > 0)
    expect(sizes.toSorted()).toEqual([false, false, true])
    expect(await answered.makeRoom()).toBe(true)
    expect(await answered.makeRoom()).toBe(false)
    const again = await AnsweredFiles.open(path.join(dir, 'answered'), bounds)
    for (const file of filesOf(dir)) {
      expect(again.has(file)).toBe(true)
      expect(await again.read(file)).toBeNull()
    }
  })

  it('takes nothing over where there is no file, and makes its folder when it has gone', async () => {
    const dir = folder()
    const answered = await AnsweredFiles.open(path.join(dir, 'answered'))
    rmSync(path.join(dir, 'answered'), { recursive: true })
    await answered.take(path.join(dir, name(1)), Date.now())
    expect(answered.has(name(1))).toBe(false)
    expect(filesOf(dir)).toEqual([])
  })
})
