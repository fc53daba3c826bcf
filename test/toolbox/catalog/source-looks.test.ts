import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { ToolCatalog } from '../../../src/toolbox/catalog.js'
import type { Request } from '../../../src/toolbox/requests.js'
import { RunCatalog } from '../../../src/toolbox/run-catalog.js'
import type { Wanted } from '../../../src/toolbox/source-looks.js'
import type { ToolEntry } from '../../../src/toolbox/tool-entry.js'
import { entryOf, sourceOf } from './support/entries.js'

const NEVER = new AbortController().signal
const NOTHING: Wanted = new Set()
/** Far above what a look without waiting takes, far below any wait. */
const AT_ONCE_MS = 1_000

/** A source that has to be started, which takes as long as the test wants. */
function starting(category: string, changes: { readonly problem?: () => string | null } = {}) {
  let resolve: (tools: readonly ToolEntry[]) => void = () => {}
  const listed = new Promise<readonly ToolEntry[]>(done => {
    resolve = done
  })
  const state = { starts: 0, isReady: false }
  const source = sourceOf(category, [], {
    tools() {
      state.starts += 1
      return listed
    },
  })
  const lively = Object.defineProperties(source, {
    isReady: { get: () => state.isReady },
    problem: { get: () => changes.problem?.() ?? null },
  })
  const up = () => {
    state.isReady = true
    resolve([entryOf('search', { category })])
  }
  return { source: lively, state, up }
}

function catalogOf(sources: ConstructorParameters<typeof ToolCatalog>[0]['sources'], sourceLimitMs = 20_000) {
  const looked: Wanted[] = []
  const catalog = new ToolCatalog({ sources, globs: { allow: null, ask: [], deny: [] }, sourceLimitMs })
  const run = new RunCatalog((signal, wanted) => {
    looked.push(wanted)
    return catalog.snapshot(signal, wanted)
  })
  return { catalog, run, looked }
}

async function msOf(work: Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  await work
  return performance.now() - startMs
}

const files = sourceOf('files', [entryOf('read_file')])
const id = 1

describe('a source that hangs at its start', () => {
  it('is neither started nor waited for by a run that does not want it', async () => {
    const { source, state } = starting('slow')
    const { catalog, run } = catalogOf([files, source])
    const call = { id, op: 'call' as const, category: 'files', tool: 'read_file', args: [], kw: {} } satisfies Request
    expect(await msOf(catalog.snapshot(NEVER, catalog.categoriesIn('tools.files.read_file("a")')))).toBeLessThan(
      AT_ONCE_MS,
    )
    for (const request of [call, { id, op: 'catalog' }, { id, op: 'ls', path: 'tools/' }] as const) {
      expect(await msOf(run.for(request, NEVER))).toBeLessThan(AT_ONCE_MS)
    }
    expect(state.starts).toBe(0)
    expect((await run.for({ id, op: 'catalog' }, NEVER)).overview(5)).toMatchObject({
      categories: [
        { name: 'files', pending: false },
        { name: 'slow', pending: true, problem: null, tools: [] },
      ],
    })
  })

  it('is waited for once, by those that name it, and then by nobody', async () => {
    const { source, state } = starting('slow')
    const { catalog } = catalogOf([files, source], 500)
    const named = catalog.categoriesIn('tools.slow.search()')
    expect([...named]).toEqual(['slow'])
    expect(await msOf(catalog.snapshot(NEVER, named))).toBeGreaterThan(400)
    for (const wanted of [named, 'all', NOTHING] as const) {
      expect(await msOf(catalog.snapshot(NEVER, wanted))).toBeLessThan(400)
    }
    expect(state.starts).toBe(1)
    expect((await catalog.snapshot(NEVER, named)).find('slow', 'search')).toEqual({
      problem: 'tools.slow has no tools now: it is still being started, so its tools are not known yet',
    })
  })

  it('is waited for shortly by a search over all tools', async () => {
    const { source } = starting('slow')
    const { run } = catalogOf([files, source])
    expect(await msOf(run.for({ id, op: 'search', words: 'x', limit: 5 }, NEVER))).toBeLessThan(5_000)
  })

  it('has one snapshot, however often and by whom it is looked at', async () => {
    const { source } = starting('slow')
    const { catalog } = catalogOf([files, source], 100)
    const snapshots = [await catalog.snapshot(NEVER)]
    for (const wanted of [new Set(['slow']), 'all', NOTHING] as const) {
      snapshots.push(await catalog.snapshot(NEVER, wanted))
    }
    expect(new Set(snapshots).size).toBe(1)
  })
})

describe('a source that takes a while to start', () => {
  it('is waited for by the request that wants its tools', async () => {
    const { source, up } = starting('slow')
    const { run, looked } = catalogOf([files, source])
    await run.for({ id, op: 'catalog' }, NEVER)
    setTimeout(up, 300)
    const call = { id, op: 'call' as const, category: 'slow', tool: 'search', args: [], kw: {} } satisfies Request
    expect((await run.for(call, NEVER)).find('slow', 'search')).toMatchObject({ name: 'search' })
    const stub = { id, op: 'read', path: 'tools/slow/search.py' } as const
    expect((await run.for(stub, NEVER)).read(stub.path)).toContain('def search')
    expect(looked).toEqual([NOTHING, new Set(['slow'])])
  })

  it('is no longer waited for when the run ends', async () => {
    const { source } = starting('slow')
    const { catalog } = catalogOf([source])
    expect(await msOf(catalog.snapshot(AbortSignal.timeout(100), new Set(['slow'])))).toBeLessThan(AT_ONCE_MS)
  })
})

it('a source that has failed is waited for shortly when it is started again', async () => {
  let starts = 0
  const source = sourceOf('ill', [], {
    problem: 'it ended',
    tools: () => (starts++ === 0 ? Promise.resolve([]) : sleep(60_000, [], { ref: false })),
  })
  Object.defineProperty(source, 'isReady', { get: () => false })
  const { catalog } = catalogOf([source])
  const named = new Set(['ill'])
  await catalog.snapshot(NEVER, named)
  expect(await msOf(catalog.snapshot(NEVER, named))).toBeLessThan(5_000)
  expect(starts).toBe(2)
})
