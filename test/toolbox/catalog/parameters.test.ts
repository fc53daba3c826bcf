import { describe, expect, it } from 'vitest'
import { bindArguments } from '../../../src/toolbox/parameters.js'
import type { Json, ParameterSchema } from '../../../src/toolbox/tool-entry.js'
import { entryOf, withParameters } from './support/entries.js'

const CALLED = { category: 'web', tool: 'find' }

function bind(parameters: ParameterSchema, named: Record<string, Json>, positional: readonly Json[] = []) {
  return bindArguments(entryOf('find', { parameters }), CALLED, positional, named)
}

function problem(parameters: ParameterSchema, named: Record<string, Json>, positional: readonly Json[] = []): string {
  const bound = bind(parameters, named, positional)
  if (!('problem' in bound)) throw new Error(`bound: ${JSON.stringify(bound)}`)
  return bound.problem
}

const SEARCH = withParameters(
  {
    query: { type: 'string' },
    limit: { type: 'integer', default: 5, maximum: 100 },
    'max-age': { type: 'number' },
    from: { type: 'string' },
    mode: { enum: ['fast', 'slow'] },
    options: {
      type: 'object',
      properties: { tags: { type: 'array', items: { type: 'string' } }, 'a/b': { type: 'integer' } },
      additionalProperties: false,
    },
  },
  ['query'],
)

describe('arguments of a call', () => {
  it('come by position in the order of the schema, by alias and by exact name', () => {
    expect(bind(SEARCH, { max_age: 1.5, from: 'a' }, ['q', 3])).toEqual({
      args: { query: 'q', limit: 3, 'max-age': 1.5, from: 'a' },
    })
    expect(bind(SEARCH, { query: 'q', 'max-age': 2, from_: 'b' })).toEqual({
      args: { query: 'q', 'max-age': 2, from: 'b' },
    })
  })

  it('by an exact name go to the parameter of that name, also where it is the alias of another', () => {
    const parameters = withParameters({ class: { type: 'string' }, class_: { type: 'integer' } })
    expect(bind(parameters, { class_: 1, class: 'x' })).toEqual({ args: { class_: 1, class: 'x' } })
  })

  it('that are not known are told with what was meant, what there is and the signature', () => {
    const text = problem(SEARCH, { query: 'q', limt: 3 })
    expect(text).toContain('tools.web.find: there is no parameter "limt"; did you mean limit?')
    expect(text).toContain('There are: query, limit, max_age, from_, mode, options')
    expect(text).toContain('Signature: tools.web.find(query: str, limit: int = 5, max_age: float | None = None')
  })

  it('that are all in one dict by position are told how to be given', () => {
    const how = 'one dict is given by position: give what is in it by name, as **{…}'
    expect(problem(SEARCH, {}, [{ query: 'a', limit: 3 }])).toContain(how)
    expect(problem(withParameters({ a: {}, b: {} }, ['a', 'b']), {}, [{ a: 1, b: 2 }])).toContain(
      `b must be given; ${how}`,
    )
    expect(problem(SEARCH, {}, [{ other: 1 }])).not.toContain(how)
  })

  it('that are missing, given twice or too many are told by name', () => {
    expect(problem(SEARCH, {})).toContain('query must be given')
    expect(problem(SEARCH, { query: 'a' }, ['b'])).toContain('query is given twice')
    expect(problem(SEARCH, { query: 'a', from: 'x', from_: 'y' })).toContain('from_ is given twice')
    expect(problem(SEARCH, {}, [1, 2, 3, 4, 5, 6, 7])).toContain('it takes 6 arguments, and 7 are given by position')
  })

  it.each<[Record<string, Json>, string]>([
    [{ query: 5 }, 'query must be str, not int 5'],
    [{ query: 'q', limit: '5' }, 'limit must be int, not str "5"'],
    [{ query: 'q', limit: 2.5 }, 'limit must be int, not float 2.5'],
    [{ query: 'q', limit: 500 }, 'limit must be <= 100; it is int 500'],
    [{ query: 'q', limit: true }, 'limit must be int, not bool True'],
    [{ query: 'q', mode: 'quick' }, 'mode must be one of "fast", "slow", not str "quick"'],
    [{ query: 'q', options: { tags: ['a', 2] } }, 'options.tags[1] must be str, not int 2'],
    [{ query: 'q', options: { 'a/b': 'x' } }, 'options["a/b"] must be int, not str "x"'],
    [{ query: 'q', options: { tag: [] } }, 'options takes no key "tag"; did you mean tags?'],
    [{ query: 'q', from_: ['x'] }, 'from_ must be str, not list of 1'],
    [{ query: null }, 'query must be str, not None'],
    [{ query: 'q', limit: null }, 'limit must be int, not None'],
  ])('that do not fit are told in the words of Python: %j', (named, words) => {
    expect(problem(SEARCH, named)).toContain(words)
  })

  it('that are whole numbers may be written 3.0; nothing else is converted', () => {
    expect(bind(SEARCH, { query: 'q', limit: JSON.parse('3.0') as Json })).toEqual({ args: { query: 'q', limit: 3 } })
  })

  it('that are None, where None is the default of the stub, are not sent', () => {
    expect(bind(SEARCH, { query: 'q', options: null, max_age: null })).toEqual({ args: { query: 'q' } })
    const parameters = withParameters({
      a: { type: ['string', 'null'] },
      b: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      c: {},
    })
    expect(bind(parameters, { a: null, b: null, c: null })).toEqual({ args: { a: null, b: null, c: null } })
  })

  it('of a schema that lists none, or lets others through, are taken as they are', () => {
    expect(bind({}, { anything: 1 })).toEqual({ args: { anything: 1 } })
    expect(bind({ ...SEARCH, additionalProperties: true }, { query: 'q', more: 1 })).toEqual({
      args: { query: 'q', more: 1 },
    })
    expect(problem({ type: 'object', properties: {} }, { x: 1 })).toContain('there is no parameter "x"; it takes none')
  })

  it('may be called as members of every object are', () => {
    const parameters = JSON.parse(
      '{"properties":{"__proto__":{"type":"string"},"toString":{"type":"string"}},"required":["toString"]}',
    )
    const bound = bind(parameters, JSON.parse('{"__proto__":"x","toString":"y"}'))
    expect('args' in bound && Object.entries(bound.args)).toEqual([
      ['__proto__', 'x'],
      ['toString', 'y'],
    ])
    expect(problem(parameters, {})).toContain('toString must be given')
  })
})

