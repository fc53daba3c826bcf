import { describe, expect, it } from 'vitest'
import { ExactNumber } from '../../../src/exact-json.js'
import type { StoredAnswer } from '../../../src/journal/journal.js'
import { MemoryJournal } from '../../../src/journal/memory-journal.js'
import type { ToolStep } from '../../../src/toolbox/tool-log.js'

const ANSWER: StoredAnswer = { content: '"done"', provenance: '{}', dollars: 0, asPlaceholder: false }

const MINUTE = 60_000

function answered(journal: MemoryJournal, key: string): void {
  journal.claim(key)
  journal.settled(key, ANSWER)
  journal.delivered(key)
}

describe('MemoryJournal', () => {
  it('gives a call to the first who claims it', () => {
    const journal = new MemoryJournal()
    expect(journal.claim('c')).toEqual({ kind: 'fresh' })
    expect(journal.claim('c')).toEqual({ kind: 'known' })
    expect(journal.claim('d')).toEqual({ kind: 'fresh' })
  })

  it('hands a settled answer out for one more post at a time', () => {
    const journal = new MemoryJournal()
    journal.claim('c')
    journal.settled('c', ANSWER)
    expect(journal.claim('c')).toEqual({ kind: 'known' }) // it is being posted
    journal.delivered('c')
    expect(journal.claim('c')).toEqual({ kind: 'settled', answer: ANSWER })
    expect(journal.claim('c')).toEqual({ kind: 'known' })
    journal.delivered('c')
    expect(journal.claim('c')).toEqual({ kind: 'settled', answer: ANSWER })
  })

  it('keeps the answer that was settled last', () => {
    const journal = new MemoryJournal()
    journal.claim('c')
    journal.settled('c', ANSWER)
    journal.settled('c', { ...ANSWER, content: '"shorter"' })
    journal.delivered('c')
    expect(journal.claim('c')).toMatchObject({ answer: { content: '"shorter"' } })
  })

  it.each(['asked', 'left'] as const)('knows a call that was %s', how => {
    const journal = new MemoryJournal()
    journal.claim('c')
    journal.asking('c')
    journal[how]('c')
    expect(journal.claim('c')).toEqual({ kind: 'known' })
  })

  it('forgets the answers of the oldest, not that they were answered, and none that is being worked on or posted', () => {
    const journal = new MemoryJournal()
    const decided = { fcall_id: 'decided', confirmed_by_human: true }
    journal.asking('decided')
    answered(journal, journal.keyOf(decided))
    journal.claim('left')
    journal.left('left')
    journal.claim('worked on')
    journal.claim('posted')
    journal.settled('posted', ANSWER)
    journal.claim('asking')
    journal.asking('asking')
    for (let n = 0; n < 2_001; n++) answered(journal, `c${n}`)
    expect(journal.claim('c0')).toEqual({ kind: 'stored' })
    expect(journal.claim('c0')).toEqual({ kind: 'known' }) // it is being answered again
    expect(journal.claim('c1')).toMatchObject({ kind: 'settled' })
    for (const key of ['left', 'worked on', 'posted', 'asking']) expect(journal.claim(key)).toEqual({ kind: 'known' })
    expect(journal.hasDecided(decided)).toBe(true)
    expect(journal.keyOf(decided)).not.toBe('decided')
    expect(journal.claim(journal.keyOf(decided))).toEqual({ kind: 'stored' })
  })

  it('forgets after a quarter of an hour more that a call was answered', () => {
    let now = 1_000 * MINUTE
    const journal = new MemoryJournal({ wallClock: () => now })
    for (let n = 0; n < 2_001; n++) answered(journal, `c${n}`)
    now += 16 * MINUTE
    answered(journal, 'one more')
    expect(journal.claim('c0')).toEqual({ kind: 'fresh' })
  })

  it('says of calls that were made before it forgot others, and of no later ones, that they may be such', () => {
    let now = 1_000 * MINUTE
    const journal = new MemoryJournal({ wallClock: () => now, namesMost: 2 })
    for (let n = 0; n < 2_003; n++) answered(journal, `c${n}`)
    expect(journal.claim('c0', undefined, now - MINUTE)).toEqual({ kind: 'forgotten' })
    expect(journal.claim('c1', undefined, now - MINUTE)).toEqual({ kind: 'stored' })
    expect(journal.claim('new', undefined, now + 2 * MINUTE)).toEqual({ kind: 'fresh' })
    now += 16 * MINUTE
    expect(journal.claim('older', undefined, now - 60 * MINUTE)).toEqual({ kind: 'fresh' })
  })

  it('forgets by bytes too', () => {
    const journal = new MemoryJournal()
    // 30 MiB in UTF-8, a third of that in the units of a string.
    const large = { ...ANSWER, content: '中'.repeat(10 * 1024 * 1024) }
    for (const key of ['a', 'b', 'c']) {
      journal.claim(key)
      journal.settled(key, large)
      journal.delivered(key)
    }
    expect(journal.claim('a')).toEqual({ kind: 'stored' })
    expect(journal.claim('b')).toMatchObject({ kind: 'settled' })
  })
})

