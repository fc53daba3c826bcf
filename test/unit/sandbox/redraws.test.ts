import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Redraws } from '../../../src/sandbox/redraws.js'

/** Pieces with the time at which each comes, in ms. */
type Timed = readonly (readonly [text: string, atMs: number])[]

/** All that is shown, in the pieces in which it is. */
function shown(pieces: Timed, isLive = true): string[] {
  const redraws = new Redraws(isLive)
  const out = pieces.map(([text, atMs]) => redraws.push(Buffer.from(text), atMs))
  return [...out, redraws.end()].map(bytes => bytes.toString('utf8')).filter(text => text !== '')
}

const whole = (text: string) => shown([[text, 0]]).join('')

describe('output that is made to cost time', () => {
  const MIB = 1 << 20
  it.each([
    ['carriage returns', '\ra'],
    ['backspaces', '\by'],
    ['backspaces in a long line', '\by', 'z'.repeat(4_000)],
    ['movements up and down', '\u001b[32A\u001b[32B'],
    ['movements down', '\u001b[32B'],
    ['erasing', '\rx\u001b[K'],
  ])('of %s is soon passed on as it is', (_what, unit, before = '') => {
    const redraws = new Redraws(true)
    const bytes = Buffer.from(before + unit.repeat(MIB / unit.length))
    const startedMs = performance.now()
    let shownBytes = 0
    for (let at = 0; at < bytes.length; at += 65_536) {
      shownBytes += redraws.push(bytes.subarray(at, at + 65_536), 0).length
    }
    shownBytes += redraws.push(Buffer.from('\nthe end'), 0).length
    shownBytes += redraws.end().length
    expect(performance.now() - startedMs).toBeLessThan(2_000)
    expect(shownBytes).toBeGreaterThan(MIB / 2 - 65_536 * 6)
    expect(shownBytes).toBeLessThanOrEqual(bytes.length + 10)
  })

  it('goes on where it was passed on, in a line of its own', () => {
    const redraws = new Redraws(true)
    const states = Buffer.from(`${'\r5%'.repeat(65_536)}\r6%\r7%\ndone\n`)
    const out = Buffer.concat([redraws.push(states, 0), redraws.push(Buffer.from('a\rb\n'), 0), redraws.end()])
    expect(out.toString()).toBe('5%\n5%\r6%\r7%\ndone\na\rb\n')
  })
})

describe('a line that is drawn over', () => {
  it.each([
    ['print(…, end="\\r")', '10%\r55%\r100%\r', '100%'],
    ['the same with a line after it', '10%\r55%\r100%\r\ndone\n', '100%\ndone\n'],
    ['print("\\r…", end="")', '\rRow 1/3\rRow 2/3\rRow 3/3\ndone\n', 'Row 3/3\ndone\n'],
    ['states that get shorter, whose rest a terminal would keep', 'Loading 100 rows\rLoading 9\n', 'Loading 9\n'],
    ['states padded with blanks', '\rLoading everything\rLoading it         \n', 'Loading it\n'],
    ['a bar that is cleared at the end', '\r 50%|##  |\r100%|####|\r           \rdone\n', 'done\n'],
    ['erase to the end of the line', 'Working 1\r\u001b[KWorking 2\r\u001b[Kdone\n', 'done\n'],
    ['erase the line', '\u001b[2K\rGet 1\u001b[2K\rGet 2\n', 'Get 2\n'],
    ['a column instead of a carriage return', 'Get 1\u001b[1GGet 2\n', 'Get 2\n'],
    ['a spinner of backspaces', 'working |\b/\b-\b\\\b \bdone\n', 'working done\n'],
    ['backspaces over characters of several bytes', 'é€😀\b\b\bxyz\n', 'xyz\n'],
    ['more backspaces than characters', 'ab\b\b\b\b\bc\n', 'c\n'],
    ['bold as of man', 'N\bNA\bAM\bME\bE\n', 'NAME\n'],
    ['a spinner of carriage returns', '\r|\r/\r-\r\\\rdone\n', 'done\n'],
    ['colours', '\u001b[32m10%\u001b[0m\r\u001b[32m90%\u001b[0m\n', '\u001b[32m90%\u001b[0m\n'],
    ['a hidden cursor', '\u001b[?25l10%\r90%\n\u001b[?25h', '90%\n'],
  ])('comes out in its last state: %s', (_what, text, expected) => {
    expect(whole(text)).toBe(expected)
  })

  it('is one of several, which the cursor goes up and down between', () => {
    const draw = (row: number, text: string) => `${'\n'.repeat(row)}\r${text}${'\u001b[A'.repeat(row)}`
    const frames = [0, 10, 50, 100].map(n => draw(0, `a ${n}%`) + draw(1, `b ${n}%`) + draw(2, `c ${n}%`)).join('')
    expect(whole(`before\n${frames}\n\n\nafter\n`)).toBe('before\na 100%\nb 100%\nc 100%\nafter\n')
  })

  it('is one of two, of which the inner one begins anew for each step of the outer one', () => {
    const inner = (n: number) => `\n\rinner ${n}/2\u001b[A`
    const step = (n: number) => `\router ${n}/2${inner(0)}${inner(1)}${inner(2)}\n\r         \r\u001b[A`
    expect(whole(`${step(1)}${step(2)}\router 2/2\nafter\n`)).toBe('outer 2/2\nafter\n')
  })

  it('is drawn anew below where it stood already, since what was sent cannot be taken back', () => {
    expect(whole('a 1%\nb 1%\u001b[1A\ra 9%\nb 9%\n')).toBe('a 1%\na 9%\nb 9%\n')
  })

  it('is no screen of empty lines where the cursor goes down from the last one', () => {
    for (const down of ['\u001b[99B', '\u001b[99E']) expect(whole(`a${down.repeat(3)}b\n`)).toBe('a\n\n\nb\n')
    expect(whole('\ra\n\rb\u001b[A\rA\u001b[1B\rB\nafter\n')).toBe('A\nB\nafter\n')
  })

  it('lets go of a line that was printed above it', () => {
    const bar = (n: number): [string, number] => [`\r${n}%|##  |`, n * 100]
    const pieces = shown([
      bar(1),
      bar(2),
      ['\r        \rnote\n\r2%|##  |', 250],
      bar(3),
      bar(4),
      ['\r100%|####|\n', 500],
    ])
    expect(pieces[0]).toBe('note\n')
    expect(pieces.join('')).toBe('note\n100%|####|\n')
  })
})

