import { describe, expect, it } from 'vitest'
import type { CapturedText } from '../../../src/outcome.js'
import { Capture, sharesFor } from '../../../src/sandbox/capture.js'

const KEPT = 100
const NOTE = /^(?<head>[\s\S]*)\n\[… (?<left>\d+) bytes left out …\]\n(?<tail>[\s\S]*)$/

/** Sends bytes as a warden does: the first `firstBytes` in chunks, of the rest the last `lastBytes` as the tail. */
function capture(bytes: Buffer, firstBytes: number, lastBytes: number, chunk = 7) {
  const streamed: string[] = []
  const kept = new Capture(KEPT, text => streamed.push(text))
  const first = bytes.subarray(0, firstBytes)
  for (let at = 0; at < first.length; at += chunk) kept.push(first.subarray(at, at + chunk))
  const rest = bytes.subarray(first.length)
  if (rest.length > 0) kept.setTail(rest.subarray(Math.max(0, rest.length - lastBytes)))
  return { result: kept.finish(bytes.length), streamed: streamed.join('') }
}

function halves(result: CapturedText): { head: string; tail: string; left: number } {
  const groups = NOTE.exec(result.text)?.groups
  return { head: groups?.['head'] ?? '', tail: groups?.['tail'] ?? '', left: Number(groups?.['left']) }
}

describe.each(['a', 'é', '€', '😀'])('a stream of %s that is too long', character => {
  it('is cut between characters at every offset, and counts what it left out', () => {
    for (let offset = 0; offset < 12; offset++) {
      const text = 'x'.repeat(offset) + character.repeat(200)
      const bytes = Buffer.from(text)
      const { result } = capture(bytes, KEPT, KEPT + 16)
      const { head, tail, left } = halves(result)
      const at = `offset ${offset}`
      expect(text.startsWith(head), at).toBe(true)
      expect(text.endsWith(tail), at).toBe(true)
      expect(result.text, at).not.toContain('�')
      expect(result.bytes_kept, at).toBe(Buffer.byteLength(head) + Buffer.byteLength(tail))
      expect(result.bytes_kept, at).toBeLessThanOrEqual(KEPT)
      expect(result.bytes_kept, at).toBeGreaterThan(KEPT - 8)
      expect(left, at).toBe(bytes.length - result.bytes_kept)
    }
  })

  it('keeps the same text wherever the pieces of the warden meet', () => {
    const text = character.repeat(60)
    const bytes = Buffer.concat([Buffer.from(text), Buffer.from('y'.repeat(90))])
    const whole = capture(bytes, bytes.length, 0).result
    for (let meet = KEPT; meet <= bytes.length; meet++) {
      expect(capture(bytes, meet, KEPT + 16).result.text, `meeting at ${meet}`).toBe(whole.text)
    }
  })
})

describe('Capture', () => {
  it('streams exactly the text that it gives in the end, however the chunks cut characters', () => {
    const bytes = Buffer.from('aé€😀\u0000\r\n\ufeffend')
    for (let chunk = 1; chunk <= bytes.length; chunk++) {
      const { result, streamed } = capture(bytes, KEPT, 0, chunk)
      expect(streamed, `chunks of ${chunk}`).toBe(result.text)
    }
  })

  it('streams invalid bytes as it shows them in the end', () => {
    const bytes = Buffer.from([0x61, 0xff, 0xc3, 0x28, 0xe2, 0x82, 0x62, 0xf0, 0x9f, 0x98])
    for (let chunk = 1; chunk <= bytes.length; chunk++) {
      const { result, streamed } = capture(bytes, KEPT, 0, chunk)
      expect(streamed, `chunks of ${chunk}`).toBe(result.text)
      expect(result.text).toContain('�')
      expect(result.text.isWellFormed()).toBe(true)
    }
  })

  it('shows NUL as its picture', () => {
    expect(capture(Buffer.from('a\u0000b'), KEPT, 0).result.text).toBe('a␀b')
  })

  it('leaves a stream of just the kept length whole', () => {
    const { result } = capture(Buffer.from('x'.repeat(KEPT)), KEPT, KEPT)
    expect(result).toEqual({ text: 'x'.repeat(KEPT), bytes_total: KEPT, bytes_kept: KEPT, truncated: false })
  })

  it('cuts a stream of one byte more, 40 % head and 60 % tail', () => {
    const { result } = capture(Buffer.from('x'.repeat(KEPT + 1)), KEPT, KEPT + 16)
    expect(result.truncated).toBe(true)
    expect(halves(result)).toEqual({ head: 'x'.repeat(40), tail: 'x'.repeat(60), left: 1 })
  })

  it('counts what was passed over between the two pieces', () => {
    const kept = new Capture(KEPT, null)
    kept.push(Buffer.from('h'.repeat(KEPT)))
    kept.setTail(Buffer.from('t'.repeat(KEPT + 16)))
    expect(kept.finish(1_000_000)).toEqual({
      text: `${'h'.repeat(40)}\n[… 999900 bytes left out …]\n${'t'.repeat(60)}`,
      bytes_total: 1_000_000,
      bytes_kept: KEPT,
      truncated: true,
    })
  })

  it('keeps what came when nobody can say how much there was', () => {
    const kept = new Capture(KEPT, null)
    kept.push(Buffer.from('all that came'))
    expect(kept.finish(null)).toEqual({ text: 'all that came', bytes_total: 13, bytes_kept: 13, truncated: false })
  })

  it('is empty when nothing was written', () => {
    expect(new Capture(KEPT, null).finish(0)).toEqual({ text: '', bytes_total: 0, bytes_kept: 0, truncated: false })
  })

  it('survives a head or a tail of continuation bytes alone', () => {
    const { result } = capture(Buffer.alloc(300, 0x80), KEPT, KEPT + 16)
    expect(result.text.isWellFormed()).toBe(true)
    expect(result.bytes_kept).toBeLessThanOrEqual(KEPT)
  })
})

describe('sharesFor', () => {
  it('asks for no less than is kept and more than is streamed', () => {
    expect(sharesFor(50_000, 262_144).firstBytes).toBeGreaterThan(262_144)
    expect(sharesFor(2_000_000, 0).firstBytes).toBe(2_000_000)
    expect(sharesFor(50_000, 0).lastBytes).toBeGreaterThanOrEqual(50_000)
  })
})

describe('output in very small pieces', () => {
  it('is kept whole, in order', () => {
    const streamed: string[] = []
    const capture = new Capture(50_000, text => streamed.push(text))
    const lines = Array.from({ length: 1_000 }, (_, n) => `${n}\n`)
    for (const line of lines) capture.push(Buffer.from(line))
    const text = lines.join('')
    expect(capture.finish(Buffer.byteLength(text))).toMatchObject({ text, truncated: false })
    expect(streamed.join('')).toBe(text)
  })
})
