import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { builtInSources } from '../../../src/toolbox/built-in.js'
import { type CatalogOptions, ToolCatalog } from '../../../src/toolbox/catalog.js'
import type { ToolEntry, ToolSource } from '../../../src/toolbox/tool-entry.js'
import { entryOf, sourceOf, withParameters } from './support/entries.js'

const BUILT_IN = JSON.parse(readFileSync(new URL('../../../src/toolbox/built-in.json', import.meta.url), 'utf8'))
const NEVER = new AbortController().signal
const ALL = { allow: null, ask: [], deny: [] }

const web = sourceOf('web', [
  entryOf('web_extract', { parameters: withParameters({ urls: { type: 'array' } }, ['urls']) }),
  entryOf('web_search', { consent: 'ask' }),
])
const calendar = sourceOf('google-calendar', [
  entryOf('list-calendars'),
  entryOf('class'),
  entryOf('wipe', { consent: 'deny' }),
])

function catalogOf(sources: readonly ToolSource[], changes: Partial<CatalogOptions> = {}) {
  const notes: string[] = []
  const catalog = new ToolCatalog({ sources, globs: ALL, onNotes: news => notes.push(...news), ...changes })
  return { catalog, notes }
}

async function names(globs: Partial<CatalogOptions['globs']>, sources = [web, calendar]) {
  const { catalog, notes } = catalogOf(sources, { globs: { ...ALL, ...globs } })
  const { entries } = await catalog.snapshot(NEVER)
  return { found: entries.map(({ category, name, consent }) => `${category}.${name} ${consent}`), notes }
}

describe('the rules of the configuration', () => {
  it('leave out what a source denies, and keep what it asks for', async () => {
    const { found } = await names({})
    expect(found).toEqual([
      'web.web_extract free',
      'web.web_search ask',
      'google-calendar.list-calendars free',
      'google-calendar.class free',
    ])
  })

  it('deny goes before ask, ask before allow, and ask does not weaken a deny', async () => {
    const { found } = await names({ allow: ['web.*', '*.wipe'], ask: ['*'], deny: ['web.*_search'] })
    expect(found).toEqual(['web.web_extract ask'])
  })

  it('allow does not free a tool that its source asks for', async () => {
    expect((await names({ allow: ['web.web_search'] })).found).toEqual(['web.web_search ask'])
  })

  it('with an empty list allow nothing and ask no source', async () => {
    let asked = false
    const source = sourceOf('web', [], {
      tools: async () => {
        asked = true
        return []
      },
    })
    const { catalog } = catalogOf([source], { globs: { ...ALL, allow: [] } })
    const snapshot = await catalog.snapshot(NEVER)
    expect(snapshot.entries).toEqual([])
    expect(snapshot.ls('tools/')).toEqual([])
    expect(catalog.describe({ callsMax: 50 })).toBe('')
    expect(asked).toBe(false)
  })

  it('deny and ask by the names that code uses, too', async () => {
    const { found } = await names({ deny: ['google_calendar.list_calendars'], ask: ['google_calendar.class_'] })
    expect(found.slice(2)).toEqual(['google-calendar.class ask'])
  })

  it('tell of globs that fit nothing, except where a source may have what they are for', async () => {
    const down = sourceOf('github', [], { problem: 'the server does not start' })
    const { notes } = await names({ allow: ['*'], ask: ['wep.*', 'github.*'], deny: ['google-calendar.wipe'] }, [
      web,
      calendar,
      down,
    ])
    expect(notes).toEqual(['TOOLS_ASK: "wep.*" fits no tool'])
  })

  it('name a tool that is left out as one that may not be called', async () => {
    const { catalog } = catalogOf([web], { globs: { ...ALL, deny: ['*.web_search'] } })
    const snapshot = await catalog.snapshot(NEVER)
    expect(snapshot.find('web', 'web_search')).toEqual({
      problem: 'tools.web has no web_search here: it may not be called',
    })
  })
})

