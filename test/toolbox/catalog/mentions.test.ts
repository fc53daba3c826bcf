import { describe, expect, it } from 'vitest'
import { mayUseTools, mentionedTools } from '../../../src/toolbox/mentions.js'
import { entryOf } from './support/entries.js'

const extract = entryOf('web_extract')
const terminal = entryOf('terminal', { category: 'shell' })
const files = entryOf('search', { category: 'files' })
const calendars = entryOf('list-calendars', { category: 'google-calendar' })
const ALL = [extract, terminal, files, calendars]

describe('code mentions a tool', () => {
  it.each([
    ['tools.web.web_extract(urls=[])', [extract]],
    ['call_tool("web","web_extract")', [extract]],
    ["tools.call('web', 'web_extract.py', {})", [extract]],
    ['getattr(tools.web, "web_extract")(u)', [extract]],
    ['from hermes_tools import web_extract as w', [extract]],
    ['import hermes_tools as h\nh.terminal("ls")', [terminal]],
    ['from hermes_tools import *\nsearch_files("x")', [files]],
    ['from tools.google_calendar import list_calendars', [calendars]],
    ['call_tool("google-calendar", "list-calendars")', [calendars]],
    ['tools["google-calendar"].list_calendars()', [calendars]],
    ['ｔｏｏｌｓ.web.web_ｅxtract()', [extract]],
    ['await tools.aio.shell.terminal("x"); tools.web.web_extract()', [extract, terminal]],
  ])('in %j', (code, expected) => {
    expect(mentionedTools(code, ALL)).toEqual(expected)
  })

  it.each([
    'web_extract = 1',
    'tools.web.web_extracted()',
    'from hermes_tools import read_file',
    'website.web_extract',
    'my-list-calendars2',
  ])('not in %j', code => {
    expect(mentionedTools(code, ALL)).toEqual([])
  })

  it('by the name that it has because the plain one was taken', () => {
    const code = 'tools.google_calendar.list_calendars_2()'
    expect(mentionedTools(code, [calendars])).toEqual([])
    const calledOf = () => ({ category: 'google_calendar', tool: 'list_calendars_2' })
    expect(mentionedTools(code, [calendars], calledOf)).toEqual([calendars])
  })

  it.each([
    ['"do-thing 1"', ['do-thing 1', 'do-thing']],
    ['"do-thing 12"', ['do-thing']],
    ['xdo-thing; do-things; do-thing_2', []],
    ['"→"', ['→']],
    ['"-a-"', ['-a-', 'a']],
    ['"a.b.c"', ['a.b', 'a.b.c', 'b.c', 'a']],
    ['"é do-thing"', ['do-thing']],
  ])('by names of several words, in %s', (code, expected) => {
    const names = ['do-thing 1', 'do-thing', 'do', '→', '-a-', 'a', 'a.b', 'a.b.c', 'b.c']
    const entries = names.filter(name => name !== 'do').map(name => entryOf(name))
    const exactly = () => ({ category: 'web', tool: 'no other' })
    const found = mentionedTools(`web ${code}`, entries, exactly).map(({ name }) => name)
    expect(found.filter(name => expected.includes(name)).sort()).toEqual([...expected].sort())
    expect(found).toEqual(expect.arrayContaining(expected))
    expect(found.includes('do-thing 1')).toBe(expected.includes('do-thing 1'))
  })

  it('in about the same time for many tools as for few, however much code there is', () => {
    const code = `web ${'# é do-thing- do thing 1 22 333 \n'.repeat(20_000)}`
    // Of the processor: a machine that is busy otherwise has no say in it.
    const costOf = (tools: number) => {
      const entries = Array.from({ length: tools }, (_, n) => entryOf(`do-thing-${n}`))
      const costs = Array.from({ length: 3 }, () => {
        const before = process.cpuUsage()
        expect(mentionedTools(code, entries)).toEqual([])
        return process.cpuUsage(before).user
      })
      return Math.min(...costs)
    }
    costOf(20)
    expect(costOf(2_000)).toBeLessThan(20 * costOf(20))
  })

  it('in little time, however much code and however many tools there are', () => {
    const many = Array.from({ length: 2_000 }, (_, n) => entryOf(`tool-${n}`))
    const startMs = performance.now()
    expect(mentionedTools(`x = "${'abc def '.repeat(30_000)}"\nweb tool-1999`, many)).toHaveLength(1)
    expect(performance.now() - startMs).toBeLessThan(5_000)
  })
})

describe('code may use tools', () => {
  it.each([
    'import tools',
    'call_tool("a", "b")',
    'from hermes_tools import terminal',
    'print(ls())',
    'x = read',
    '__import__("tools")',
    'ｔｏｏｌｓ.web',
  ])('where it is %j', code => {
    expect(mayUseTools(code)).toBe(true)
  })

  it.each(['print(1)', 'open("x").read()', 'import functools, itertools', 'df = pd.read_csv("a")', 'false = 0'])(
    'not where it is %j',
    code => {
      expect(mayUseTools(code)).toBe(false)
    },
  )
})
