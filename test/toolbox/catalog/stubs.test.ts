import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { pythonName } from '../../../src/toolbox/names.js'
import { literal } from '../../../src/toolbox/python-text.js'
import { parametersOf } from '../../../src/toolbox/schema-shape.js'
import { signatureOf, stubOf, summaryOf } from '../../../src/toolbox/stubs.js'
import type { Json, ParameterSchema, ToolEntry } from '../../../src/toolbox/tool-entry.js'
import { entryOf, withParameters } from './support/entries.js'

interface Looked {
  readonly error?: string
  readonly parameters: readonly {
    readonly name: string
    readonly kind: string
    readonly required: boolean
    readonly default: string
    readonly annotation: string
  }[]
  readonly returns: string
  readonly doc: string
}

const CHECK = fileURLToPath(new URL('./support/check_stubs.py', import.meta.url))

/** What a real Python makes of stubs, all of them in one process. */
async function looked(entries: readonly ToolEntry[]): Promise<readonly (Looked & { readonly stub: string })[]> {
  const cases = entries.map(entry => {
    const tool = pythonName(entry.name)
    return { name: tool, stub: stubOf(entry, { category: pythonName(entry.category), tool }, null) }
  })
  const python = process.env['SANDBOX_PYTHON'] ?? 'python3'
  const out = await new Promise<string>((resolve, reject) => {
    const child = execFile(python, ['-I', CHECK], { maxBuffer: 2 ** 28 }, (error, stdout) =>
      error === null ? resolve(stdout) : reject(error),
    )
    child.stdin?.end(JSON.stringify(cases))
  })
  const answers = JSON.parse(out) as Looked[]
  return answers.map((answer, n) => ({ ...answer, stub: cases[n]?.stub ?? '' }))
}

async function only(entry: ToolEntry): Promise<Looked & { readonly stub: string }> {
  const [answer] = await looked([entry])
  expect(answer?.error).toBeUndefined()
  if (answer === undefined) throw new Error('no answer')
  return answer
}

const awkward = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.constantFrom(
    'class',
    'from',
    '',
    '__init__',
    '2fa',
    'a-b',
    'None',
    '"""',
    '\\',
    "'''",
    '"',
    '\ud800',
    '\u2028',
    'ⅷ',
    '𝒳',
    'ﬁ',
  ),
)
const text = fc.oneof(
  awkward,
  fc.constantFrom('ends with "', 'ends with \\', '"""\\"""', 'a\r\nb\tc\u0000\u001b[0m', '\n\n  x'),
)
const json = fc.jsonValue({ maxDepth: 2 })

const { schema } = fc.letrec<{ schema: Record<string, unknown> | boolean; object: Record<string, unknown> }>(tie => ({
  schema: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.record(
      {
        type: fc.constantFrom('string', 'integer', 'number', 'boolean', 'null', 'array', 'object', 'nonsense'),
        description: text,
        default: json,
        nullable: fc.boolean(),
        minimum: fc.double(),
        pattern: text,
      },
      { requiredKeys: [] },
    ),
    fc.record({ enum: fc.array(json, { maxLength: 6 }), default: json }, { requiredKeys: ['enum'] }),
    fc.record({ const: json }),
    fc.record({ $ref: fc.constantFrom('#', '#/$defs/a', '#/$defs/b', '#/nowhere', 'https://example.org/x', '#/%E0') }),
    fc.record({ type: fc.array(fc.constantFrom('string', 'null', 'array', 'object'), { maxLength: 3 }) }),
    fc.record({ anyOf: fc.array(tie('schema'), { maxLength: 4 }) }),
    fc.record({ oneOf: fc.array(tie('schema'), { maxLength: 4 }), title: text }),
    fc.record({ allOf: fc.array(tie('schema'), { maxLength: 3 }) }),
    fc.record({ type: fc.constant('array'), items: tie('schema') }),
    fc.record({ prefixItems: fc.array(tie('schema'), { maxLength: 3 }), items: fc.constant(false) }),
    fc.record({ type: fc.constant('object'), additionalProperties: tie('schema') }),
    tie('object'),
    fc.boolean(),
  ),
  object: fc.record(
    {
      type: fc.constant('object'),
      properties: fc.dictionary(awkward, tie('schema'), { maxKeys: 5, noNullPrototype: true }),
      required: fc.array(awkward, { maxLength: 2 }),
      additionalProperties: fc.boolean(),
    },
    { requiredKeys: ['properties'] },
  ) as fc.Arbitrary<Record<string, unknown>>,
}))