describe('sources', () => {
  it('are asked in parallel, and one that takes too long fails its own tools only', async () => {
    const slow = (category: string) => sourceOf(category, [], { tools: () => new Promise(() => {}) })
    const { catalog } = catalogOf([slow('a'), slow('b'), web], { sourceLimitMs: 200 })
    const startMs = performance.now()
    const snapshot = await catalog.snapshot(NEVER)
    expect(performance.now() - startMs).toBeLessThan(5_000)
    expect(snapshot.entries).toHaveLength(2)
    expect(snapshot.find('a', 'x')).toEqual({
      problem: 'tools.a has no tools now: its tools were not there within 0.2 s',
    })
    expect(snapshot.read('tools/__index__.md')).toContain(
      '[not all of it can be called now: its tools were not there within 0.2 s]',
    )
  })

  it('that take too long keep the tools that are known', async () => {
    let calls = 0
    const flaky = sourceOf('flaky', [], {
      tools: async () => (calls++ === 0 ? [entryOf('t', { category: 'flaky' })] : sleep(60_000, [], { ref: false })),
    })
    const { catalog } = catalogOf([flaky], { sourceLimitMs: 200 })
    await catalog.snapshot(NEVER)
    expect((await catalog.snapshot(NEVER)).find('flaky', 't')).toMatchObject({ name: 't' })
  })

  it('that reject have no tools, and only operators are told why', async () => {
    const broken = sourceOf('broken', [], { tools: () => Promise.reject(new Error('no /srv/broken')) })
    const { catalog, notes } = catalogOf([broken])
    const snapshot = await catalog.snapshot(NEVER)
    expect(snapshot.find('broken', 'x')).toEqual({
      problem: 'tools.broken has no tools now: its tools could not be listed',
    })
    expect(notes).toEqual(['category of tools "broken": its tools could not be listed: no /srv/broken'])
  })

  it('are waited for no longer than the run lasts', async () => {
    const slow = sourceOf('slow', [], { tools: () => new Promise(() => {}) })
    const startMs = performance.now()
    await catalogOf([slow]).catalog.snapshot(AbortSignal.timeout(100))
    expect(performance.now() - startMs).toBeLessThan(5_000)
  })

  it('that do not change have one snapshot; one that changes has another', async () => {
    let tools: readonly ToolEntry[] = [entryOf('a', { category: 's' })]
    const { catalog } = catalogOf([web, sourceOf('s', [], { tools: async () => [...tools] })])
    const first = await catalog.snapshot(NEVER)
    expect(await catalog.snapshot(NEVER)).toBe(first)
    tools = [...tools, entryOf('b', { category: 's' })]
    const second = await catalog.snapshot(NEVER)
    expect(second.ls('tools/s/')).toEqual(['a.py', 'b.py'])
    expect(first.ls('tools/s/')).toEqual(['a.py'])
  })

  it('of a category that is there already are left out, and it is told', async () => {
    const { catalog, notes } = catalogOf([web, sourceOf('web', [entryOf('evil')])])
    expect((await catalog.snapshot(NEVER)).entries).toHaveLength(2)
    await catalog.snapshot(NEVER)
    expect(notes).toEqual(['category of tools "web" is there twice: the second is left out'])
  })

  it('have no dot in their category, so that category.tool is one tool', () => {
    expect(() => catalogOf([sourceOf('a', [entryOf('b.c')]), sourceOf('a.b', [entryOf('c')])])).toThrow(
      'category of tools "a.b": give a name without dots',
    )
  })

  it('have 2 000 tools together at most, with descriptions that are cut', async () => {
    const many = Array.from({ length: 1_500 }, (_, n) =>
      entryOf(`t${n}`, { description: 'x'.repeat(n === 0 ? 1_000_000 : 10) }),
    )
    const { catalog, notes } = catalogOf([sourceOf('a', many), sourceOf('b', many)])
    const snapshot = await catalog.snapshot(NEVER)
    expect(snapshot.entries).toHaveLength(2_000)
    expect(snapshot.entries[0]?.description.length).toBeLessThan(17_000)
    expect(notes).toEqual([
      'category of tools "b": 1000 of its tools are left out, for there are more than 2000 in all',
    ])
    expect(snapshot.read('tools/b/__index__.md')).toContain('1000 of its tools are left out')
  })
})

describe('a tool', () => {
  it('is found by exact names and aliases, with .py or without, and called with what it was', async () => {
    const snapshot = await catalogOf([web, calendar]).catalog.snapshot(NEVER)
    for (const [category, tool] of [
      ['google-calendar', 'list-calendars'],
      ['google_calendar', 'list_calendars'],
      ['google-calendar', 'list_calendars.py'],
      ['google_calendar', 'list-calendars.py'],
    ] as const) {
      expect(snapshot.find(category, tool)).toMatchObject({ name: 'list-calendars' })
    }
    const found = snapshot.find('google_calendar', 'class_')
    if ('problem' in found) throw new Error(found.problem)
    expect(await found.call?.({}, { signal: NEVER })).toEqual({ value: 'class' })
    expect(snapshot.bind(found, [], { x: 1 })).toMatchObject({
      problem: expect.stringContaining('tools.google_calendar.class_:'),
    })
  })

  it('keeps its call where the rules change its consent', async () => {
    const { catalog } = catalogOf([web], { globs: { ...ALL, ask: ['*'] } })
    const found = (await catalog.snapshot(NEVER)).find('web', 'web_extract')
    if ('problem' in found) throw new Error(found.problem)
    expect(found.consent).toBe('ask')
    expect(await found.call?.({}, { signal: NEVER })).toEqual({ value: 'web_extract' })
  })

  it('that is not there is answered with what may have been meant', async () => {
    const snapshot = await catalogOf([web, calendar]).catalog.snapshot(NEVER)
    expect(snapshot.find('web', 'web_extrat')).toEqual({
      problem: 'there is no tool "web_extrat" in tools.web; did you mean tools.web.web_extract?',
    })
    expect(snapshot.find('wep', 'x')).toEqual({
      problem: 'there is no category of tools "wep"; did you mean tools.web?',
    })
    expect(snapshot.find('files', 'list_calendars')).toEqual({
      problem: 'there is no category of tools "files"; did you mean tools.google_calendar.list_calendars?',
    })
    expect(snapshot.find('zzzzzz', 'y')).toEqual({
      problem: 'there is no category of tools "zzzzzz"; there are: web, google_calendar',
    })
  })

  it('is mentioned by the name that it got because the plain one was taken', async () => {
    const { catalog, notes } = catalogOf([sourceOf('s', [entryOf('a-b', { consent: 'ask' }), entryOf('a_b')])])
    const snapshot = await catalog.snapshot(NEVER)
    expect(snapshot.collisions).toEqual(['tool of s: "a-b" is called a_b_2, for a_b is "a_b"'])
    expect(notes).toEqual(snapshot.collisions)
    const asking = snapshot.entries.filter(({ consent }) => consent === 'ask')
    expect(catalog.mentioned('tools.s.a_b_2()', asking)).toEqual(asking)
  })
})

