import { afterAll, beforeAll, describe, it } from 'vitest'
import type { Toolset } from '../../src/commands/setup.js'
import type { Misbehaviour } from '../../src/dev/misbehaviour.js'
import { openSharedTools, startBench } from './support/bench.js'
import { runCell } from './support/cell.js'
import { cellsOf, tallyOf } from './support/tally.js'

const POST = 'cloudtool_post_result'
/** What the worker gives a mutation. */
const TIME_LIMIT_MS = 10_000

/** What becomes of posts, and how often. With `commit` the backend carries them out first. */
interface HttpFault {
  readonly name: string
  readonly rule: Misbehaviour
  readonly times: number
}

const both = (name: string, rule: (commit: boolean) => Misbehaviour, times: number): HttpFault[] => [
  { name: `${name} before it is carried out`, rule: rule(false), times },
  { name: `${name} after it was carried out`, rule: rule(true), times },
]

const status = (code: number, headers: Readonly<Record<string, string>> = {}): HttpFault[] =>
  both(`HTTP ${code}`, commit => ({ kind: 'http_status', status: code, headers, commit }), 2)

const FAULTS: readonly HttpFault[] = [
  // First, since these take longest.
  ...both('no answer in time', commit => ({ kind: 'http_delay', ms: TIME_LIMIT_MS + 2_000, commit }), 1),
  ...status(500),
  ...status(502),
  ...status(503),
  ...status(504),
  ...status(429, { 'retry-after': '1' }),
  ...both('TCP reset', commit => ({ kind: 'http_reset', commit }), 2),
  ...both('an answer that is no JSON', commit => ({ kind: 'http_body', body: '<html>proxy</html>', commit }), 2),
]

const tally = tallyOf('HTTP')
let tools: Toolset
beforeAll(async () => {
  tools = await openSharedTools(8)
})
afterAll(() => tools.pool.close())

describe.concurrent('a call', () => {
  it.each(cellsOf(FAULTS))('is answered once: %s', { timeout: 90_000 }, async (_title, { phase, fault }) => {
    const bench = await startBench(tools, { slots: phase === 'waiting' ? 1 : 4 })
    // The call that keeps another one waiting is answered before it, and meets the fault as well.
    const times = phase === 'waiting' ? 2 * fault.times : fault.times
    const arm = () => bench.backend.misbehave(fault.rule, { operation: POST, times })
    try {
      // What the backend has read already it will not spoil: the rule has to be there before.
      const isRead = phase === 'posting' || phase === 'committed'
      if (isRead) arm()
      const strike = async () => {
        if (!isRead) arm()
      }
      await runCell({ phase, stage: bench, strike, endings: ['ran'], tally, recoveryMs: 60_000 })
    } finally {
      await bench.close()
    }
  })
})