const anyEntry = fc
  .record({
    name: awkward,
    category: awkward,
    description: text,
    parameters: fc.record({
      type: fc.constant('object'),
      properties: fc.dictionary(awkward, schema, { maxKeys: 6, noNullPrototype: true }),
      required: fc.array(awkward, { maxLength: 2 }),
      $defs: fc.record({ a: schema, b: schema }),
    }),
    returns: schema.filter(one => typeof one === 'object') as fc.Arbitrary<ParameterSchema>,
  })
  .map((one): ToolEntry => ({ ...one, consent: 'free' }))

it('are Python, and say what they were given, whatever quotes and backslashes a description ends with', async () => {
  const ends = ['"', '""', '"""', '""""', '\\"', '\\\\"', '"\\', '\\', '" ', '"""\n"""']
  const entries = ends.map(end => entryOf('odd', { description: `Says "x""" y${end}` }))
  const made = await looked(entries)
  expect(made.map(({ error }) => error)).toEqual(ends.map(() => undefined))
  expect(made.map(({ doc }) => doc.trim())).toEqual(entries.map(({ description }) => description.trim()))
})

it('makes valid Python of whatever schemas and texts come, with the parameters that the schema has', async () => {
  const entries = fc.sample(anyEntry, { numRuns: 1_500, seed: Number(process.env['FC_SEED'] ?? 7) })
  const answers = await looked(entries)
  for (const [n, entry] of entries.entries()) {
    const answer = answers[n]
    expect(answer?.error, `${answer?.stub}\n${JSON.stringify(entry)}`).toBeUndefined()
    const { list, open } = parametersOf(entry.parameters)
    const given = answer?.parameters.filter(({ kind }) => kind === 'KEYWORD_ONLY') ?? []
    expect(new Set(given.map(({ name }) => name))).toEqual(new Set(list.map(({ alias }) => alias)))
    for (const one of list) expect(given.find(({ name }) => name === one.alias)?.required).toBe(one.required)
    expect(answer?.parameters.some(({ kind }) => kind === 'VAR_KEYWORD')).toBe(open)
    const firstOptional = given.findIndex(({ required }) => !required)
    if (firstOptional >= 0) expect(given.slice(firstOptional).some(({ required }) => required)).toBe(false)
  }
}, 60_000)

it('writes types, defaults and required parameters as a reader of Python expects them', async () => {
  const answer = await only(
    entryOf('list-calendars', {
      category: 'google-calendar',
      description: 'Lists calendars.\n\nAll of them.',
      parameters: withParameters(
        {
          limit: { type: 'integer', default: 10, minimum: 1, maximum: 100, description: 'At most' },
          query: { type: 'string', description: 'Words' },
          mode: { enum: ['a', 'b'], default: 'a' },
          from: { type: ['string', 'null'] },
          options: {
            type: 'object',
            properties: { deep: { type: 'boolean' }, tags: { type: 'array', items: { type: 'string' } } },
            required: ['deep'],
          },
          pair: { type: 'array', prefixItems: [{ type: 'integer' }, { type: 'string' }], items: false },
          ids: { anyOf: [{ type: 'integer' }, { type: 'array', items: { type: 'integer' } }] },
        },
        ['query'],
      ),
      returns: withParameters({ 'x-total': { type: 'integer' }, names: { type: 'array', items: { type: 'string' } } }),
    }),
  )
  expect(
    answer.parameters.map(one => `${one.name}: ${one.annotation}${one.required ? '' : ` = ${one.default}`}`),
  ).toEqual([
    'query: str',
    'limit: int = 10',
    `mode: Literal['a', 'b'] = 'a'`,
    'from_: str | None = None',
    'options: ListCalendarsOptions | None = None',
    'pair: tuple[int, str] | None = None',
    'ids: int | list[int] | None = None',
  ])
  expect(answer.returns).toBe('ListCalendarsResult')
  expect(answer.stub).toContain(
    'class ListCalendarsOptions(TypedDict):\n    deep: bool\n    tags: NotRequired[list[str]]',
  )
  expect(answer.stub).toContain('ListCalendarsResult = TypedDict("ListCalendarsResult", {')
  expect(answer.doc).toContain('By exact names: tools.call("google-calendar", "list-calendars", {…})')
  expect(answer.doc).toContain('limit: At most (≥ 1, ≤ 100)')
  expect(answer.doc).toContain('exact name "from"')
  expect(summaryOf(answer.doc)).toBe('Lists calendars.')
})