describe('built-in tools', () => {
  it('are free, run in the sandbox, and are all listed', async () => {
    const snapshot = await catalogOf(builtInSources(BUILT_IN, { noShell: null })).catalog.snapshot(NEVER)
    expect(snapshot.entries.every(({ consent, call }) => consent === 'free' && call === undefined)).toBe(true)
    expect(snapshot.overview(7)).toMatchObject({
      calls_max: 7,
      categories: [
        {
          name: 'files',
          alias: 'files',
          problem: null,
          tools: expect.arrayContaining([{ name: 'patch', alias: 'patch', local: true }]),
        },
        { name: 'shell', tools: [{ name: 'terminal', alias: 'terminal', local: true }] },
      ],
    })
  })

  it('have no shell where there may be none, and say why', async () => {
    const noShell = 'code in this sandbox may not start processes'
    const snapshot = await catalogOf(builtInSources(BUILT_IN, { noShell })).catalog.snapshot(NEVER)
    expect(snapshot.find('shell', 'terminal')).toEqual({
      problem: 'tools.shell has no tools now: code in this sandbox may not start processes',
    })
    expect(snapshot.read('tools/__index__.md')).toContain('code in this sandbox may not start processes')
    expect(snapshot.overview(1)).toMatchObject({
      categories: [{}, { problem: 'code in this sandbox may not start processes', tools: [] }],
    })
  })
})

describe('what a model is told', () => {
  it('names the categories, how to discover, and the number of calls that is configured', async () => {
    const { catalog } = catalogOf([web, calendar])
    expect(catalog.describe({ callsMax: 33 })).toContain('- google_calendar: Tools of google-calendar')
    await catalog.snapshot(NEVER)
    const text = catalog.describe({ callsMax: 33 })
    expect(text).toContain('At most 33 tool calls')
    expect(text).toContain('- google_calendar (2 tools): Tools of google-calendar')
    expect(text).toContain('tools.search("words")')
  })

  it('speaks of no import, thread or await where the code has none', () => {
    const { catalog } = catalogOf([web])
    expect(catalog.describe({ callsMax: 5 })).toMatch(/import.*await/s)
    const text = catalog.describe({ callsMax: 5, isRestricted: true })
    expect(text).not.toMatch(/import|thread|await|aio/)
    expect(text).toContain('tools.<category>.<tool>(name=value, …)')
  })

  it('leaves out categories that nothing of may be called, also before they are asked', () => {
    const denied = catalogOf([web, calendar], { globs: { ...ALL, deny: ['google_calendar.*'] } })
    expect(denied.catalog.describe({ callsMax: 50 })).not.toContain('google_calendar')
    const allowed = catalogOf([web, calendar], { globs: { ...ALL, allow: ['w*.web_extract'] } })
    expect(allowed.catalog.describe({ callsMax: 50 })).not.toContain('google_calendar')
    expect(allowed.catalog.describe({ callsMax: 50 })).toContain('- web: ')
  })

  it('has 1 500 characters at most, however many tools there are', async () => {
    const many = Array.from({ length: 300 }, (_, n) =>
      sourceOf(`category-${n}-${'x'.repeat(100)}`, [entryOf('t')], {
        description: 'd'.repeat(5_000),
        problem: 'p'.repeat(500),
      }),
    )
    const { catalog } = catalogOf(many)
    expect(catalog.describe({ callsMax: 1_000_000 }).length).toBeLessThanOrEqual(1_500)
    await catalog.snapshot(NEVER)
    expect(catalog.describe({ callsMax: 1_000_000 }).length).toBeLessThanOrEqual(1_500)
    expect(catalog.describe({ callsMax: 50 })).toMatch(/- and \d+ more: ls\("tools\/"\)$/)
  })
})
