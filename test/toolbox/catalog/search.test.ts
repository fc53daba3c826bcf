import { expect, it } from 'vitest'
import { ToolIndex } from '../../../src/toolbox/search.js'

const tool = (name: string, summary = '', description = '', parameters = '') => ({
  name,
  category: 'c',
  summary,
  description,
  parameters,
})
const TOOLS = [
  tool('alpha', '', '', 'calendar'),
  tool('beta', '', 'about a calendar'),
  tool('gamma', 'Shows the calendar'),
  tool('list-calendars', 'Lists them'),
  tool('createEvent', 'Creates an event in a calendar'),
]

function found(words: string, limit = 20): readonly (string | undefined)[] {
  return new ToolIndex(TOOLS).search(words, limit).map(({ n }) => TOOLS[n]?.name)
}

it('puts a name before a summary, a description and parameters', () => {
  expect(found('calendar')).toEqual(['list-calendars', 'gamma', 'createEvent', 'beta', 'alpha'])
})

it('takes plurals, beginnings and words written together', () => {
  expect(found('calendars')[0]).toBe('list-calendars')
  expect(found('calen')[0]).toBe('list-calendars')
  expect(found('create event')[0]).toBe('createEvent')
  expect(found('createevent')).toEqual(['createEvent'])
})

it('puts tools with all of the words first', () => {
  expect(found('event calendar')[0]).toBe('createEvent')
})

it('finds nothing for no words, and no more than it is asked for', () => {
  expect(found('')).toEqual([])
  expect(found('!?')).toEqual([])
  expect(found('nothing-like-it')).toEqual([])
  expect(found('calendar', 2)).toHaveLength(2)
})

it('answers soon whatever is searched for', () => {
  const many = Array.from({ length: 2_000 }, (_, n) =>
    tool(`tool-${n}`, `word${n} other${n * 7}`, `text ${n * 3} `.repeat(50)),
  )
  const index = new ToolIndex(many)
  const startMs = performance.now()
  for (let n = 0; n < 10; n++) index.search('a b c word1 word2 other tool x y z 1 2 3 '.repeat(60), 100)
  expect(performance.now() - startMs).toBeLessThan(5_000)
})