it('follows references, merges allOf and ends where a schema holds itself', async () => {
  const answer = await only(
    entryOf('tree', {
      parameters: {
        type: 'object',
        properties: { root: { $ref: '#/$defs/Node' } },
        required: ['root'],
        $defs: {
          Node: {
            allOf: [
              { properties: { value: { type: 'number' } }, required: ['value'] },
              { properties: { children: { type: 'array', items: { $ref: '#/$defs/Node' } } } },
            ],
          },
        },
      },
    }),
  )
  expect(answer.parameters[0]?.annotation).toBe('Node')
  expect(answer.stub).toContain('    value: float\n    children: NotRequired[list[Node]]')
})

it.each<[string, Json]>([
  ['None', null],
  ['True', true],
  ['100000000000000000000000', 1e23],
  ['0.5', 0.5],
  ["'it\\'s \"\\\\ ☃'", 'it\'s "\\ ☃'],
  ["{'a': [1, None]}", { a: [1, null] }],
])('the default %s is the same in Python', async (written, value) => {
  const answer = await only(entryOf('t', { parameters: withParameters({ p: { default: value } }) }))
  const expected = value === 1e23 ? '99999999999999991611392' : written
  expect(answer.parameters[0]?.default).toBe(expected)
})

it('cuts descriptions of megabytes, and says so', async () => {
  const huge = '"""\\ '.repeat(400_000)
  const answer = await only(
    entryOf('t', { description: huge, parameters: withParameters({ p: { type: 'string', description: huge } }) }),
  )
  expect(answer.stub.length).toBeLessThan(100_000)
  expect(answer.doc).toContain('(cut: 1999999 characters)')
})

it('stays small where a schema is large', async () => {
  const properties = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`p${n}`, { type: 'string' }]))
  const wide = { type: 'object', properties }
  const bomb = Object.fromEntries(
    Array.from({ length: 30 }, (_, n) => [
      `d${n}`,
      { allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
    ]),
  )
  const shared = Object.fromEntries(
    Array.from({ length: 3_000 }, (_, n) => [`q${n}`, { type: 'object', allOf: [{ $ref: '#/$defs/wide' }] }]),
  )
  const answers = await looked([
    entryOf('shared', { parameters: { type: 'object', properties: shared, $defs: { wide } } }),
    entryOf('types', { parameters: withParameters({ p: { type: Array.from({ length: 50_000 }, () => 'object') } }) }),
    entryOf('wide', { parameters: wide }),
    entryOf('inner', { parameters: withParameters({ inner: wide }) }),
    entryOf('bomb', { parameters: { ...withParameters({ p: { $ref: '#/$defs/d0' } }), $defs: bomb } }),
  ])
  for (const answer of answers) {
    expect(answer.error).toBeUndefined()
    expect(answer.stub.length).toBeLessThan(250_000)
  }
})

it('takes names of builtins, of its own imports and of its own parameters for what they are', async () => {
  const answers = await looked([
    entryOf('list', { parameters: withParameters({ str: { type: 'string' }, kw: {}, list: { type: 'array' } }) }),
    entryOf('Any', { parameters: { ...withParameters({ kw: { type: 'string' } }), additionalProperties: true } }),
    entryOf('Literal', { parameters: withParameters({ any: { type: 'object', properties: { Any: {} } } }) }),
  ])
  expect(answers.map(({ error }) => error)).toEqual([undefined, undefined, undefined])
})

it('says in a signature of one line what a call takes', () => {
  const entry = entryOf('web_extract', {
    parameters: withParameters(
      { limit: { type: 'integer', default: 5 }, urls: { type: 'array', items: { type: 'string' } } },
      ['urls'],
    ),
  })
  expect(signatureOf(entry, { category: 'web', tool: 'web_extract' })).toBe(
    'tools.web.web_extract(urls: list[str], limit: int = 5)',
  )
})

it('writes each character of a string so that Python reads the same', () => {
  expect(literal('a"b\\c\u2028\u202e\n\u{e0001}')).toBe('"a\\"b\\\\c\\u2028\\u202e\\n\\U000e0001"')
})
