import { describe, expect, test } from 'vitest'
import type { Part } from '../../../src/outcome.js'
import { wireContent } from '../../../src/tool/wire-content.js'

const bytes = (text: string) => Buffer.byteLength(text, 'utf8')
const text = (m_content: string): Part => ({ m_type: 'text', m_content })
const png = (size: number): Part => ({ m_type: 'image/png', m_content: 'A'.repeat(size) })

describe('text', () => {
  test('is a JSON string', () => {
    expect(wireContent('a"é\n😀', 1000)).toBe('"a\\"é\\n😀"')
  })

  test('is well-formed and without NUL on the wire', () => {
    expect(JSON.parse(wireContent('a\ud800b\0c', 1000))).toBe('a\ufffdb\u2400c')
  })

  test('that just fits stays whole', () => {
    expect(JSON.parse(wireContent('x'.repeat(998), 1000))).toBe('x'.repeat(998))
  })

  test('that is too large keeps its head, more of its tail, and says so', () => {
    const wire = wireContent(`HEAD${'m'.repeat(5000)}[exit code 3]`, 1000)
    const shown = JSON.parse(wire) as string
    expect(shown).toMatch(
      /^HEADm+\n\[the middle of this answer was left out: 5017 bytes are too many\]\nm+\[exit code 3\]$/,
    )
    expect(bytes(wire)).toBeGreaterThan(990)
  })

  test.each(['x', 'é', '你', '😀', '"', '\\', '\n', '\u001b', '\u007f', '\u2028', 'x😀\n'])(
    'of many %j never exceeds the limit and is never cut inside a character',
    unit => {
      for (const maxBytes of [200, 201, 202, 203, 777]) {
        const wire = wireContent(unit.repeat(3000), maxBytes)
        const shown = JSON.parse(wire) as string
        expect(bytes(wire)).toBeLessThanOrEqual(maxBytes)
        expect(bytes(wire)).toBeGreaterThan(maxBytes - 30)
        expect(shown.isWellFormed()).toBe(true)
      }
    },
  )

  test('is valid JSON even where there is room for nothing', () => {
    expect(JSON.parse(wireContent('x'.repeat(100), 20))).toBe('[too large]')
  })
})

describe('parts', () => {
  test('are a JSON array', () => {
    const parts = [text('a'), png(4)]
    expect(JSON.parse(wireContent(parts, 1000))).toEqual(parts)
  })

  test('are cleaned', () => {
    expect(JSON.parse(wireContent([text('\ud800\0')], 1000))).toEqual([text('\ufffd\u2400')])
  })

  test('that are too large lose the largest first, and say so', () => {
    const shown = JSON.parse(wireContent([text('a'), png(100), png(5000), png(101)], 1000))
    expect(shown).toEqual([
      text('a\n[left out, as the answer would be too large: image/png (5 KB)]'),
      png(100),
      png(101),
    ])
  })

  test('become text when none can be kept', () => {
    const shown = JSON.parse(wireContent([text('a'), png(5000), png(3000)], 1000))
    expect(shown).toBe('a\n[left out, as the answer would be too large: image/png (5 KB), image/png (3 KB)]')
  })

  test('with a text that is too large become a shorter text', () => {
    const wire = wireContent([text('t'.repeat(5000)), png(5000)], 1000)
    expect(JSON.parse(wire)).toMatch(/^t+\n\[the middle .*\]\nt+\n\[left out, .*: image\/png \(5 KB\)\]$/)
    expect(bytes(wire)).toBeLessThanOrEqual(1000)
  })

  test('without a text say what was left out', () => {
    expect(JSON.parse(wireContent([png(5000)], 1000))).toMatch(/^\[left out/)
  })

  test('of any number and size never exceed the limit', () => {
    for (const count of [1, 2, 5, 40]) {
      for (const size of [0, 10, 300, 2000]) {
        for (const length of [0, 100, 900, 4000]) {
          const wire = wireContent([text('"'.repeat(length)), ...Array.from({ length: count }, () => png(size))], 2000)
          expect(bytes(wire)).toBeLessThanOrEqual(2000)
          JSON.parse(wire)
        }
      }
    }
  })
})