describe('text that draws nothing over', () => {
  it.each([
    ['line ends of Windows', 'a,1\r\nb,2\r\n\r\n'],
    ['a line that is open', 'a\nb'],
    ['other escape sequences', '\u001b[1mbold\u001b[0m \u001b]0;title\u0007 \u001b'],
    ['bytes that look like the first of a sequence', 'a\u001b['],
    ['a line of any length', `${'x '.repeat(50_000)}\n${'y '.repeat(5_000)}`],
  ])('comes out as it is: %s', (_what, text) => {
    expect(whole(text)).toBe(text)
  })

  it('has one line end where there were several carriage returns before the line feed', () => {
    expect(whole('a\r\r\nb\r\r\r\n')).toBe('a\r\nb\r\n')
  })

  it.each([
    ['fields', 'name,age\rBob,5\rAnn,6\rBob,7\r', 'name,age\nBob,5\nAnn,6\nBob,7'],
    ['numbers', '1,2\r3,4\r5,6\r', '1,2\n3,4\n5,6'],
    ['columns', '1 2.5\r3 4.5\r5 6.5', '1 2.5\n3 4.5\n5 6.5'],
    ['tabs', 'a\t1\ra\t2\n', 'a\t1\na\t2\n'],
    ['sentences', 'It was late.\rNobody came.\rThe end\n', 'It was late.\nNobody came.\nThe end\n'],
    ['long lines', `${'it '.repeat(200)}\r${'it '.repeat(200)}\n`, `${'it '.repeat(200)}\n${'it '.repeat(199)}it\n`],
  ])('keeps all lines of a text whose lines end in a carriage return: %s', (_what, text, expected) => {
    expect(whole(text)).toBe(expected)
  })
})

