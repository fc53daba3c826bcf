import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { pathProblem, threadName } from '../../../src/files/names.js'
import { planRoom } from '../../../src/files/quota.js'

describe('the path of a file that may be kept', () => {
  it.each(['a', 'a b/c.csv', 'ünï/数据.csv', '👩‍👩‍👧.png', '.hidden', '..a', "it's; $(x).txt", 'a\\b'])(
    '%j is fine',
    path => {
      expect(pathProblem(path)).toBeNull()
    },
  )

  it.each([
    ['a\nb', 'control'],
    ['a\x1b[31mb', 'control'],
    ['a\u0085b', 'control'],
    ['a\u2028b', 'control'],
    ['a\u202egnp.exe', 'control'],
    ['a\0', 'control'],
    ['u\u0308', 'normal form'],
    ['\ud800', 'Unicode'],
    ['x'.repeat(513), '512 bytes'],
    ['ü'.repeat(257), '512 bytes'],
    ['../a', 'plain'],
    ['a/../b', 'plain'],
    ['/etc/passwd', 'plain'],
    ['a//b', 'plain'],
    ['a/', 'plain'],
    ['.', 'plain'],
    ['', 'plain'],
    ['d/'.repeat(16).concat('x'), '16 folders'],
  ])('%j is not', (path, why) => {
    expect(pathProblem(path)).toContain(why)
  })
})

describe('the folder of a thread', () => {
  it('is 64 hexadecimal digits, another one for each group and thread', () => {
    fc.assert(
      fc.property(fc.tuple(fc.string(), fc.string(), fc.string(), fc.string()), ([a, b, c, d]) => {
        const [one, other] = [threadName({ group: a, thread: b }), threadName({ group: c, thread: d })]
        expect(one).toMatch(/^[0-9a-f]{64}$/)
        expect(one === other).toBe(a === c && b === d)
      }),
    )
    expect(threadName({ group: 'a', thread: 'b","c' })).not.toBe(threadName({ group: 'a","b', thread: 'c' }))
  })
})

describe('room for new files of a thread', () => {
  const old = (path: string, bytes: number, at: number) => ({ path, bytes, at })

  it('is made by the oldest ones, and not by those that are replaced', () => {
    const existing = [old('new', 40, 3), old('oldest', 40, 1), old('same', 20, 0)]
    expect(planRoom(existing, [{ path: 'same', bytes: 50 }], 100)).toEqual({ evict: ['oldest'], refuse: [] })
  })

  it('is refused to what is too large, and nothing goes for it', () => {
    const plan = planRoom(
      [old('a', 50, 1)],
      [
        { path: 'b', bytes: 101 },
        { path: 'c', bytes: 1 },
      ],
      100,
    )
    expect(plan).toEqual({ evict: [], refuse: ['b'] })
  })

  it('is never more than there is, in bytes and in number', () => {
    const file = fc.record({ path: fc.string({ maxLength: 3 }), bytes: fc.nat(60), at: fc.nat() })
    const files = fc.uniqueArray(file, { selector: one => one.path, maxLength: 300 })
    fc.assert(
      fc.property(files, files, (existing, incoming) => {
        const { evict, refuse } = planRoom(existing, incoming, 100)
        const accepted = incoming.filter(one => !refuse.includes(one.path))
        const replaced = new Set(accepted.map(one => one.path))
        const left = existing.filter(one => !evict.includes(one.path) && !replaced.has(one.path))
        const all = [...accepted, ...left]
        expect(all.reduce((sum, one) => sum + one.bytes, 0)).toBeLessThanOrEqual(100)
        expect(all.length).toBeLessThanOrEqual(200)
      }),
      { numRuns: 50 },
    )
  })
})
