import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DiskJournal, type DiskJournalOptions } from '../../../src/journal/disk-journal.js'
import type { ClaimedCall, StoredAnswer } from '../../../src/journal/journal.js'
import { captureLog } from '../../backend/support/fixtures.js'

const KEY = 'untrusted-key-of-the-call'
const ANSWER: StoredAnswer = { content: '"done"', provenance: '{}', dollars: 0.25, asPlaceholder: false }

function callOf(id: string, confirmed: boolean | null = null): ClaimedCall {
  return { fcall_id: id, fcall_untrusted_key: KEY, connected_persona_id: null, confirmed_by_human: confirmed }
}

function folder(): string {
  const made = mkdtempSync(path.join(os.tmpdir(), 'journal-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

const logged = captureLog()

async function open(stateDir: string, changes: Partial<DiskJournalOptions> = {}): Promise<DiskJournal> {
  const journal = await DiskJournal.open({ stateDir, log: logged.log, onHealth: () => {}, ...changes })
  onTestFinished(async () => void (await journal.close()))
  return journal
}

/** What a process finds that is started on what is on disk now. */
async function afterCrash(stateDir: string, changes: Partial<DiskJournalOptions> = {}): Promise<DiskJournal> {
  const copy = folder()
  cpSync(stateDir, copy, { recursive: true })
  return await open(copy, changes)
}

const files = (stateDir: string, of = 'calls') =>
  existsSync(path.join(stateDir, of)) ? readdirSync(path.join(stateDir, of)) : []
const states = (journal: DiskJournal) => journal.leftovers().map(({ key, state }) => `${key} ${state}`)
/** Until that many records have their names. */
const onDisk = (stateDir: string, records: number) =>
  expect.poll(() => files(stateDir).filter(name => name.endsWith('.json')), { timeout: 10_000 }).toHaveLength(records)

describe('DiskJournal', () => {
  it('knows after a crash how far each call had come', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('waiting', callOf('waiting'))
    journal.claim('running', callOf('running'))
    await journal.started('running')
    journal.claim('done', callOf('done'))
    await journal.started('done')
    await journal.settled('done', ANSWER)
    await onDisk(dir, 3)
    const next = await afterCrash(dir)
    expect(states(next).toSorted()).toEqual(['done settled', 'running started', 'waiting claimed'])
    expect(next.leftovers()[0]?.call.fcall_untrusted_key).toBe(KEY)
    for (const id of ['waiting', 'running', 'done']) expect(next.claim(id, callOf(id))).toEqual({ kind: 'known' })
    expect(await next.takeOver('done')).toEqual({ answer: ANSWER })
    expect(await next.takeOver('running')).toEqual({ answer: null })
    expect(await next.takeOver('running')).toBeNull()
  })

  it('has the start of the code on disk before it says so, and the answer before that is posted', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.started('c')
    expect(states(await afterCrash(dir))).toEqual(['c started'])
    await journal.settled('c', ANSWER)
    expect(states(await afterCrash(dir))).toEqual(['c settled'])
  })

  it('keeps nothing of a call whose answer was taken, or that is answered by another', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    journal.delivered('c')
    journal.claim('d', callOf('d'))
    await journal.started('d')
    journal.left('d')
    await journal.close()
    expect(files(dir)).toEqual([])
    expect(journal.claim('c', callOf('c'))).toEqual({ kind: 'settled', answer: ANSWER })
    expect(journal.claim('d', callOf('d'))).toEqual({ kind: 'known' })
  })

  it('lets others read nothing', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    const [name = ''] = files(dir)
    expect(statSync(path.join(dir, 'calls')).mode & 0o777).toBe(0o700)
    expect(statSync(path.join(dir, 'calls', name)).mode & 0o777).toBe(0o600)
  })

  it('keeps an answer that nobody takes, offers it again, and says that it is safe', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    expect(journal.leftovers()).toEqual([])
    expect(journal.undelivered('c')).toBe(true)
    expect(states(journal)).toEqual(['c settled'])
    expect(await journal.takeOver('c')).toEqual({ answer: ANSWER })
    expect(journal.undelivered('c')).toBe(true)
    // Delivered again, it is posted by whoever took that delivery.
    expect(journal.claim('c', callOf('c'))).toEqual({ kind: 'settled', answer: ANSWER })
    expect(journal.leftovers()).toEqual([])
    expect(await journal.takeOver('c')).toBeNull()
  })

  it('posts an answer that memory has forgotten from the disk, and does not run its call again', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    journal.undelivered('c')
    for (let n = 0; n < 2_100; n++) {
      journal.claim(`n${n}`, callOf(`n${n}`))
      journal.left(`n${n}`)
    }
    expect(journal.claim('c', callOf('c'))).toEqual({ kind: 'known' })
    expect(await journal.takeOver('c')).toEqual({ answer: ANSWER })
  })

  it('keeps a refused answer where a person finds it, without the key to post it', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    expect(await journal.rejected('c', '400: no such call')).toBe(true)
    await journal.close()
    expect(files(dir)).toEqual([])
    const [name = ''] = files(dir, 'rejected')
    const text = readFileSync(path.join(dir, 'rejected', name), 'utf8')
    expect(JSON.parse(text)).toMatchObject({
      key: 'c',
      reason: '400: no such call',
      answer: ANSWER,
      call: { fcall_id: 'c' },
    })
    expect(text).not.toContain(KEY)
    expect(journal.claim('c', callOf('c'))).toMatchObject({ kind: 'settled' })
  })

  it('remembers for 30 days that a person was asked', async () => {
    const dir = folder()
    const journal = await open(dir, { wallClock: () => 0 })
    journal.claim('c', callOf('c'))
    journal.asking('c')
    journal.asked('c')
    await journal.close()
    const days = (n: number) => ({ wallClock: () => n * 24 * 3_600_000 })
    const next = await afterCrash(dir, days(29))
    expect(next.leftovers()).toEqual([])
    expect(next.claim('c', callOf('c'))).toEqual({ kind: 'known' })
    expect(next.keyOf(callOf('c', true))).toBe('c:decided')
    const last = await open(dir, days(31))
    await last.close()
    expect(files(dir)).toEqual([])
  })

  it('answers a call that died while a person was about to be asked, since nobody can know whether they were', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    journal.asking('c')
    await onDisk(dir, 1)
    expect(states(await afterCrash(dir))).toEqual(['c claimed'])
  })

  it('answers a call once that died with the word of a person on disk, and the question not yet removed', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    journal.asking('c')
    await onDisk(dir, 1)
    const question = folder()
    cpSync(dir, question, { recursive: true })
    const key = journal.keyOf(callOf('c', true))
    journal.claim(key, callOf('c', true))
    await journal.started(key)
    /** What the next life finds where the question was not removed in time. */
    const next = async () => {
      const copy = folder()
      for (const from of [dir, question]) cpSync(from, copy, { recursive: true })
      const journal = await open(copy)
      expect(journal.claim('c', callOf('c'))).toEqual({ kind: 'known' })
      await onDisk(copy, journal.leftovers().length)
      return journal
    }
    expect(states(await next())).toEqual([`${key} started`])
    await journal.settled(key, ANSWER)
    journal.delivered(key)
    await journal.close()
    const last = await next()
    expect(states(last)).toEqual([])
    expect(last.keyOf(callOf('c', true))).toBe(key)
    expect(last.claim(key, callOf('c', true))).toEqual({ kind: 'stored' })
  })

  it('sets aside what is no record, reports it, and serves', async () => {
    const dir = folder()
    const first = await open(dir)
    for (const id of ['good', 'cut', 'swapped']) {
      first.claim(id, callOf(id))
      await first.settled(id, ANSWER)
    }
    await first.close()
    const calls = path.join(dir, 'calls')
    const fileOf = (id: string) => {
      const name = readdirSync(calls).find(one => readFileSync(path.join(calls, one), 'utf8').includes(`"key":"${id}"`))
      return path.join(calls, name ?? '')
    }
    const cut = fileOf('cut')
    writeFileSync(cut, readFileSync(cut, 'utf8').slice(0, 40))
    renameSync(fileOf('swapped'), path.join(calls, `${'0'.repeat(64)}.json`))
    writeFileSync(path.join(calls, `${'1'.repeat(64)}.json`), '{"version":2}')
    writeFileSync(path.join(calls, `${'2'.repeat(64)}.json.123`), 'half')
    writeFileSync(path.join(calls, 'notes.txt'), 'mine')
    mkdirSync(path.join(calls, `${'3'.repeat(64)}.json`))
    symlinkSync('/etc/passwd', path.join(calls, `${'4'.repeat(64)}.json`))
    const { lines, log } = captureLog()
    const journal = await open(dir, { log })
    expect(states(journal)).toEqual(['good settled'])
    expect(files(dir, 'corrupt')).toHaveLength(6)
    expect(lines.filter(line => line['msg'] === 'a file in the journal is no record and was set aside')).toHaveLength(6)
    expect(JSON.stringify(lines)).not.toContain(KEY)
    expect(files(dir)).toHaveLength(1)
    journal.claim('new', callOf('new'))
    await journal.started('new')
    expect(states(await afterCrash(dir)).toSorted()).toEqual(['good settled', 'new started'])
  })

  it('serves from memory while the disk refuses, says so once, and catches up', async () => {
    const dir = folder()
    const { lines, log } = captureLog()
    const health: (string | null)[] = []
    const journal = await open(dir, {
      log,
      onHealth: reason => health.push(reason),
      patience: { tryAgainMs: 20, unsavedMost: 3 },
    })
    const calls = path.join(dir, 'calls')
    renameSync(calls, `${calls}.away`)
    for (let n = 0; n < 3; n++) {
      journal.claim(`c${n}`, callOf(`c${n}`))
      await journal.started(`c${n}`)
      await journal.settled(`c${n}`, ANSWER)
    }
    expect(journal.undelivered('c0')).toBe(false)
    expect(health).toEqual([])
    for (let n = 3; n < 6; n++) {
      journal.claim(`c${n}`, callOf(`c${n}`))
      await journal.started(`c${n}`)
    }
    expect(health).toEqual(['can not be written: ENOENT'])
    renameSync(`${calls}.away`, calls)
    await expect.poll(() => health, { timeout: 5_000 }).toEqual(['can not be written: ENOENT', null])
    expect(states(await afterCrash(dir))).toHaveLength(6)
    const told = lines.map(line => String(line['msg'])).filter(message => message.startsWith('the journal can'))
    expect(told).toEqual([
      'the journal can not be written: calls are kept in memory only, and kill -9 would lose them',
      'the journal can be written again',
    ])
  })

  it('does not let code start of which the disk says that it has not, and can not be told', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('waited', callOf('waited'))
    await onDisk(dir, 1)
    const calls = path.join(dir, 'calls')
    renameSync(calls, `${calls}.away`)
    expect(await journal.started('waited')).toBe(false)
    journal.claim('new', callOf('new'))
    expect(await journal.started('new')).toBe(true) // of which the disk knows nothing
    renameSync(`${calls}.away`, calls)
    expect(states(await afterCrash(dir))).toEqual(['waited claimed'])
    expect(await journal.started('waited')).toBe(true)
    expect(states(await afterCrash(dir))).toContain('waited started')
  })

  it('takes the decision of a person who was asked long ago, when memory has forgotten that', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    journal.asking('c')
    journal.asked('c')
    for (let n = 0; n < 2_100; n++) {
      journal.claim(`n${n}`, callOf(`n${n}`))
      journal.left(`n${n}`)
    }
    expect(journal.claim('c', callOf('c'))).toEqual({ kind: 'known' })
    const key = journal.keyOf(callOf('c', true))
    expect(key).toBe('c:decided')
    expect(journal.hasDecided(callOf('c'))).toBe(false)
    expect(journal.claim(key, callOf('c', true))).toEqual({ kind: 'fresh' })
    expect(journal.hasDecided(callOf('c'))).toBe(true)
  })

  it('posts a refused answer again when its call comes again in another life, and never runs it', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    await journal.rejected('c', '400: the thread is locked')
    await journal.close()
    const next = await afterCrash(dir)
    expect(next.claim('c', callOf('c'))).toEqual({ kind: 'stored' })
    expect(await next.stored('c')).toEqual(ANSWER)
    next.delivered('c')
    expect(next.claim('c', callOf('c'))).toMatchObject({ kind: 'settled' })
  })

  it('keeps a refused answer in the journal where it can not be put aside', async () => {
    const dir = folder()
    const journal = await open(dir)
    writeFileSync(path.join(dir, 'rejected'), 'in the way')
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    expect(await journal.rejected('c', '400: no')).toBe(false)
    expect(states(journal)).toEqual(['c settled'])
  })

  it('does not close well while an answered call is still on disk', async () => {
    const dir = folder()
    const journal = await open(dir)
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    const calls = path.join(dir, 'calls')
    renameSync(calls, `${calls}.away`)
    writeFileSync(calls, 'in the way')
    journal.delivered('c')
    expect(await journal.close()).toBe(false)
  })

  it('offers an answer again that could not be read for a while', async () => {
    const dir = folder()
    const first = await open(dir)
    first.claim('c', callOf('c'))
    await first.settled('c', ANSWER)
    await first.close()
    const journal = await open(dir)
    const calls = path.join(dir, 'calls')
    renameSync(calls, `${calls}.away`)
    expect(await journal.takeOver('c')).toBeNull()
    expect(states(journal)).toEqual(['c settled'])
    renameSync(`${calls}.away`, calls)
    expect(await journal.takeOver('c')).toEqual({ answer: ANSWER })
  })

  it('removes what a worker that died was writing', async () => {
    const dir = folder()
    const names = ['calls', 'rejected'].map(of => path.join(dir, of, `${'2'.repeat(64)}.json.123`))
    const left = [...names, path.join(dir, 'probe'), path.join(dir, 'probe.4711')]
    for (const of of ['calls', 'rejected']) mkdirSync(path.join(dir, of), { mode: 0o700 })
    for (const file of left) writeFileSync(file, 'half')
    await open(dir)
    expect(left.filter(file => existsSync(file))).toEqual([])
  })

  it('keeps the last hundred of what is no record', async () => {
    const dir = folder()
    mkdirSync(path.join(dir, 'calls'), { mode: 0o700 })
    for (let n = 0; n < 130; n++) writeFileSync(path.join(dir, 'calls', `mine-${n}`), '')
    await open(dir)
    expect(files(dir)).toEqual([])
    expect(files(dir, 'corrupt')).toHaveLength(100)
  })

  it('follows no link in the place of its files and folders', async () => {
    const dir = folder()
    const elsewhere = folder()
    const target = path.join(elsewhere, 'target')
    writeFileSync(target, 'mine')
    symlinkSync(target, path.join(dir, 'probe'))
    for (const of of ['rejected', 'corrupt']) symlinkSync(elsewhere, path.join(dir, of))
    mkdirSync(path.join(dir, 'calls'), { mode: 0o700 })
    writeFileSync(path.join(dir, 'calls', 'notes.txt'), 'no record')
    const journal = await open(dir)
    symlinkSync(target, path.join(dir, 'probe'))
    journal.claim('c', callOf('c'))
    await journal.settled('c', ANSWER)
    expect(await journal.rejected('c', '400: no')).toBe(false)
    expect(states(journal)).toEqual(['c settled'])
    await journal.close()
    expect(readdirSync(elsewhere)).toEqual(['target'])
    expect(readFileSync(target, 'utf8')).toBe('mine')
  })

  it.each([
    ['a link', (dir: string) => symlinkSync(folder(), path.join(dir, 'calls'))],
    ['a file', (dir: string) => writeFileSync(path.join(dir, 'calls'), '')],
  ])('refuses %s in the place of its folder', async (_, make) => {
    const dir = folder()
    make(dir)
    await expect(open(dir)).rejects.toThrow(/calls/)
  })

  it('finds after a crash, whatever came before it, each unanswered call in the last state that it was told of', async () => {
    const step = fc.record({
      id: fc.constantFrom('a', 'b', 'c'),
      what: fc.constantFrom('claim', 'start', 'settle', 'deliver', 'leave', 'undeliver', 'crash'),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async steps => {
        const dir = mkdtempSync(path.join(os.tmpdir(), 'journal-'))
        try {
          let journal = await DiskJournal.open({ stateDir: dir, log: logged.log, onHealth: () => {} })
          let model = new Map<string, string>()
          for (const { id, what } of steps) {
            const state = model.get(id)
            if (what === 'claim' && journal.claim(id, callOf(id)).kind === 'fresh') model.set(id, 'claimed')
            else if (what === 'start' && state === 'claimed') {
              await journal.started(id)
              model.set(id, 'started')
            } else if (what === 'settle' && (state === 'claimed' || state === 'started')) {
              await journal.settled(id, ANSWER)
              model.set(id, 'settled')
            } else if (what === 'deliver' && state === 'settled') {
              journal.delivered(id)
              model.delete(id)
            } else if (what === 'undeliver' && state === 'settled') expect(journal.undelivered(id)).toBe(true)
            else if (what === 'leave' && state !== undefined && state !== 'settled') {
              journal.left(id)
              model.delete(id)
            } else if (what === 'crash') {
              expect(await journal.close()).toBe(true)
              journal = await DiskJournal.open({ stateDir: dir, log: logged.log, onHealth: () => {} })
              expect(new Map(journal.leftovers().map(({ key, state }) => [key, state]))).toEqual(model)
              for (const key of model.keys()) await journal.takeOver(key)
              model = new Map(model)
            }
          }
          await journal.close()
        } finally {
          rmSync(dir, { recursive: true, force: true })
        }
      }),
      { numRuns: 60 },
    )
  })
})
