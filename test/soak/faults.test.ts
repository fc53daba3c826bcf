import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { descendants, survivors } from '../e2e/support/processes.js'
import { endPrograms, type Program, startWorkerProcess } from '../e2e/support/worker-process.js'
import { findingsOf } from '../fault/support/cell.js'
import { startProxy, type WireProxy } from '../fault/support/proxy.js'
import { inTurn, WIRE_FAULTS, type WireFault } from '../fault/support/wire-faults.js'
import { GROWTH_MOST_BYTES_A_CALL, heldBytes } from './support/growth.js'
import { settled, useOf } from './support/use.js'

const CALLS = Number(process.env['SOAK_FAULT_CALLS'] || 300)
const SEED = Number(process.env['FAULT_SEED'] || randomInt(2 ** 31))
const SLOTS = 8
/** More than slots: what is posted in vain for a while must not keep the rest from running. */
const UNANSWERED_MOST = 32
const TIMEOUT_MS = 240_000 + CALLS * 300
const PAUSE_MOST_MS = 500
/** The worker takes an end within 5 s for a refusal, and stays away for longer each time. */
const STANDS_MS = 5_500
/** An end that is a refusal by itself: after some the worker stays away for up to a minute, whatever happens in between. */
const SENT_AWAY_MOST = 3
const RECOVERY_MS = 100_000
const RSS_GROWTH_MOST_BYTES = 64 * 1024 * 1024
const SOME = 8
const PROBE = fileURLToPath(new URL('./support/resources.mjs', import.meta.url))
const CODE = 'import os\nprint(os.urandom(8).hex(), flush=True)'

afterEach(endPrograms)

/** The same numbers for the same seed, evenly below 1. */
function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Lets one thing after the other go wrong until it is told to stop; the wire is whole then. Returns how many did. */
async function misfortune(
  wire: { readonly backend: EmbeddedBackend; readonly proxy: WireProxy },
  random: () => number,
  stop: AbortSignal,
): Promise<number> {
  const strike = inTurn()
  let faults = 0
  let sentAway = 0
  let subscribedAtMs = performance.now()
  const forget = wire.backend.onEvent(event => {
    if (event.type === 'subscribed') subscribedAtMs = performance.now()
  })
  const fits = ({ ends }: WireFault) => {
    if (ends === 'nothing') return true
    if (wire.backend.subscribers === 0 || performance.now() - subscribedAtMs < STANDS_MS) return false
    return ends === 'subscription' || sentAway < SENT_AWAY_MOST
  }
  while (!stop.aborted) {
    const possible = WIRE_FAULTS.filter(fits)
    // What ends a subscription is seldom possible, so then it is one of these.
    const ending = possible.filter(({ ends }) => ends !== 'nothing')
    const choice = ending.length > 0 ? ending : possible
    const fault = choice[Math.floor(random() * choice.length)]
    if (fault === undefined) throw new Error('there is no fault')
    if (fault.ends === 'subscription, sent away') sentAway += 1
    faults += 1
    await strike(fault, wire, random() * PAUSE_MOST_MS)
    await sleep(random() * PAUSE_MOST_MS)
  }
  forget()
  wire.backend.clearMisbehaviour()
  await wire.proxy.heal()
  return faults
}

/** Timers and handles of the worker, by the probe in it. */
async function resourcesOf(program: Program): Promise<{ readonly timers: number; readonly handles: number }> {
  const before = program.stderr().length
  process.kill(program.pid, 'SIGUSR2')
  for (;;) {
    const line = /^resources (.*)$/m.exec(program.stderr().slice(before))?.[1]
    if (line !== undefined) {
      const counts = JSON.parse(line) as Record<string, number>
      const all = Object.values(counts).reduce((sum, count) => sum + count, 0)
      const timers = (counts['Timeout'] ?? 0) + (counts['Immediate'] ?? 0)
      return { timers, handles: all - timers }
    }
    await sleep(10)
  }
}

it(
  `${CALLS} calls while everything goes wrong by chance: none is lost, none is run or answered twice, and nothing leaks (FAULT_SEED=${SEED})`,
  async () => {
    const backend = await startEmbeddedBackend()
    const proxy = await startProxy(backend.port)
    const random = seeded(SEED)
    const calls: ToolCall[] = []
    let faults = 0
    try {
      const program = await startWorkerProcess(backend, {
        FLEXUS_API_BASEURL: proxy.url,
        MAX_CONCURRENT_CALLS: String(SLOTS),
        LOG_LEVEL: 'fatal',
        NODE_OPTIONS: `--max-old-space-size=160 --import=${PROBE}`,
      })
      const unanswered = () => calls.length - backend.answers.size
      const take = async (count: number) => {
        const stop = new AbortController()
        const struck = misfortune({ backend, proxy }, random, stop.signal)
        for (let n = 0; n < count; n++) {
          if (unanswered() >= UNANSWERED_MOST) {
            await backend.waitFor(
              () => unanswered() < UNANSWERED_MOST,
              RECOVERY_MS,
              () => 'no call was answered',
            )
          }
          calls.push(backend.pushCode(CODE))
          // Faults need time to happen in: a short soak would be over before the second.
          if (CALLS < 1_000) await sleep(20)
        }
        stop.abort()
        faults += await struck
        await backend.waitFor(
          () => unanswered() === 0,
          RECOVERY_MS,
          () => `${unanswered()} calls have no answer`,
        )
        await backend.waitFor(() => backend.subscribers === 1, RECOVERY_MS)
      }
      const use = async () => ({
        ...useOf(program),
        ...(await resourcesOf(program)),
        heldBytes: await heldBytes(program),
      })

      await take(Math.round(CALLS / 2))
      await sleep(5_000) // for idle connections to be closed
      const before = await settled(use)
      await take(CALLS - Math.round(CALLS / 2))
      await sleep(5_000)
      const after = await settled(use)

      const found = calls.map(call => findingsOf(backend, call))
      const lost = found.filter(({ status }) => status !== 'completed')
      const doubled = found.filter(({ runs, contradictions }) => runs !== 1 || contradictions.length > 0)
      const figures = JSON.stringify({ before, after })
      process.stdout.write(
        `faults: soak (FAULT_SEED=${SEED}): ${faults} faults, ${calls.length} calls, lost = ${lost.length}, doubled = ${doubled.length}; ${figures}\n`,
      )
      expect([...lost, ...doubled]).toEqual([])
      const growth = (after.heldBytes - before.heldBytes) / (CALLS - Math.round(CALLS / 2))
      expect(growth, figures).toBeLessThan(GROWTH_MOST_BYTES_A_CALL)
      expect(after.rssBytes - before.rssBytes, figures).toBeLessThan(RSS_GROWTH_MOST_BYTES)
      for (const name of ['descriptors', 'processes', 'timers', 'handles'] as const) {
        expect(after[name] - before[name], `${name}: ${figures}`).toBeLessThanOrEqual(SOME)
      }

      const below = descendants(program.pid)
      program.child.kill('SIGTERM')
      expect(await program.exited).toEqual({ code: 0, signal: null })
      expect(await survivors(below, 5_000)).toEqual([])
    } finally {
      await proxy.close()
      await backend.close()
    }
  },
  TIMEOUT_MS,
)