describe('a schema', () => {
  it('may be of draft 7 or of 2020-12, with tuples as each has them', () => {
    const tuple = [{ type: 'integer' }, { type: 'string' }]
    const old = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      ...withParameters({ p: { type: 'array', items: tuple } }),
    }
    const now = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      ...withParameters({ p: { type: 'array', prefixItems: tuple, items: false } }),
    }
    for (const parameters of [old, now]) {
      expect(bind(parameters, { p: [1, 'a'] })).toEqual({ args: { p: [1, 'a'] } })
      expect(problem(parameters, { p: [1, 2] })).toContain('p[1] must be str, not int 2')
    }
  })

  it('with alternatives tells of the one that went furthest', () => {
    const parameters = withParameters({
      p: {
        anyOf: [
          { type: 'integer' },
          { type: 'array', items: { type: 'object', properties: { a: { type: 'string' } } } },
        ],
      },
    })
    expect(problem(parameters, { p: 'x' })).toContain('p must be int or list, not str "x"')
    expect(problem(parameters, { p: [{ a: 1 }] })).toContain('p[0].a must be str, not int 1')
  })

  it.each<[string, Record<string, unknown>]>([
    ['refers to what is not there', { p: { $ref: '#/nowhere' } }],
    ['has a type that there is not', { p: { type: 'date' } }],
    ['has a pattern that is none', { p: { type: 'string', pattern: '(' } }],
  ])('that %s checks nothing', (_, properties) => {
    expect(bind(withParameters(properties), { p: 1 })).toEqual({ args: { p: 1 } })
  })

  it('may have patterns that are right only without the u flag', () => {
    const parameters = withParameters({ p: { type: 'string', pattern: '^[\\w-.]+$' } })
    expect(bind(parameters, { p: 'a-b' })).toEqual({ args: { p: 'a-b' } })
    expect(problem(parameters, { p: '!' })).toContain('p must match pattern')
  })

  it('may refer to itself and to its parts', () => {
    const tree = {
      properties: { value: { type: 'integer' }, children: { type: 'array', items: { $ref: '#/$defs/tree' } } },
    }
    const parameters = { ...withParameters({ root: { $ref: '#/$defs/tree' }, again: { $ref: '#' } }), $defs: { tree } }
    expect(problem(parameters, { root: { children: [{ value: 1 }, { value: 'x' }] } })).toContain(
      'root.children[1].value must be int, not str "x"',
    )
    expect(problem(parameters, { again: { again: { root: { value: 'x' } } } })).toContain(
      'again.again.root.value must be int',
    )
  })

  it('may have the $id of another tool, and say that it is asynchronous', () => {
    for (const type of ['string', 'integer']) {
      const parameters = { $id: 'https://example.org/same', $async: true, ...withParameters({ p: { type } }) }
      expect(problem(parameters, { p: [] })).toContain(`p must be ${type === 'string' ? 'str' : 'int'}`)
    }
  })

  it('that wants items to be different checks many of them in little time', () => {
    const parameters = withParameters({ p: { type: 'array', uniqueItems: true } })
    const many = Array.from({ length: 30_000 }, (_, n) => ({ n, a: [] }))
    expect(bind(parameters, { p: many })).toEqual({ args: { p: many } })
    expect(
      problem(parameters, {
        p: [
          { a: 1, b: 2 },
          { a: 1, b: 2 },
        ],
      }),
    ).toContain('p must NOT have duplicate items')
  })

  const alternatives = {
    anyOf: [{ properties: { a: { $ref: '#' } } }, { properties: { a: { $ref: '#' } }, minProperties: 1 }],
    properties: { end: { type: 'string' } },
  }
  const deep = Array.from({ length: 60 }).reduce<Json>(inner => ({ a: inner }), { end: 1 })

  it.each<[string, ParameterSchema, Record<string, Json>]>([
    ['a pattern', withParameters({ p: { type: 'string', pattern: '^(a+)+$' } }), { p: `${'a'.repeat(50)}!` }],
    ['alternatives in each other', { ...alternatives, additionalProperties: true }, { a: deep }],
  ])('that takes long for %s does not hold the worker for long', (_, parameters, named) => {
    const startMs = performance.now()
    expect(problem(parameters, named)).toContain('take too long to check')
    expect(performance.now() - startMs).toBeLessThan(5_000)
  })
})
