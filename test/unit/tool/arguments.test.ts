import { describe, expect, test } from 'vitest'
import { argumentParser } from '../../../src/tool/arguments.js'
import { pythonArgumentParser, pythonParameters } from '../../../src/tool/python-arguments.js'

const MIB = 1024 * 1024
const parse = pythonArgumentParser(pythonParameters({ wallMs: 60_000, wallMaxMs: 540_000 }), MIB)
const ok = (code: string, timeout_seconds: number | null = null) => ({ ok: true, args: { code, timeout_seconds } })
const json = JSON.stringify
const x = { code: 'x' }

describe('python_execute understands', () => {
  test.each([
    ['right arguments', json({ code: 'x', timeout_seconds: 5 }), ok('x', 5)],
    ['null for the default time', json({ code: 'x', timeout_seconds: null }), ok('x')],
    ['a nullable parameter left out', json(x), ok('x')],
    ['a whole number as a string', json({ ...x, timeout_seconds: '30' }), ok('x', 30)],
    ['a whole number as a string with blanks', json({ ...x, timeout_seconds: ' +30 ' }), ok('x', 30)],
    ['a whole number with a point', '{"code":"x","timeout_seconds":30.0}', ok('x', 30)],
    ['a whole number with a point as a string', json({ ...x, timeout_seconds: '30.0' }), ok('x', 30)],
    ['an empty string for a nullable number', json({ ...x, timeout_seconds: '' }), ok('x')],
    ['null as a string for a nullable number', json({ ...x, timeout_seconds: 'null' }), ok('x')],
    ['a very large number', json({ ...x, timeout_seconds: 1e12 }), ok('x', 1e12)],
    ['arguments as a JSON string', json(json(x)), ok('x')],
    ['args one level too low', json({ args: { ...x, timeout_seconds: 3 } }), ok('x', 3)],
    ['args as a string holding JSON', json({ args: json(x) }), ok('x')],
    ['arguments as a string holding JSON', json({ arguments: json({ ...x, timeout_seconds: '7' }) }), ok('x', 7)],
    ['the tool name as a level', json({ python_execute: x }), ok('x')],
    ['a whole function call', json({ name: 'python_execute', arguments: x }), ok('x')],
    ['args with a sibling one level too high', json({ args: x, timeout_seconds: 4 }), ok('x', 4)],
    ['args with the same value twice', json({ args: x, code: 'x' }), ok('x')],
    ['args with null beside it', json({ args: { ...x, timeout_seconds: 4 }, timeout_seconds: null }), ok('x', 4)],
    ['null args beside real ones', json({ args: null, code: 'x' }), ok('x')],
    ['empty args beside real ones', json({ args: {}, code: 'x' }), ok('x')],
    ['code one level too low', json({ code: { code: 'x', timeout_seconds: 9 } }), ok('x', 9)],
    ['code one level too low beside null', json({ code: x, timeout_seconds: null }), ok('x')],
    ['unknown parameters that hold nothing', json({ ...x, a: null, b: '', c: [], d: {} }), ok('x')],
    ['raw line feeds', '{"code": "a\nb", "timeout_seconds": null}', ok('a\nb')],
    ['a fence around the JSON', `\`\`\`json\n${json(x)}\n\`\`\``, ok('x')],
    ['a fence around the code', json({ code: '```python\nx\n```' }), ok('x\n')],
    ['a byte order mark before the code', json({ code: '\ufeffx' }), ok('x')],
    ['code that looks like JSON', json({ code: '{"code": "x"}' }), ok('{"code": "x"}')],
    ['a name of every object', '{"code":"x","__proto__":null,"constructor":null}', ok('x')],
    ['emoji', json({ code: 'print("😀")' }), ok('print("😀")')],
  ])('%s', (_what, text, parsed) => {
    expect(parse(text)).toEqual(parsed)
  })
})

