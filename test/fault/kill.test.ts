import { afterAll, describe, expect, it } from 'vitest'
import { endPrograms } from '../e2e/support/worker-process.js'
import { type Ending, type Phase, runCell } from './support/cell.js'
import { atOnce, startProgramBench } from './support/program.js'
import { cellsOf, tallyOf } from './support/tally.js'

const ENDINGS: Record<Phase, Ending> = {
  'before claim': 'ran',
  waiting: 'neverStarted',
  running: 'cutOff',
  finished: 'ran',
  posting: 'ran',
  committed: 'ran',
  posted: 'ran',
}

const tally = tallyOf('kill -9')
afterAll(endPrograms)

describe.concurrent('a worker that is killed with SIGKILL and started again', () => {
  it.each(cellsOf([{ name: 'kill -9' }]))('has answered once: %s', { timeout: 120_000 }, async (_title, { phase }) => {
    await atOnce(async () => {
      const bench = await startProgramBench({ MAX_CONCURRENT_CALLS: phase === 'waiting' ? '1' : '4' })
      const strike = async () => {
        bench.program.child.kill('SIGKILL')
        expect(await bench.program.exited).toEqual({ code: null, signal: 'SIGKILL' })
        await bench.restart()
      }
      try {
        await runCell({
          phase,
          stage: bench,
          strike,
          endings: [ENDINGS[phase]],
          tally,
          recoveryMs: 20_000,
          runSeconds: 40,
        })
      } finally {
        await bench.close()
      }
    })
  })
})
