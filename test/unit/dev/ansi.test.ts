import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createAnsiReader } from '../../../src/dev/page/ansi.js'

function read(...pieces: string[]): { text: string; style: string }[] {
  const reader = createAnsiReader()
  return pieces.flatMap(piece => [...reader.push(piece)])
}

const textOf = (spans: { text: string }[]) => spans.map(({ text }) => text).join('')

describe('the text of a terminal', () => {
  it.each([
    ['\u001b[31mred\u001b[0m plain', ['ansi-red', '']],
    ['\u001b[1;38;5;196mred\u001b[22m still', ['ansi-red ansi-bold', 'ansi-red']],
    ['\u001b[38;2;10;200;20mgreen', ['ansi-green']],
    ['\u001b[48;5;1mground\u001b[4m line', ['', 'ansi-underline']],
  ])('%j is in the styles %j', (text, styles) => {
    expect(read(text).map(({ style }) => style)).toEqual(styles)
  })

  it.each([
    ['\u001b]0;title\u0007shown', 'shown'],
    ['\u001b]8;;https://example.com\u001b\\link\u001b]8;;\u001b\\', 'link'],
    ['a\u001b[2J\u001b[10;5Hb\u001b[?25l', 'ab'],
    ['a\r\nb\u0000\u0007', 'a\nb\u2400\u2407'],
    ['a\u202eb\u009bc', 'a\ufffdb\ufffdc'],
    ['\u001b', ''],
    [`\u001b]${'x'.repeat(400)}`, `\u241b]${'x'.repeat(400)}`],
  ])('%j shows %j', (text, shown) => {
    expect(textOf(read(text))).toBe(shown)
  })

  it('is the same in whatever pieces it comes', () => {
    const unit = fc.constantFrom(
      '\u001b[31m',
      '\u001b[0m',
      '\u001b]0;t\u0007',
      '\r\n',
      'text',
      '\u001b[1;3',
      '2m',
      '\u001b',
      'é',
    )
    fc.assert(
      fc.property(fc.array(unit), fc.array(fc.nat(60)), (units, cuts) => {
        const text = `${units.join('')}.`
        const ends = [...new Set(cuts.map(cut => cut % text.length))].sort((a, b) => a - b)
        const pieces = [...ends, text.length].map((end, n) => text.slice(ends[n - 1] ?? 0, end))
        expect(textOf(read(...pieces))).toBe(textOf(read(text)))
      }),
    )
  })
})