describe('with time', () => {
  it('a whole line goes out at once, and an open one within 30 ms', () => {
    const redraws = new Redraws(true)
    expect(redraws.push(Buffer.from('one\ntw'), 1_000).toString()).toBe('one\n')
    expect(redraws.dueMs).toBe(1_030)
    expect(redraws.push(Buffer.from('o'), 1_020).toString()).toBe('')
    expect(redraws.dueMs).toBe(1_030)
    expect(redraws.tick(1_030).toString()).toBe('two')
    expect(redraws.dueMs).toBeNull()
    expect(redraws.push(Buffer.from('.'), 1_040).toString(), 'it goes on').toBe('.')
    expect(redraws.push(Buffer.from('\n'), 1_041).toString()).toBe('\n')
  })

  it('a state that stood for a second goes out as a line of its own, and once', () => {
    const redraws = new Redraws(true)
    const push = (text: string, atMs: number) => redraws.push(Buffer.from(text), atMs).toString()
    expect(push('\r10%', 0) + push('\r20%', 900)).toBe('')
    expect(redraws.dueMs).toBe(1_900)
    expect(redraws.tick(1_899).toString()).toBe('')
    expect(redraws.tick(1_900).toString()).toBe('20%')
    expect(redraws.dueMs).toBeNull()
    expect(push('\r20%', 2_000) + push('\r30%', 2_100) + push('\r40%', 2_200)).toBe('')
    expect(push('\r50%\nend\n', 2_300)).toBe('\n50%\nend\n')
  })

  it('shows of several lines those that have changed', () => {
    const redraws = new Redraws(true)
    const push = (text: string, atMs: number) => redraws.push(Buffer.from(text), atMs).toString()
    expect(push('\ra 1%\n\rb 1%\u001b[A', 0)).toBe('')
    expect(redraws.tick(1_000).toString()).toBe('a 1%\nb 1%')
    expect(push('\ra 2%\ra 3%', 1_100)).toBe('')
    expect(redraws.tick(2_100).toString()).toBe('\na 3%\n')
    expect(push('\n\rb 9%\u001b[A', 2_200)).toBe('')
    expect(redraws.end().toString()).toBe('b 9%')
  })

  it('has nothing to wait for where nobody watches', () => {
    const redraws = new Redraws(false)
    expect(redraws.push(Buffer.from('10%\r'), 0).length).toBe(0)
    expect(redraws.dueMs).toBeNull()
    expect(redraws.push(Buffer.from('20%\r'), 5_000).length).toBe(0)
    expect(redraws.end().toString()).toBe('20%')
  })
})

/** What programs print, in any order. */
const output = fc
  .array(
    fc.oneof(
      {
        weight: 6,
        arbitrary: fc.constantFrom('\r', '\n', '\r\n', '\b', '\u001b[K', '\u001b[2K', '\u001b[A', '\u001b[2A'),
      },
      {
        weight: 2,
        arbitrary: fc.constantFrom(
          '\u001b[B',
          '\u001b[1G',
          '\u001b[J',
          '\u001b[?25l',
          '\u001b[3',
          '\u001b',
          '\u001b[32m',
        ),
      },
      {
        weight: 6,
        arbitrary: fc.constantFrom('10%', '20%', 'a,b', 'Loading', 'é', '你', '😀', ' ', '   ', 'x'.repeat(3_000)),
      },
      fc.string({ maxLength: 6 }),
    ),
    { maxLength: 40 },
  )
  .map(pieces => Buffer.from(pieces.join('')))

const cuts = fc.array(fc.nat(), { maxLength: 12 })

function cutUp(bytes: Buffer, at: readonly number[]): Buffer[] {
  const places = [0, ...at.map(n => n % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length]
  return places.slice(1).map((end, n) => bytes.subarray(places[n], end))
}

function sumOf(waitsMs: readonly number[]): number {
  return waitsMs.reduce((sum, ms) => sum + ms, 0)
}

describe('any output', () => {
  it('comes out the same however it is cut, while the clock stands still', () => {
    fc.assert(
      fc.property(output, cuts, (bytes, at) => {
        const one = new Redraws(true)
        const many = new Redraws(true)
        const expected = Buffer.concat([one.push(bytes, 0), one.end()])
        const pieces = cutUp(bytes, at).map(piece => many.push(piece, 0))
        expect(Buffer.concat([...pieces, many.end()]).toString('latin1')).toBe(expected.toString('latin1'))
      }),
      { numRuns: 2_000 },
    )
  })

  it('comes out as it is where nothing in it moves the cursor', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), cuts, fc.array(fc.nat({ max: 2_000 })), (raw, at, waits) => {
        const bytes = Buffer.from(raw.filter(byte => byte !== 0x0d && byte !== 0x08 && byte !== 0x1b))
        const redraws = new Redraws(true)
        const out = cutUp(bytes, at).map((piece, n) => redraws.push(piece, sumOf(waits.slice(0, n))))
        expect(Buffer.concat([...out, redraws.end()]).equals(bytes)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  it('has its last line in the end, whatever was shown meanwhile, and no broken character', () => {
    fc.assert(
      fc.property(output, cuts, fc.array(fc.nat({ max: 2_000 })), (bytes, at, waits) => {
        const redraws = new Redraws(true)
        const pieces = cutUp(Buffer.concat([bytes, Buffer.from('\nthe last line\n')]), at)
        const out = pieces.map((piece, n) => redraws.push(piece, sumOf(waits.slice(0, n))))
        const text = Buffer.concat([...out, redraws.end()]).toString('utf8')
        expect(text).toContain('the last line\n')
        expect(text).not.toContain('\ufffd')
        expect(redraws.end().length).toBe(0)
      }),
      { numRuns: 1_000 },
    )
  })
})