describe('python_execute refuses', () => {
  test.each([
    ['nothing', '', /"code" is missing/],
    ['null for all', 'null', /"code" is missing/],
    ['an empty object', '{}', /"code" is missing/],
    ['only the time', '{"timeout_seconds":5}', /"code" is missing/],
    ['null code', '{"code":null}', /"code" must be a string, not null/],
    ['code instead of JSON', 'print(1)', /not valid JSON: "print\(1\)"/],
    ['cut JSON', '{"code":"pri', /end too early/],
    ['code as a JSON string', '"print(1)"', /must be a JSON object, not the string "print\(1\)"/],
    ['a string holding a string', json(json(json(x))), /must be a JSON object, not the string/],
    ['a list', json([x]), /must be a JSON object, not a list of 1/],
    ['a number', '5', /must be a JSON object, not 5/],
    ['a boolean', 'true', /must be a JSON object, not true/],
    ['a number as code', '{"code":5}', /"code" must be a string, not 5/],
    ['a list as code', '{"code":["a","b"]}', /"code" must be a string, not a list of 2/],
    ['an object as code', '{"code":{"x":1}}', /"code" must be a string, not an object with "x"/],
    [
      'words as time',
      json({ ...x, timeout_seconds: 'abc' }),
      /"timeout_seconds" must be a whole number or null, not the string "abc"/,
    ],
    [
      'a unit in the time',
      json({ ...x, timeout_seconds: '30s' }),
      /must be a whole number or null, not the string "30s"/,
    ],
    ['a fraction', json({ ...x, timeout_seconds: 1.5 }), /must be a whole number or null, not 1.5/],
    ['a boolean as time', json({ ...x, timeout_seconds: true }), /must be a whole number or null, not true/],
    ['an infinite time', '{"code":"x","timeout_seconds":1e999}', /must be a whole number or null, not Infinity/],
    ['zero seconds', json({ ...x, timeout_seconds: 0 }), /must be above 0.*not 0/],
    ['less than zero seconds', json({ ...x, timeout_seconds: '-5' }), /must be above 0.*not -5/],
    ['a near name', json({ ...x, timeout: 5 }), /unknown parameter "timeout" \(did you mean "timeout_seconds"\?\)/],
    ['a misspelt name', json({ cdoe: 'x' }), /unknown parameter "cdoe" \(did you mean "code"\?\)/],
    ['another case', json({ Code: 'x' }), /unknown parameter "Code" \(did you mean "code"\?\)/],
    ['the only candidate', json({ script: 'x' }), /unknown parameter "script" \(did you mean "code"\?\)/],
    ['code under a level name', json({ input: 'print(1)' }), /unknown parameter "input" \(did you mean "code"\?\)/],
    [
      'a name from nowhere',
      json({ ...x, language: 'python' }),
      /unknown parameter "language"; there are only "code", "timeout_seconds"/,
    ],
    ['several names', json({ ...x, a1: 1, b1: 2 }), /unknown parameters "a1", "b1"/],
    ['false in an unknown parameter', json({ ...x, verbose: false }), /unknown parameter "verbose"/],
    ['two levels that differ', json({ args: x, code: 'y' }), /"code" is given twice/],
    ['two levels too low', json({ args: { args: x } }), /unknown parameter "args"/],
    ['a prototype', '{"code":"x","__proto__":{"timeout_seconds":5}}', /unknown parameter "__proto__"/],
    ['code by prototype', '{"__proto__":{"code":"x"}}', /unknown parameter "__proto__"/],
    ['empty code', '{"code":""}', /"code" is empty/],
    ['blank code', '{"code":" \\n\\t"}', /"code" is empty: it holds nothing but blanks/],
    ['empty fences', json({ code: '```python\n```' }), /"code" is empty/],
    ['NUL', '{"code":"a\\nbc\\u0000"}', /NUL character \(U\+0000\) at line 2, column 3,.*write \\x00/],
    ['half a surrogate pair', '{"code":"a\\n\\n😀\\ud83d"}', /half a surrogate pair \(U\+D83D\) at line 3, column 3/],
    ['the other half', '{"code":"\\udc00"}', /half a surrogate pair \(U\+DC00\) at line 1, column 1/],
    ['raw half a surrogate pair', '{"code":"\ud83d"}', /half a surrogate pair \(U\+D83D\)/],
    ['too much', json({ code: 'é'.repeat(MIB / 2) }), /too large: 1048587 bytes, and at most 1048576 bytes/],
    ['a list bomb', '['.repeat(MIB), /more than 100 levels/],
    ['an object bomb in code', `{"code":${'{"code":'.repeat(100_000)}`, /more than 100 levels/],
  ])('%s, shows a right call and stays short', (_what, text, problem) => {
    const parsed = parse(text)
    expect(parsed).toEqual({ ok: false, message: expect.stringMatching(problem) })
    const message = parsed.ok ? '' : parsed.message
    expect(message).toContain('{"code": "print(1)", "timeout_seconds": null}')
    expect(message).toMatch(/^python_execute did not run: /)
    expect(message.isWellFormed() && !message.includes('\0')).toBe(true)
    expect(message.length).toBeLessThan(500)
  })

  test('says at most five of many unknown names', () => {
    const many = Object.fromEntries(Array.from({ length: 2000 }, (_, index) => [`name${index}`, 1]))
    expect(parse(json(many))).toEqual({ ok: false, message: expect.stringContaining('"name4" and 1995 more') })
  })

  test('takes exactly as many bytes as allowed', () => {
    const text = json({ code: '' })
    expect(parse(json({ code: 'x'.repeat(MIB - text.length) })).ok).toBe(true)
    expect(parse(json({ code: 'x'.repeat(MIB - text.length + 1) })).ok).toBe(false)
  })
})

