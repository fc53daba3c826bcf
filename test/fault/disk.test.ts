import { afterAll, describe, it } from 'vitest'
import { endPrograms } from '../e2e/support/worker-process.js'
import { runCell } from './support/cell.js'
import { atOnce, startProgramBench } from './support/program.js'
import { makeSmallDisk, type SmallDisk } from './support/small-disk.js'
import { cellsOf, tallyOf } from './support/tally.js'

interface DiskFault {
  readonly name: string
  strike(disk: SmallDisk): void
}

const FAULTS: readonly DiskFault[] = [
  { name: 'disk full', strike: disk => disk.fill() },
  { name: 'disk read-only', strike: disk => disk.setReadOnly(true) },
]

const tally = tallyOf('disk')
afterAll(endPrograms)

describe.concurrent('a worker that can not write to its STATE_DIR any more', () => {
  it.each(cellsOf(FAULTS))('answers once: %s', { timeout: 120_000 }, async (_title, { phase, fault }) => {
    await atOnce(async () => {
      const disk = await makeSmallDisk()
      const bench = await startProgramBench({ MAX_CONCURRENT_CALLS: phase === 'waiting' ? '1' : '4' }, disk)
      try {
        const strike = async () => fault.strike(disk)
        await runCell({ phase, stage: bench, strike, endings: ['ran'], tally, recoveryMs: 20_000 })
      } finally {
        await bench.close()
        await disk.close()
      }
    })
  })
})
