import { beforeAll, describe, expect, it } from 'vitest'
import { ToolCatalog } from '../../../src/toolbox/catalog.js'
import type { Snapshot } from '../../../src/toolbox/snapshot.js'
import { entryOf, sourceOf, withParameters } from './support/entries.js'

let snapshot: Snapshot

beforeAll(async () => {
  const sources = [
    sourceOf('web', [
      entryOf('web_extract', {
        description: 'Readable text of pages.\nAs `markdown`.',
        parameters: withParameters(
          { limit: { type: 'integer', default: 5 }, urls: { type: 'array', items: { type: 'string' } } },
          ['urls'],
        ),
      }),
    ]),
    sourceOf('google-calendar', [entryOf('list-calendars'), entryOf('class'), entryOf('a/b.py')], {
      description: 'Calendars | events',
    }),
    sourceOf('down', [], { problem: 'the server does not start' }),
  ]
  const catalog = new ToolCatalog({ sources, globs: { allow: null, ask: [], deny: [] } })
  snapshot = await catalog.snapshot(new AbortController().signal)
})

describe('ls', () => {
  it.each(['tools/', 'tools', '/tools/', './tools/', '', '/', '.', './', 'tools//'])(
    'of %j lists the categories',
    path => {
      expect(snapshot.ls(path)).toEqual(['web/', 'google_calendar/', 'down/'])
    },
  )

  it.each([
    'tools/google_calendar/',
    'tools/google-calendar',
    './tools/google_calendar',
    'google_calendar/',
    '/tools/google-calendar/',
  ])('of %j lists its tools, each of which can be called', path => {
    const found = snapshot.ls(path)
    expect(found).toEqual(['list_calendars.py', 'class_.py', 'a_b_py.py'])
    for (const name of found) expect(snapshot.find('google_calendar', name)).toHaveProperty('consent')
  })

  it.each(['tools/nope/', 'nope', 'tools/web/web_extract.py', 'tools/__index__.md', 'tools/down/', '../tools', '/etc'])(
    'of %j is empty',
    path => {
      expect(snapshot.ls(path)).toEqual([])
    },
  )
})

describe('read', () => {
  it('of the index is a table of categories, with what is wrong with them', () => {
    const text = snapshot.read('tools/__index__.md')
    expect(text).toContain('| Category | Description | Tools |')
    expect(text).toContain('| web | Tools of web | 1 |')
    expect(text).toContain('| google_calendar | (exact name: google-calendar) Calendars \\| events | 3 |')
    expect(text).toContain('| down | Tools of down [not all of it can be called now: the server does not start] | 0 |')
    for (const path of ['__index__.md', './tools/__index__.md', '/tools/__index__.md', 'tools/'])
      expect(snapshot.read(path)).toBe(text)
  })

  it('of the index of a category has one line for each tool: how it is called, and its summary', () => {
    const text = snapshot.read('tools/web/__index__.md')
    expect(text).toContain('- `tools.web.web_extract(urls: list[str], limit: int = 5)` - Readable text of pages.\n')
    expect(snapshot.read('tools/google-calendar/__index__.md')).toContain(
      '- `tools.google_calendar.class_()` - (exact name: class) Does class.',
    )
    expect(snapshot.read('tools/down/__index__.md')).toContain('the server does not start')
  })

  it.each([
    'tools/google_calendar/list_calendars.py',
    'tools/google-calendar/list-calendars.py',
    'tools/google-calendar/list-calendars',
    '/google_calendar/list-calendars.py',
  ])('of %j is its stub', path => {
    expect(snapshot.read(path)).toContain('def list_calendars() -> Any:')
  })

  it('of a tool whose name has a slash and .py is its stub', () => {
    expect(snapshot.read('tools/google-calendar/a/b.py')).toContain('def a_b_py() -> Any:')
  })

  it('of a file of the workspace says what reads those', async () => {
    const sources = [sourceOf('files', [entryOf('read_file')])]
    const catalog = new ToolCatalog({ sources, globs: { allow: null, ask: [], deny: [] } })
    const built = await catalog.snapshot(new AbortController().signal)
    expect(built.read('data.csv')).toBe(
      'There is no data.csv; there are: tools/files/. tools/__index__.md lists the categories. ' +
        'Here are files of tools alone; those of the workspace: tools.files.read_file(path=…).',
    )
  })

  it('of what is not there says so, and what may have been meant', () => {
    expect(snapshot.read('tools/web/web_extrac.py')).toBe(
      'There is no tools/web/web_extrac.py; did you mean tools/web/web_extract.py? tools/web/__index__.md lists the tools.',
    )
    expect(snapshot.read('tools/wbe/x.py')).toContain('did you mean tools/web/?')
    expect(snapshot.read('tools/list_calendars.py')).toContain('did you mean tools/google_calendar/list_calendars.py?')
    expect(snapshot.read('tools/down/x.py')).toContain('the server does not start')
    expect(snapshot.read('/etc/passwd')).toContain('There is no /etc/passwd; ')
    expect(snapshot.read('tools/xyzzyx/')).toMatch(
      /; there are: .*[a-z]\/\. tools\/__index__\.md lists the categories\.$/,
    )
    expect(snapshot.read(`x\n${'y'.repeat(100_000)}`).length).toBeLessThan(1_000)
  })
})

describe('tree', () => {
  it('shows all of it', () => {
    expect(snapshot.tree('tools/')).toBe(
      [
        'tools/',
        '  __index__.md',
        '  web/',
        '    __index__.md',
        '    web_extract.py  # Readable text of pages.',
        '  google_calendar/',
        '    __index__.md',
        '    list_calendars.py  # Does list-calendars.',
        '    class_.py  # Does class.',
        '    a_b_py.py  # Does a/b.py.',
        '  down/  [not all of it can be called now: the server does not start]',
        '    __index__.md',
      ].join('\n'),
    )
    expect(snapshot.tree('tools/web')).toBe('web/\n  __index__.md\n  web_extract.py  # Readable text of pages.')
    expect(snapshot.tree('tools/wbe')).toContain('did you mean tools/web/?')
  })
})

it('search answers with the call', () => {
  expect(snapshot.search('calendar', 1)).toEqual([
    {
      category: 'google-calendar',
      tool: 'list-calendars',
      call: 'tools.google_calendar.list_calendars',
      summary: 'Does list-calendars.',
      score: expect.any(Number),
    },
  ])
})
