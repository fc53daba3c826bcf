import { describe, expect, test } from 'vitest'
import { pythonParameters } from '../../../src/tool/python-arguments.js'
import { assertStrict, checkStrict, openaiDefinition, withOrder } from '../../../src/tool/strict-schema.js'

const strict = (properties: Record<string, unknown>) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
})
const text = { type: 'string' }
const loose = { type: 'object', properties: { a: text, b: text }, required: ['b'], additionalProperties: false }
const open = { type: 'object', properties: { a: text }, required: ['a'] }

describe('checkStrict', () => {
  test('has nothing to say of a strict schema', () => {
    const schema = strict({
      args: { anyOf: [strict({ a: text }), { type: 'null' }] },
      list: { type: 'array', items: strict({}) },
    })
    expect(checkStrict(schema)).toEqual([])
  })

  test.each([
    ['at the top', loose, 'parameters'],
    ['in a property', strict({ args: loose }), 'parameters.args'],
    ['in a property of a property', strict({ args: strict({ deep: loose }) }), 'parameters.args.deep'],
    ['in a branch of anyOf', strict({ args: { anyOf: [{ type: 'null' }, loose] } }), 'parameters.args.anyOf[1]'],
    ['in a branch at the top', { anyOf: [loose] }, 'parameters.anyOf[0]'],
    ['in items', strict({ list: { type: 'array', items: loose } }), 'parameters.list[]'],
    ['in items of items', strict({ list: { items: { items: loose } } }), 'parameters.list[][]'],
    ['in anyOf of items', strict({ list: { items: { anyOf: [text, loose] } } }), 'parameters.list[].anyOf[1]'],
    ['in a property of items', strict({ list: { items: strict({ x: loose }) } }), 'parameters.list[].x'],
    ['beside properties, in anyOf', { ...strict({ a: text }), anyOf: [loose] }, 'parameters.anyOf[0]'],
    ['under a list of types', strict({ args: { ...loose, type: ['object', 'null'] } }), 'parameters.args'],
    ['without a type', strict({ args: { ...loose, type: undefined } }), 'parameters.args'],
  ])('names the path and the missing names %s', (_where, schema, path) => {
    expect(checkStrict(schema)).toEqual([{ path, problem: 'required must list a', missing: ['a'] }])
  })

  test.each([
    ['absent', open],
    ['true', { ...open, additionalProperties: true }],
    ['a schema', { ...open, additionalProperties: {} }],
  ])('refuses additionalProperties that is %s', (_what, schema) => {
    expect(checkStrict(strict({ x: schema }))).toEqual([
      { path: 'parameters.x', problem: 'additionalProperties must be false', missing: [] },
    ])
  })

  test('reports all faults of all depths at once', () => {
    const faults = checkStrict({ type: 'object', properties: { a: loose, c: { items: open } } })
    expect(faults.map(fault => `${fault.path} ${fault.missing}`)).toEqual([
      'parameters ',
      'parameters a,c',
      'parameters.a a',
      'parameters.c[] ',
    ])
  })

  test('takes a property that is named like a keyword for a property', () => {
    expect(checkStrict(strict({ properties: text, items: text, anyOf: text }))).toEqual([])
  })
})

describe('assertStrict', () => {
  test('throws with the tool, every path and every missing name', () => {
    const tool = { name: 'search', description: '', parameters: strict({ args: loose }) }
    expect(() => assertStrict(tool)).toThrow(/"search".*\n {2}parameters\.args: required must list a/)
  })

  test('lets python_execute pass', () => {
    const parameters = pythonParameters({ wallMs: 60_000, wallMaxMs: 540_000 })
    expect(() => assertStrict({ name: 'python_execute', description: '', parameters })).not.toThrow()
  })
})

describe('withOrder', () => {
  test('numbers the properties of every depth among their siblings from 0', () => {
    const schema = strict({
      a: text,
      b: strict({ c: text, d: { type: 'array', items: strict({ e: text, f: text }) } }),
      g: { anyOf: [strict({ h: text, i: text }), { type: 'null' }] },
    })
    expect(withOrder(schema)).toEqual(
      strict({
        a: { ...text, order: 0 },
        b: {
          ...strict({
            c: { ...text, order: 0 },
            d: { type: 'array', items: strict({ e: { ...text, order: 0 }, f: { ...text, order: 1 } }), order: 1 },
          }),
          order: 1,
        },
        g: { anyOf: [strict({ h: { ...text, order: 0 }, i: { ...text, order: 1 } }), { type: 'null' }], order: 2 },
      }),
    )
  })

  test('leaves an order that is there', () => {
    expect(withOrder(strict({ a: { ...text, order: 7 }, b: text }))).toEqual(
      strict({ a: { ...text, order: 7 }, b: { ...text, order: 1 } }),
    )
  })

  test('orders a property that is itself named order', () => {
    expect(withOrder(strict({ order: text }))).toEqual(strict({ order: { ...text, order: 0 } }))
  })

  test('does not change its input', () => {
    const schema = strict({ a: strict({ b: text }), c: { items: strict({ d: text }) } })
    const before = structuredClone(schema)
    withOrder(schema)
    expect(schema).toEqual(before)
  })
})

test('openaiDefinition wraps a tool as a strict function', () => {
  const tool = { name: 'search', description: 'Searches.', parameters: strict({ a: text }) }
  expect(openaiDefinition(tool)).toEqual({ type: 'function', function: tool, strict: true })
})
