import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { aliasesOf, pythonName } from '../../../src/toolbox/names.js'

describe('a name of a source', () => {
  it.each([
    ['list-calendars', 'list_calendars'],
    ['class', 'class_'],
    ['from', 'from_'],
    ['None', 'None_'],
    ['2fa', '_2fa'],
    ['', 'unnamed'],
    ['---', 'unnamed'],
    ['🎉', 'unnamed'],
    ['__dunder__', 'dunder'],
    ['__class__', 'class_'],
    ['__private', '_private'],
    ['_own', '_own'],
    ['print', 'print'],
    ['match', 'match'],
    ['naïve café', 'naïve_café'],
    ['ﬁle', 'file'],
    ['日本語', '日本語'],
    ['a.b/c:d', 'a_b_c_d'],
    ['a\u0000b\nc', 'a_b_c'],
  ])('%j is %s in Python', (name, alias) => {
    expect(pythonName(name)).toBe(alias)
  })

  it('is its own alias once it is one', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), name => {
        const alias = pythonName(name)
        expect(pythonName(alias)).toBe(alias)
        expect(alias.normalize('NFKC')).toBe(alias)
      }),
    )
  })
})

describe('names of one place', () => {
  it('that come to the same alias get different ones, and it is told', () => {
    const { of, collisions } = aliasesOf(['a-b', 'a b', 'a_b_2'], 'tools')
    expect(Object.fromEntries(of)).toEqual({ a_b_2: 'a_b_2', 'a b': 'a_b', 'a-b': 'a_b_3' })
    expect(collisions).toEqual(['"a-b" is called a_b_3, for a_b is "a b"'])
  })

  it('that are an alias of another stay what they are', () => {
    const { of, collisions } = aliasesOf(['class', 'class_', 'x-y', 'x_y'], 'tools')
    expect(Object.fromEntries(of)).toEqual({ class_: 'class_', x_y: 'x_y', class: 'class__2', 'x-y': 'x_y_2' })
    expect(collisions).toHaveLength(2)
  })

  it('do not hide what the module `tools` has itself', () => {
    expect(Object.fromEntries(aliasesOf(['search', 'query', 'web'], 'categories').of)).toEqual({
      search: 'search_',
      query: 'query_',
      web: 'web',
    })
    expect(aliasesOf(['search'], 'tools').of.get('search')).toBe('search')
  })

  it('have different aliases, whatever they are and in whatever order they come', () => {
    const name = fc.oneof(
      fc.string({ maxLength: 3 }),
      fc.constantFrom('a-b', 'a_b', 'a b', 'a_b_2', 'class', 'class_', '', '_', 'unnamed'),
    )
    fc.assert(
      fc.property(fc.array(name, { maxLength: 12 }), names => {
        const { of } = aliasesOf(names, 'categories')
        expect(new Set(of.values()).size).toBe(new Set(names).size)
        expect(aliasesOf([...names].reverse(), 'categories').of).toEqual(of)
        for (const [exact, alias] of of) if (alias !== exact) expect(of.has(alias)).toBe(false)
      }),
    )
  })
})
