import { describe, expect, it } from 'vitest'
import { MASK, Redactor } from '../../../src/telemetry/redactor.js'

const KEY = 'fx-0123456789abcdef'
/** Secrets that contain, overlap and repeat one another, of characters of all widths. */
const TANGLED = [
  'ABCDEFGHIJKL',
  'GHIJKLMNOPQRST',
  'ABCDEFGHIJKLMN-and-more',
  'xyxyxyxyxyxy',
  'pässwörd-€-😀-😀',
  'line one\nline two',
]

function streamed(redactor: Redactor, pieces: readonly string[]): string {
  const stream = redactor.matcher.stream()
  return pieces.map(piece => stream.push(piece)).join('') + stream.end()
}

describe('a redactor', () => {
  it('masks each secret wherever it stands, and touches nothing else', () => {
    const redactor = new Redactor([KEY, 'another-secret'])
    expect(redactor.mask(`a ${KEY}${KEY} b another-secret`)).toBe(`a ${MASK}${MASK} b ${MASK}`)
    expect(redactor.mask(`a ${KEY.slice(1)} b another-secre`)).toBe(`a ${KEY.slice(1)} b another-secre`)
  })

  it('never masks values of less than 12 characters', () => {
    expect(new Redactor(['short', '', 'elevenchars']).mask('short elevenchars')).toBe('short elevenchars')
  })

  it('masks the longest of secrets that contain one another, and all of those that overlap', () => {
    const redactor = new Redactor(TANGLED)
    expect(redactor.mask('ABCDEFGHIJKLMN-and-more.')).toBe(`${MASK}.`)
    expect(redactor.mask('ABCDEFGHIJKLMNOPQRST.')).toBe(`${MASK}.`)
    expect(redactor.mask('xyxyxyxyxyxyxyx.')).toBe(`${MASK}x.`)
  })

  it('masks what JSON makes of a secret, also in ASCII', () => {
    const secret = 'say "friend" € and enter'
    const redactor = new Redactor([secret])
    expect(redactor.mask(JSON.stringify({ secret }))).toBe(`{"secret":"${MASK}"}`)
    expect(redactor.mask('"say \\"friend\\" \\u20ac and enter"')).toBe(`"${MASK}"`)
  })

  it('shows nothing more of a text that holds one secret more than 20 000 times, and keeps no list of the rest', () => {
    const secret = 'sesame-open-4711'
    const redactor = new Redactor([secret, 'aaaaaaaaaaaa'])
    const often = `${`${secret} `.repeat(20_000)}between${secret.repeat(700_000)}end`
    expect(redactor.mask(often)).toBe(`${`${MASK} `.repeat(20_000)}between${MASK}`)
    expect(redactor.matcher.byteSpans(Buffer.from(often)).length).toBe(20_001)
    expect(redactor.mask(`<${'a'.repeat(1_000_000)}>`)).toBe(`<${MASK}`)
    expect(redactor.mask(`${secret} `.repeat(20_000))).toBe(`${MASK} `.repeat(20_000))
  })

  it('learns renewed secrets and keeps the last ones, without forgetting those of other names', () => {
    const redactor = new Redactor([KEY])
    for (let n = 0; n < 20; n++) redactor.know('ticket', `renewed-ticket-${n}-`)
    expect(redactor.mask(`renewed-ticket-19- ${KEY}`)).toBe(`${MASK} ${MASK}`)
    expect(redactor.mask('renewed-ticket-12-')).toBe(MASK)
    expect(redactor.mask('renewed-ticket-0-')).toBe('renewed-ticket-0-')
  })
})

describe('a masked stream', () => {
  const redactor = new Redactor([...TANGLED, KEY])
  const text = [
    'before ABCDEFGHIJKLMNOPQRST between ABCDEFGHIJKLMN-and-mo ABCDEFGHIJKLMN-and-more xyxyxyxyxyxyxyxyx',
    ` pässwörd-€-😀-😀 ${KEY}${KEY} fx-0123 line one\nline two line one\nABCDEFABCDEFGHIJKLGHIJKLMNOPQRSGHIJKLMNOPQRST`,
    ' the end fx-',
  ].join('')

  it('gives the text as it is masked in one piece, wherever it is cut', () => {
    const whole = redactor.mask(text)
    for (const secret of [...TANGLED, KEY]) expect(whole).not.toContain(secret)
    for (let cut = 0; cut <= text.length; cut++) {
      expect(streamed(redactor, [text.slice(0, cut), text.slice(cut)]), `cut at ${cut}`).toBe(whole)
    }
    for (let size = 1; size < 40; size++) {
      const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, n) =>
        text.slice(n * size, (n + 1) * size),
      )
      expect(streamed(redactor, pieces), `pieces of ${size}`).toBe(whole)
    }
  })

  it('holds back only what may be the beginning of a secret', () => {
    const stream = redactor.matcher.stream()
    expect(stream.push('hello\n')).toBe('hello\n')
    expect(stream.push('the key is fx-0123')).toBe('the key is ')
    expect(stream.push('4 or so')).toBe('fx-01234 or so')
    expect(stream.push('fx-')).toBe('')
    expect(stream.end()).toBe('fx-')
  })

  it('gives out random texts of the letters of secrets as if they came in one piece', () => {
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648
      return Math.floor((seed / 2147483648) * below)
    }
    const few = new Redactor(['abababababab', 'babababababb', 'aabbaabbaabbaabb', 'ababababababababa'])
    for (let round = 0; round < 3_000; round++) {
      const pieces = Array.from({ length: 12 }, () =>
        Array.from({ length: random(9) }, () => 'ab'[random(8) < 4 ? 0 : 1]).join(''),
      )
      const repeated = Array.from(
        { length: 6 },
        () => ['abab', 'ababababababab', 'aabbaabb', 'b', 'a', ''][random(6)] ?? '',
      )
      for (const all of [pieces, repeated]) {
        const said = JSON.stringify(all)
        expect(streamed(few, all), said).toBe(few.mask(all.join('')))
      }
    }
  })
})
