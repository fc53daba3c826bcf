import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Capture, sharesFor } from '../../../src/sandbox/capture.js'
import { MASK, Redactor } from '../../../src/telemetry/redactor.js'

const KEPT = 10_000
const bar = (n: number) => `\r${n}%|${'#'.repeat(60)}| ${n}/400`

function capture(pieces: readonly string[], isWatched = true, secrets: readonly string[] = []) {
  const streamed: string[] = []
  const kept = new Capture(KEPT, isWatched ? text => streamed.push(text) : null, new Redactor(secrets).matcher, () => 0)
  for (const piece of pieces) kept.push(Buffer.from(piece))
  const bytes = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
  return { result: kept.finish(bytes), streamed: streamed.join(''), bytes }
}

describe('a stream of which lines are drawn over and over', () => {
  const bars = Array.from({ length: 400 }, (_, n) => bar(n + 1))

  it('keeps the last state and all that was printed besides, whether somebody watches or not', () => {
    for (const isWatched of [true, false]) {
      const { result, streamed, bytes } = capture(['begun\n', ...bars, '\nended\n'], isWatched)
      expect(bytes).toBeGreaterThan(2 * KEPT)
      expect(result.text).toBe(`begun\n${bar(400).slice(1)}\nended\n`)
      expect(result).toMatchObject({
        truncated: false,
        bytes_total: result.text.length,
        bytes_kept: result.text.length,
      })
      if (isWatched) expect(streamed).toBe(result.text)
    }
  })

  it('counts what is shown where that is cut, and not what was drawn over', () => {
    const { result } = capture([...bars, '\n', 'x'.repeat(2 * KEPT)])
    const shown = bar(400).length + 2 * KEPT
    expect(result).toMatchObject({ truncated: true, bytes_total: shown, bytes_kept: KEPT })
    expect(result.text).toContain(`[… ${shown - KEPT} bytes left out …]`)
  })

  it('is one text where the two pieces of the warden meet, live and in the end', () => {
    const text = `${bars.join('')}\nended\n`
    for (const meet of [1, 500, 20_000]) {
      const streamed: string[] = []
      const kept = new Capture(KEPT, piece => streamed.push(piece))
      kept.push(Buffer.from(text.slice(0, meet)))
      kept.setTail(Buffer.from(text.slice(meet)))
      expect(kept.finish(text.length).text, `meeting at ${meet}`).toBe(`${bar(400).slice(1)}\nended\n`)
      expect(streamed.join(''), `meeting at ${meet}`).toBe(`${bar(400).slice(1)}\nended\n`)
    }
  })

  it('draws over in the last bytes as well, where some were passed over', () => {
    const kept = new Capture(KEPT, null)
    kept.push(Buffer.from(`first\n${bar(1)}${bar(2)}`))
    kept.setTail(Buffer.from(`${bar(8)}${bar(9)}\nlast\n`))
    const { text, truncated, bytes_total, bytes_kept } = kept.finish(100_000)
    expect(text).toMatch(/^first\n2%\|#+\| 2\/400\n\[… \d+ bytes left out …\]\n9%\|#+\| 9\/400\nlast\n$/)
    expect(truncated).toBe(true)
    expect(text).toContain(`\n[… ${bytes_total - bytes_kept} bytes left out …]\n`)
  })

  it('is looked through for as long as a bar is drawn ten times a second for nine minutes', () => {
    expect(sharesFor(10_000, 0).firstBytes).toBeGreaterThan(9 * 60 * 10 * 120)
  })
})

describe('a secret in a line that is redrawn', () => {
  const SECRET = 'fx-0123456789abcdef'

  it.each([
    ['printed in one state', [`key ${SECRET} 1\rkey ${SECRET} 2\n`], `key ${MASK} 2\n`],
    ['put together of two states', ['fx-01234\rfx-0123456789abcdef\n'], `${MASK}\n`],
    ['put together by backspaces', ['fx-0123X', '\b', '456789abcdef\n'], `${MASK}\n`],
    ['put together by an erased end', ['fx-01234\u001b[K56789abcdef\n'], `${MASK}\n`],
    ['cut by chunks', ['\rfx-0123', '456789abc', 'def\n'], `${MASK}\n`],
  ])('is masked: %s', (_what, pieces, expected) => {
    const { result, streamed } = capture(pieces, true, [SECRET])
    expect(result.text).toBe(expected)
    expect(streamed).toBe(expected)
  })
})

describe('a stream that somebody watches', () => {
  it('shows an open line within 100 ms, a state that stands after a second, and has the same text in the end', async () => {
    const streamed: string[] = []
    const kept = new Capture(KEPT, text => streamed.push(text))
    kept.push(Buffer.from('open'))
    await sleep(90)
    expect(streamed.join('')).toBe('open')
    kept.push(Buffer.from(' line\n\r10%\r20%'))
    await sleep(300)
    expect(streamed.join('')).toBe('open line\n')
    await sleep(1_200)
    expect(streamed.join('')).toBe('open line\n20%')
    kept.push(Buffer.from('\r30%\r40%'))
    const { text } = kept.finish(26, true)
    expect(text).toBe('open line\n20%\n40%')
    expect(streamed.join('')).toBe(text)
  })
})