describe('a tool with an object inside', () => {
  const parameters = {
    type: 'object',
    properties: {
      op: { type: 'string' },
      args: {
        type: 'object',
        properties: { path: { type: 'string' }, depth: { type: ['integer', 'null'] } },
        required: ['path', 'depth'],
        additionalProperties: false,
      },
      filter: {
        anyOf: [
          { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false },
          { type: 'null' },
        ],
      },
    },
    required: ['op', 'args', 'filter'],
    additionalProperties: false,
  }
  const parseFiles = argumentParser({ toolName: 'files', parameters, example: '{"op": "list"}', maxBytes: 10_000 })
  const right = { op: 'list', args: { path: '/', depth: null }, filter: null }

  test.each([
    ['as it should be', right],
    ['args as a string holding JSON', { ...right, args: json(right.args) }],
    ['a parameter one level too high', { op: 'list', path: '/' }],
    ['a parameter one level too high, null args', { op: 'list', args: null, path: '/' }],
    ['a parameter one level too high beside others', { op: 'list', args: { depth: null }, path: '/' }],
    ['all one level too low', { arguments: right }],
    ['left-out nullables inside', { op: 'list', args: { path: '/' } }],
  ])('is understood with %s', (_what, given) => {
    expect(parseFiles(json(given))).toEqual({ ok: true, args: right })
  })

  test.each([
    ['null for args that need something', { op: 'list', args: null }, /"args.path" is missing/],
    ['a wrong type inside', { op: 'list', args: { path: 5 } }, /"args.path" must be a string, not 5/],
    [
      'an unknown parameter inside',
      { op: 'list', args: { path: '/', dept: 1 } },
      /"args.dept" \(did you mean "args.depth"\?\)/,
    ],
    ['args that are no JSON', { op: 'list', args: 'root' }, /"args" must be an object, not the string "root"/],
    ['a parameter on two levels', { op: 'list', args: { path: '/' }, path: '/x' }, /"path" is given twice/],
  ])('refuses %s', (_what, given, problem) => {
    expect(parseFiles(json(given))).toEqual({ ok: false, message: expect.stringMatching(problem) })
  })
})

test('a megabyte of garbage of any kind is answered at once', () => {
  const size = MIB - 100
  const garbage = [
    'x'.repeat(size),
    '['.repeat(size),
    '"'.repeat(size),
    `"${'\\'.repeat(size)}`,
    `{"code":"${'\n'.repeat(size)}`,
    `\`\`\`json\n${'\n'.repeat(size)}\n\`\`\``,
    `~~~${' '.repeat(size)}x`,
    `{${Array.from({ length: 90_000 }, (_, index) => `"${index}":1`).join()}}`,
    json({ code: `\`\`\`python\n${'```a\n'.repeat(size / 7)}\`\`\`` }),
    json({ code: ' '.repeat(size) }),
    json({ ...x, timeout_seconds: `${'0'.repeat(size)}x` }),
  ]
  for (const text of garbage) {
    // The best of three, and wide: what must not be is time that grows faster than the text.
    const times = [1, 2, 3].map(() => {
      const startedMs = performance.now()
      parse(text)
      return performance.now() - startedMs
    })
    expect(Math.min(...times), text.slice(0, 20)).toBeLessThan(1_000)
  }
})
