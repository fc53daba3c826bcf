import { describe, expect, it } from 'vitest'
import type { CapturedText } from '../../../src/outcome.js'
import { Capture, sharesFor } from '../../../src/sandbox/capture.js'
import { MASK, Redactor } from '../../../src/telemetry/redactor.js'

const KEPT = 100
const SECRET = 'fx-0123456789-sécret-€-😀-of-the-worker'
const SECRETS = new Redactor([SECRET, 'sécret-€-😀-of-the-worker-and-more']).matcher

function run(bytes: Buffer, firstBytes: number, chunk = 7): { result: CapturedText; streamed: string } {
  const streamed: string[] = []
  const kept = new Capture(KEPT, text => streamed.push(text), SECRETS)
  const first = bytes.subarray(0, firstBytes)
  for (let at = 0; at < first.length; at += chunk) kept.push(first.subarray(at, at + chunk))
  const rest = bytes.subarray(first.length)
  if (rest.length > 0) kept.setTail(rest.subarray(Math.max(0, rest.length - sharesFor(KEPT, 0).lastBytes)))
  return { result: kept.finish(bytes.length), streamed: streamed.join('') }
}

/** The longest piece of the secret that shows. */
function shown(whole: string): string {
  const text = whole.replaceAll(MASK, '').replace(/\[… \d+ bytes left out …\]/, '')
  let longest = ''
  for (let start = 0; start < SECRET.length; start++) {
    for (let end = start + longest.length + 1; end <= SECRET.length && text.includes(SECRET.slice(start, end)); end++) {
      longest = SECRET.slice(start, end)
    }
  }
  return longest
}

describe('a stream with a secret', () => {
  it('shows a mask in its place, live and in the end, however the chunks cut it', () => {
    const bytes = Buffer.from(`a ${SECRET} b\u0000 fx-01`)
    for (let chunk = 1; chunk <= bytes.length; chunk++) {
      const { result, streamed } = run(bytes, KEPT, chunk)
      expect(result.text, `chunks of ${chunk}`).toBe(`a ${MASK} b\u2400 fx-01`)
      expect(streamed, `chunks of ${chunk}`).toBe(result.text)
      expect(result).toMatchObject({ truncated: false, bytes_total: bytes.length, bytes_kept: bytes.length })
    }
  })

  it('shows no half of it where head and tail are cut, wherever it stands and wherever the pieces meet', () => {
    const all = 300
    const size = Buffer.byteLength(SECRET)
    for (let at = 0; at <= all - size; at++) {
      const bytes = Buffer.concat([Buffer.alloc(at, '.'), Buffer.from(SECRET), Buffer.alloc(all - size - at, '.')])
      for (const firstBytes of [KEPT, KEPT + 33, all - 50, all]) {
        const { result, streamed } = run(bytes, firstBytes)
        const where = `at ${at}, the first ${firstBytes}`
        expect(shown(result.text).length, where).toBeLessThan(2)
        expect(shown(streamed).length, where).toBeLessThan(2)
        expect(result.text, where).not.toContain('�')
        expect(result.bytes_kept, where).toBeLessThanOrEqual(KEPT)
        const left = Number(/\[… (\d+) bytes left out …\]/.exec(result.text)?.[1])
        expect(left, where).toBe(all - result.bytes_kept)
      }
    }
  })

  it('shows no half of one that was being written when the code was ended', () => {
    const whole = Buffer.from(SECRET)
    for (const before of ['', 'x', '.'.repeat(150)]) {
      for (let size = 4; size < whole.length; size++) {
        const streamed: string[] = []
        const kept = new Capture(KEPT, text => streamed.push(text), SECRETS)
        kept.push(Buffer.concat([Buffer.from(before), whole.subarray(0, size)]))
        const { text } = kept.finish(before.length + size, true)
        expect(shown(text).length, `${size} bytes`).toBeLessThan(2)
        expect(shown(streamed.join('')).length, `${size} bytes`).toBeLessThan(2)
        if (before.length < 2) expect(streamed.join('')).toBe(text)
      }
    }
  })

  it('shows nothing of one that is longer than all that is kept', () => {
    const long = Array.from({ length: 40 }, (_, n) => `part-${n}-of-a-key`).join('/')
    const kept = new Capture(64, null, new Redactor([long]).matcher)
    const bytes = Buffer.from(`${'.'.repeat(100)}${long}\n`)
    kept.push(bytes.subarray(0, 200))
    kept.setTail(bytes.subarray(-80))
    expect(kept.finish(bytes.length).text).not.toMatch(/of-a-key/)
  })
})
