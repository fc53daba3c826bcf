import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { endPrograms } from '../e2e/support/worker-process.js'
import { countedCode, type Ending, expectEnding, findingsOf, type Phase, runCell } from './support/cell.js'
import { atOnce, type ProgramBench, startProgramBench } from './support/program.js'
import { cellsOf, tallyOf } from './support/tally.js'

interface SignalFault {
  readonly name: string
  /** Of the code that is struck while it runs. */
  readonly runSeconds: number
  /** Ends the worker that runs. */
  end(bench: ProgramBench): Promise<void>
  readonly running: Ending
}

const DRAIN_MS = 5_000

/** Every drain below ends with all calls answered or on disk, within its budget and a second. */
async function drained(bench: ProgramBench): Promise<void> {
  const from = performance.now()
  expect(await bench.program.exited).toEqual({ code: 0, signal: null })
  expect(performance.now() - from).toBeLessThan(DRAIN_MS + 1_000)
}

const FAULTS: readonly SignalFault[] = [
  {
    name: 'SIGTERM',
    runSeconds: 0.7,
    running: 'ran',
    async end(bench) {
      bench.program.child.kill('SIGTERM')
      await drained(bench)
    },
  },
  {
    name: 'SIGTERM while code runs that is longer than the drain',
    runSeconds: 40,
    running: 'cutOff',
    async end(bench) {
      bench.program.child.kill('SIGTERM')
      await drained(bench)
    },
  },
  {
    name: 'SIGTERM twice',
    runSeconds: 40,
    running: 'cutOff',
    async end(bench) {
      bench.program.child.kill('SIGTERM')
      await sleep(200)
      bench.program.child.kill('SIGTERM')
      await drained(bench)
    },
  },
  {
    name: 'SIGTERM while the backend takes no answer',
    runSeconds: 0.7,
    running: 'ran',
    async end(bench) {
      const clear = bench.backend.misbehave(
        { kind: 'http_status', status: 503 },
        { operation: 'cloudtool_post_result' },
      )
      bench.program.child.kill('SIGTERM')
      await drained(bench)
      clear()
    },
  },
]

/** What comes while the drain begins may be taken still, and run, until it is cut short. */
function endingsOf(phase: Phase, fault: SignalFault): readonly Ending[] {
  switch (phase) {
    case 'before claim':
      return fault.name === 'SIGTERM twice'
        ? ['ran', 'neverStarted', 'cutOff', 'cutOffAtOnce']
        : ['ran', 'neverStarted']
    case 'waiting':
      return ['neverStarted']
    case 'running':
      return [fault.running]
    case 'finished':
    case 'posting':
    case 'committed':
    case 'posted':
      return ['ran']
  }
}

const tally = tallyOf('signals')
afterAll(endPrograms)

describe.concurrent('a worker that is told to stop and started again', () => {
  it.each(cellsOf(FAULTS))('has answered once: %s', { timeout: 300_000 }, async (_title, { phase, fault }) => {
    await atOnce(async () => {
      const bench = await startProgramBench({
        MAX_CONCURRENT_CALLS: phase === 'waiting' ? '1' : '4',
        DRAIN_MS: String(DRAIN_MS),
      })
      const strike = async () => {
        await fault.end(bench)
        await bench.restart()
      }
      const endings = endingsOf(phase, fault)
      const { runSeconds } = fault
      try {
        await runCell({ phase, stage: bench, strike, endings, tally, recoveryMs: 20_000, runSeconds })
      } finally {
        await bench.close()
      }
    })
  })
})

it('SIGTERM with 8 running and 20 waiting calls: all 28 are answered, and exit 0 comes within the budget and a second', {
  timeout: 60_000,
}, async () => {
  const bench = await startProgramBench({ MAX_CONCURRENT_CALLS: '8', DRAIN_MS: String(DRAIN_MS) })
  const { backend, program } = bench
  const calls = Array.from({ length: 28 }, () => backend.pushCode(countedCode(60)))
  try {
    const runningNow = () => calls.filter(call => backend.deltas(call.fcall_id).length > 0)
    await backend.waitFor(() => runningNow().length === 8, 20_000)
    await backend.waitFor(() => calls.every(call => backend.deliveries(call.fcall_id) > 0), 5_000)
    const running = runningNow()
    program.child.kill('SIGTERM')
    await drained(bench)
    for (const call of calls)
      expectEnding(findingsOf(backend, call), [running.includes(call) ? 'cutOff' : 'neverStarted'])
  } finally {
    tally.count(
      1,
      calls.map(call => findingsOf(backend, call)),
    )
    await bench.close()
  }
})
