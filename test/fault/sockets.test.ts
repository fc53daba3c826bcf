import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, it } from 'vitest'
import type { Toolset } from '../../src/commands/setup.js'
import { type Bench, openSharedTools, startBench } from './support/bench.js'
import { runCell } from './support/cell.js'
import { cellsOf, tallyOf } from './support/tally.js'

interface SocketFault {
  readonly name: string
  /** Begins before its first await; over when the wire is whole again. */
  strike(bench: Bench): Promise<void>
}

const closed = (code: number): SocketFault => ({
  name: `websocket closed with ${code}`,
  // 1006 is no code that can be sent: it stands for an end without a close.
  strike: async ({ backend }) => backend.dropConnections(code === 1006 ? undefined : code),
})

const FAULTS: readonly SocketFault[] = [
  // First, since it takes longest: only a missing pong tells of it.
  { name: 'frozen sockets', strike: async ({ proxy }) => proxy.strand() },
  closed(1000),
  closed(1001),
  closed(1006),
  closed(1011),
  closed(1012),
  closed(4403),
  closed(4429),
  closed(4500),
  {
    name: 'backend restarted',
    async strike({ backend }) {
      await backend.stop()
      await sleep(300)
      await backend.start()
    },
  },
  { name: 'TCP reset', strike: async ({ proxy }) => proxy.reset() },
  { name: 'FIN from the backend', strike: async ({ proxy }) => proxy.halfClose('down') },
  { name: 'FIN to the backend', strike: async ({ proxy }) => proxy.halfClose('up') },
  {
    name: 'wire frozen for 2 s',
    async strike({ proxy }) {
      proxy.freeze()
      await sleep(2_000)
      proxy.thaw()
    },
  },
]

/** 40 s until a missing pong is noticed, and what follows. */
const RECOVERY_MS = 60_000

const tally = tallyOf('sockets')
let tools: Toolset
beforeAll(async () => {
  tools = await openSharedTools(8)
})
afterAll(() => tools.pool.close())

describe.concurrent('a call', () => {
  it.each(cellsOf(FAULTS))('is answered once: %s', { timeout: 90_000 }, async (_title, { phase, fault }) => {
    const bench = await startBench(tools, { slots: phase === 'waiting' ? 1 : 4 })
    try {
      const strike = () => fault.strike(bench)
      await runCell({ phase, stage: bench, strike, endings: ['ran'], tally, recoveryMs: RECOVERY_MS })
    } finally {
      await bench.close()
    }
  })
})
