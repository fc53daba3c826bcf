import { describe, expect, it } from 'vitest'
import { ExactNumber, exactJson, parseExactly } from '../../src/exact-json.js'

const LARGE = ['9007199254740993', '-9223372036854775808', '1e400', '-1E+309', '9223372036854775808.0', '12345678901e9']

describe('JSON with numbers beyond those of JavaScript', () => {
  it.each(LARGE)('is read and written as it is: %s', number => {
    for (const json of [number, `[${number}]`, `{"a":{"__proto__":[[${number},"${number}"]]},"b":${number}}`]) {
      expect(exactJson(parseExactly(json))).toBe(json)
    }
    expect(parseExactly(` [ ${number}\n, 1 ] `)).toEqual([new ExactNumber(number), 1])
  })

  it.each([
    '[9007199254740991,0.1234567890123456789,1e15]',
    '{"12345678901234567":"1e400","\\\\\\"":"[1234567890123456789]"}',
  ])('and without is read as ever: %s', json => {
    expect(parseExactly(json)).toEqual(JSON.parse(json))
  })

  it.each([
    '{9007199254740993:1}',
    '[9007199254740993"a"]',
    '["a"9007199254740993]',
    '[09007199254740993]',
    '[9007199254740993x]',
    '[9007199254740993 9007199254740993]',
    '[9007199254740993.]',
    '"9007199254740993',
    '9007199254740993,',
  ])('that is none stays none: %s', text => {
    expect(() => parseExactly(text)).toThrow(SyntaxError)
  })

  it('has the nearest numbers where it is written without regard for them', () => {
    expect(JSON.stringify(parseExactly('[9007199254740993,1e400]'))).toBe('[9007199254740992,null]')
  })

  it('is read whatever its depth', () => {
    const json = `${'['.repeat(300_000)}9007199254740993${']'.repeat(300_000)}`
    expect(Array.isArray(parseExactly(json))).toBe(true)
  })
})
