import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import type { Toolset } from '../../src/commands/setup.js'
import { openSharedTools, startBench } from './support/bench.js'
import { findingsOf } from './support/cell.js'
import { FULL, tallyOf } from './support/tally.js'
import { inTurn, WIRE_FAULTS } from './support/wire-faults.js'

/** FAULT_SEED repeats a run; fast-check then looks for the shortest sequence that fails. */
const SEED = Number(process.env['FAULT_SEED'] || randomInt(2 ** 31))
const SIDE_BY_SIDE = 4
const RUNS = FULL ? 15 : 2
/** Two refusals of the key in a row are followed by a minute of waiting. */
const RECOVERY_MS = 90_000

const TOKEN = 'import os, time\nprint(os.urandom(8).hex(), flush=True)\n'
const SCRIPTS = {
  quick: { code: TOKEN, status: 'completed' },
  slow: { code: `${TOKEN}time.sleep(0.5)`, status: 'completed' },
  large: { code: `${TOKEN}print("x" * 30_000)`, status: 'completed' },
  failing: { code: `${TOKEN}raise ValueError("meant to be")`, status: 'failed' },
} as const
type Script = keyof typeof SCRIPTS

type Step =
  | { readonly push: Script }
  | { readonly fault: string; readonly ms: number }
  /** The backend delivers a call of before once more, whatever has become of it. */
  | { readonly again: number }
  | { readonly pauseMs: number }
  /** All that runs has ended by then: what a restart does to running code is for the grid. */
  | { readonly restart: true }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ push: fc.constantFrom<Script>('quick', 'slow', 'large', 'failing') }) },
  {
    weight: 6,
    arbitrary: fc.record({
      fault: fc.constantFrom(...WIRE_FAULTS.map(fault => fault.name)),
      ms: fc.integer({ min: 0, max: 800 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ again: fc.nat({ max: 20 }) }) },
  { weight: 1, arbitrary: fc.constant({ restart: true } as const) },
  { weight: 2, arbitrary: fc.record({ pauseMs: fc.integer({ min: 0, max: 600 }) }) },
)

const tally = tallyOf('sequences')
let tools: Toolset
beforeAll(async () => {
  tools = await openSharedTools(8)
})
afterAll(() => tools.pool.close())

async function play(steps: readonly Step[]): Promise<void> {
  const bench = await startBench(tools, { slots: 3 })
  const { backend } = bench
  const pushed: { readonly call: ToolCall; readonly script: Script }[] = []
  const strike = inTurn()
  const pending: Promise<void>[] = []
  const push = (script: Script) => pushed.push({ call: backend.pushCode(SCRIPTS[script].code), script })
  try {
    for (const one of steps) {
      if ('push' in one) push(one.push)
      else if ('pauseMs' in one) await sleep(one.pauseMs)
      else if ('restart' in one) {
        await Promise.all(pending)
        for (const { call } of pushed) await backend.waitForAnswer(call.fcall_id, RECOVERY_MS)
        await bench.restart()
        await backend.waitFor(() => backend.subscribers > 0, RECOVERY_MS)
      } else if ('again' in one) {
        const call = pushed[one.again % Math.max(1, pushed.length)]?.call
        if (call !== undefined) backend.sendToSubscriptions('next', { data: { cloudtool_wait_for_call: call } })
      } else {
        const fault = WIRE_FAULTS.find(({ name }) => name === one.fault)
        if (fault !== undefined) pending.push(strike(fault, bench, one.ms))
        await sleep(one.ms / 4)
      }
    }
    await Promise.all(pending)
    backend.clearMisbehaviour()
    await bench.proxy.heal()
    push('quick')
    for (const { call } of pushed) await backend.waitForAnswer(call.fcall_id, RECOVERY_MS)
    await sleep(200)
    const seen = pushed.map(({ call, script }) => {
      const { status, runs, contradictions } = findingsOf(backend, call)
      return { script, status, runs, contradictions }
    })
    expect(seen).toEqual(
      pushed.map(({ script }) => ({ script, status: SCRIPTS[script].status, runs: 1, contradictions: [] })),
    )
  } finally {
    tally.count(
      pending.length,
      pushed.map(({ call }) => findingsOf(backend, call)),
    )
    await Promise.allSettled(pending)
    await bench.close()
  }
}

describe.concurrent(`sequences of faults and calls, FAULT_SEED=${SEED}`, () => {
  it.each(Array.from({ length: SIDE_BY_SIDE }, (_, n) => n))(
    'lose nothing and answer nothing twice (%i)',
    { timeout: 60_000 + RUNS * 100_000 },
    async n => {
      const sequence = fc.array(step, { minLength: 4, maxLength: 16, size: 'max' })
      await fc.assert(fc.asyncProperty(sequence, play), {
        seed: SEED + n,
        numRuns: RUNS,
        endOnFailure: !process.env['FAULT_SEED'],
      })
    },
  )
})