describe('what calls that wait for a person have called', () => {
  const called: ToolStep = { step: 'called', n: 0, tool: 'mail.send', hash: 'h', argsPreview: '{}' }
  const answeredWith = (value: string | ExactNumber): ToolStep => {
    return { step: 'answered', n: 0, ok: true, ms: 1, bytes: 1, dollars: 0, answer: { value } }
  }
  const ask = async (journal: MemoryJournal, id: string, value: string | ExactNumber = '') => {
    const log = journal.toolLog({ fcall_id: id })
    journal.claim(id)
    await log.note(called)
    await log.note(answeredWith(value))
    journal.asking(id)
    journal.asked(id)
  }

  it.each(['é', new ExactNumber('9007199254740993')])('is there as it was when they have decided', async value => {
    const journal = new MemoryJournal()
    await ask(journal, 'c', value)
    const earlier = await journal.toolLog({ fcall_id: 'c' }).earlier()
    expect(earlier).toEqual({ steps: [called, answeredWith(value)], isWhole: true })
  })

  it('is bounded in bytes, and of what is forgotten it stays known that there was something', async () => {
    const journal = new MemoryJournal()
    for (let n = 0; n < 12; n++) await ask(journal, `c${n}`, 'x'.repeat(8 * 1024 * 1024))
    const earlier = (n: number) => journal.toolLog({ fcall_id: `c${n}` }).earlier()
    expect(await Promise.all([0, 4].map(earlier))).toEqual(Array(2).fill({ steps: [], isWhole: false }))
    expect(await earlier(5)).toMatchObject({ steps: { length: 2 }, isWhole: true })
  })

  it('stays known until they are answered, however many calls come between', async () => {
    const journal = new MemoryJournal()
    await ask(journal, 'c')
    for (let n = 0; n < 2_001; n++) await ask(journal, `other ${n}`)
    const decided = { fcall_id: 'c', confirmed_by_human: true }
    const key = journal.keyOf(decided)
    expect(journal.claim(key)).toEqual({ kind: 'fresh' })
    expect(await journal.toolLog(decided).earlier()).toEqual({ steps: [], isWhole: false })
    await journal.settled(key, ANSWER)
    journal.delivered(key)
    expect(await journal.toolLog(decided).earlier()).toEqual({ steps: [], isWhole: true })
  })

  it('is kept for the run after a yes when the question is forgotten meanwhile', async () => {
    const journal = new MemoryJournal()
    await ask(journal, 'c')
    journal.claim(journal.keyOf({ fcall_id: 'c', confirmed_by_human: true }))
    for (let n = 0; n < 2_001; n++) await ask(journal, `other ${n}`)
    expect(await journal.toolLog({ fcall_id: 'c' }).earlier()).toMatchObject({ steps: { length: 2 }, isWhole: true })
  })
})

describe('the key of a delivery', () => {
  const delivered = (confirmed: boolean | null) => ({ fcall_id: 'c', confirmed_by_human: confirmed })

  it('is the same before and after a word that we did not ask for', () => {
    const journal = new MemoryJournal()
    const key = journal.keyOf(delivered(null))
    journal.claim(key)
    expect([journal.keyOf(delivered(true)), journal.keyOf(delivered(false))]).toEqual([key, key])
    journal.settled(key, ANSWER)
    journal.delivered(key)
    expect(journal.keyOf(delivered(true))).toBe(key)
  })

  it('is another one for the word that we asked for, and the same for each further one', () => {
    const journal = new MemoryJournal()
    const key = journal.keyOf(delivered(null))
    journal.claim(key)
    journal.asking(key)
    const decided = journal.keyOf(delivered(true))
    expect(decided).not.toBe(key)
    expect(journal.claim(decided)).toEqual({ kind: 'fresh' })
    expect(journal.keyOf(delivered(false))).toBe(decided)
    expect(journal.keyOf(delivered(null))).toBe(key)
  })

  it('stays that of a call that runs after the question is forgotten', () => {
    const journal = new MemoryJournal()
    journal.claim('c')
    journal.asked('c')
    const decided = journal.keyOf(delivered(true))
    journal.claim(decided)
    for (let n = 0; n < 2_001; n++) {
      journal.claim(`other ${n}`)
      journal.asked(`other ${n}`)
    }
    expect(journal.keyOf(delivered(true))).toBe(decided)
  })
})
