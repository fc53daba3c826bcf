import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import { endPrograms, type Program } from '../e2e/support/worker-process.js'
import { countedCode, type Ending, expectEnding, findingsOf, type Phase, runCell, stateOnDisk } from './support/cell.js'
import { atOnce, type ProgramBench, startProgramBench } from './support/program.js'
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

/** Ends the worker that runs, and what is started after it until it is to stay. */
interface KillFault {
  readonly name: string
  strike(bench: ProgramBench): Promise<void>
}

async function kill({ child, exited }: Program): Promise<void> {
  child.kill('SIGKILL')
  expect(await exited).toEqual({ code: null, signal: 'SIGKILL' })
}

const FAULTS: readonly KillFault[] = [
  {
    name: 'kill -9',
    async strike(bench) {
      await kill(bench.program)
      await bench.restart()
    },
  },
  {
    name: 'kill -9 again and again while it starts',
    async strike(bench) {
      await kill(bench.program)
      for (const afterMs of [400, 900, 1_400, 1_900]) {
        const next = await bench.startUnconnected()
        await sleep(afterMs)
        await kill(next)
      }
      await bench.restart()
    },
  },
]

const tally = tallyOf('kill -9')
afterAll(endPrograms)

describe.concurrent('a worker that is killed with SIGKILL and started again', () => {
  it.each(cellsOf(FAULTS))('has answered once: %s', { timeout: 300_000 }, async (_title, { phase, fault }) => {
    await atOnce(async () => {
      const bench = await startProgramBench({ MAX_CONCURRENT_CALLS: phase === 'waiting' ? '1' : '4' })
      const strike = () => fault.strike(bench)
      const endings = [ENDINGS[phase]]
      try {
        await runCell({ phase, stage: bench, strike, endings, tally, recoveryMs: 20_000, runSeconds: 60 })
      } finally {
        await bench.close()
      }
    })
  })

  it('has answered once: kill -9, while a person is asked', { timeout: 300_000 }, async () => {
    await atOnce(async () => {
      const bench = await startProgramBench({ CONFIRM_BEFORE: 'always' })
      const { backend } = bench
      const calls = [true, false].map(approved => ({ approved, call: backend.pushCode(countedCode(0)) }))
      try {
        const isAsked = ({ fcall_id }: ToolCall) => stateOnDisk(bench.stateDir, fcall_id) === 'asked'
        await backend.waitFor(() => calls.every(({ call }) => isAsked(call)), 20_000)
        await kill(bench.program)
        await bench.restart()
        await sleep(500)
        expect(backend.answers.size).toBe(0)
        for (const { approved, call } of calls) backend.confirm(call.fcall_id, approved)
        for (const { call } of calls) await backend.waitForAnswer(call.fcall_id)
        const [ran, declined] = calls.map(({ call }) => findingsOf(backend, call))
        expect([ran?.status, ran?.runs, declined?.status, declined?.runs]).toEqual(['completed', 1, 'declined', 0])
        expect(backend.confirmations).toHaveLength(2)
        expect(backend.duplicates).toEqual([])
      } finally {
        tally.count(
          1,
          calls.map(({ call }) => findingsOf(backend, call)),
        )
        await bench.close()
      }
    })
  })
})

describe('a second worker on the same STATE_DIR', () => {
  it('exits 78 and names the one that has it, which goes on', { timeout: 300_000 }, async () => {
    const bench = await startProgramBench()
    const { backend, program } = bench
    try {
      const second = await bench.startUnconnected()
      expect(await second.exited).toEqual({ code: 78, signal: null })
      expect(second.stdout() + second.stderr()).toContain(String(program.pid))
      expect(backend.subscribers).toBe(1)
      const call = backend.pushCode(countedCode(0))
      await backend.waitForAnswer(call.fcall_id)
      expectEnding(findingsOf(backend, call), ['ran'])
    } finally {
      await bench.close()
    }
  })
})
