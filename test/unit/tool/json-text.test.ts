import { describe, expect, test } from 'vitest'
import { readJsonText } from '../../../src/tool/json-text.js'

test.each([
  ['plain JSON', '{"a": [1, null, "x"]}', { a: [1, null, 'x'] }],
  ['a byte order mark and blanks', '\ufeff\r\n {"a":1}\t\n', { a: 1 }],
  ['a json fence', '```json\n{"a":1}\n```', { a: 1 }],
  ['a fence without a language', '```\n{"a":1}\n```\n', { a: 1 }],
  ['raw line feeds in a string', '{"a":"x\ny\n"}', { a: 'x\ny\n' }],
  ['raw tabs and carriage returns in a string', '{"a":"\tx\r\ny"}', { a: '\tx\r\ny' }],
  ['raw breaks in a name', '{"a\nb":1}', { 'a\nb': 1 }],
  ['raw breaks beside escapes', '{\n\t"a": "\\"\n\\\\\n\\n"\n}', { a: '"\n\\\n\n' }],
  ['raw breaks beside half a surrogate pair', '{"a":"\ud800\n"}', { a: '\ud800\n' }],
  ['escaped half surrogate pairs', '{"a":"\\ud800"}', { a: '\ud800' }],
  ['a hundred levels', `${'['.repeat(100)}${']'.repeat(100)}`, JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`)],
  ['brackets in strings', `{"a":"${'['.repeat(5000)}"}`, { a: '['.repeat(5000) }],
  ['colons in strings', `{"a":"${':'.repeat(50_000)}"}`, { a: ':'.repeat(50_000) }],
])('reads %s', (_what, text, value) => {
  expect(readJsonText(text)).toEqual({ ok: true, value })
})

test.each([
  ['code', 'print(1)', /"print\(1\)"/],
  ['single quotes', "{'code': 'x'}", /Expected property name.*"\{'code': 'x'\}"/],
  ['unescaped quotes', '{"code": "print("hi")"}', /Expected ',' or '\}'.*hi/],
  ['a comma at the end', '{"a":1,}', /double-quoted property name/],
  ['words after the JSON', '{"a":1} done', /at ".*done"/],
  ['a cut object', '{"a": 1', /not valid JSON/],
  ['a cut string', '{"a": "abc', /end too early, at "\{\\"a\\": \\"abc"/],
  ['a raw break after a backslash', '{"a":"x\\\ny"}', /Bad escaped character/],
  ['another raw control character', '{"a":"\u0001"}', /Bad control character/],
  ['a raw NUL', '{"a":"\0"}', /Bad control character/],
  ['an unknown escape', '{"a":"\\q"}', /Bad escaped character/],
  ['an empty fence', '```json\n```', /are empty/],
  ['a bomb of lists', '['.repeat(100_000), /more than 100 levels/],
  ['a bomb of objects', '{"a":'.repeat(100_000), /more than 100 levels/],
  ['very many names', `{${Array.from({ length: 10_001 }, (_, i) => `"a${i}":1`).join()}}`, /more than 10000 names/],
])('refuses %s with a short problem', (_what, text, problem) => {
  const read = readJsonText(text)
  expect(read).toEqual({ ok: false, problem: expect.stringMatching(problem) })
  expect(read.ok ? 0 : read.problem.length).toBeLessThan(250)
})

describe('as a property', () => {
  test('whatever JSON.stringify writes is read unchanged, raw breaks put in or not', () => {
    let seed = 1
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    const alphabet = ['\n', '\r', '\t', '"', '\\', '\\\\', '{', ':', "'", '`', 'é', '😀', ' ', 'n', '\ud83d']
    for (let round = 0; round < 500; round += 1) {
      const value = { code: Array.from({ length: random(30) }, () => alphabet[random(alphabet.length)]).join('') }
      const text = JSON.stringify(value)
      expect(readJsonText(text)).toEqual({ ok: true, value })
      // The same with its line feeds raw, where the escape is one: an even number of backslashes before it.
      const raw = text.replace(/\\(.)/g, (whole, character) => (character === 'n' ? '\n' : whole))
      expect(readJsonText(raw)).toEqual({ ok: true, value })
    }
  })
})
