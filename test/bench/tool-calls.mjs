// What a tool call costs when the tool itself does nothing: from the code in the sandbox to the worker and back, with each step
// written down on disk as `start` does it.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ToolSteps } from '../../dist/journal/tool-steps.js'
import { ToolCatalog } from '../../dist/toolbox/catalog.js'
import { Toolbox } from '../../dist/toolbox/toolbox.js'

const CALLS = 1_000
const AT_ONCE = 50

const noop = {
  category: 'bench',
  name: 'noop',
  description: 'Does nothing.',
  parameters: { type: 'object', properties: {} },
  consent: 'free',
  call: async () => ({ value: null }),
}
const slow = {
  ...noop,
  name: 'slow',
  description: 'Takes 0.3 s.',
  call: async () => {
    await sleep(300)
    return { value: null }
  },
}
const source = {
  category: 'bench',
  description: 'Nothing.',
  tools: async () => [noop, slow],
  problem: null,
  close: async () => {},
}
const CODE = `
import time
from concurrent.futures import ThreadPoolExecutor
def timed(_=None):
    start = time.perf_counter()
    tools.bench.noop()
    return (time.perf_counter() - start) * 1000
timed()
row = sorted(timed() for _ in range(${CALLS}))
with ThreadPoolExecutor(${AT_ONCE}) as pool:
    list(pool.map(timed, range(${AT_ONCE})))
    start = time.perf_counter()
    for _ in range(10):
        list(pool.map(timed, range(${AT_ONCE})))
    together = (time.perf_counter() - start) * 1000 / 10 / ${AT_ONCE}
with ThreadPoolExecutor(10) as pool:
    start = time.perf_counter()
    list(pool.map(lambda _: tools.bench.slow(), range(10)))
    slow = (time.perf_counter() - start) * 1000
[row[len(row) // 2], together, slow]
`

/** Milliseconds of a call: p50 of 1 000 one after the other, and each of 50 at once; and of 10 calls of 0.3 s in 10 threads. */
export async function toolCallMs(pool, log) {
  const catalog = new ToolCatalog({ sources: [source], globs: { allow: null, ask: [], deny: [] } })
  const toolbox = new Toolbox({
    catalog: (signal, wanted) => catalog.snapshot(signal, wanted),
    categoriesIn: () => new Set(),
    mentioned: () => [],
    mayUseTools: () => true,
    description: '',
    callsMax: 10_000,
    progress: false,
    mask: text => text,
    log,
  })
  const stateDir = mkdtempSync(path.join(tmpdir(), 'bench-tools-'))
  const steps = await ToolSteps.open(stateDir, [])
  const toolLog = {
    earlier: () => steps.read('bench'),
    note: async step => {
      await steps.note('bench', step)
      return true
    },
  }
  const { signal } = new AbortController()
  const { calls } = await toolbox.begin({
    code: CODE,
    isApproved: false,
    signal,
    toolLog,
    onBlocked: () => {},
    onDiverged: () => {},
  })
  const report = await pool.run({
    code: CODE,
    wallMs: 60_000,
    signal,
    onStdout: () => {},
    calls,
  })
  if (report.status !== 'completed') throw new Error(`the tool calls ended as ${report.status}: ${report.stderr.text}`)
  rmSync(stateDir, { recursive: true })
  return JSON.parse(report.value)
}
