import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import { openSandbox } from '../../src/sandbox/open.js'
import type { Pool } from '../../src/sandbox/pool.js'
import { survivors } from '../e2e/support/processes.js'
import { sandboxConfig } from '../sandbox/support/config.js'
import { readablePython } from '../sandbox/support/pythons.js'
import { machineryProcesses, useOfProcess } from './support/machinery-use.js'
import { settled } from './support/use.js'

const RUNS_PER_ZYGOTE = 8
/** Zygotes that are seen before the first figures, and from then until the last. */
const WARM_UP = 6
const MORE = 8
const TIMEOUT_MS = 180_000
const MIB = 1024 * 1024
/** Of a page here and there that fork or collector have touched. A kept megabyte a zygote would be over it. */
const RSS_GROWTH_MOST_BYTES = 4 * MIB
/** A sandbox that is on its way when all others are parked. */
const SOME = 2

const SCRIPTS: readonly { readonly code: string; readonly status: string }[] = [
  { code: 'print("a line")', status: 'completed' },
  { code: 'import sqlite3\nsqlite3.connect(":memory:").execute("select 1")', status: 'completed' },
  { code: 'raise ValueError("meant to be")', status: 'failed' },
  { code: '# sqlite3\nimport os\nos._exit(3)', status: 'failed' },
  { code: 'import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)', status: 'crashed' },
  { code: '# sqlite3\nwhile True: pass', status: 'timed_out' },
]
/** A child that its parent never waits for, and one that outlives it. */
const ORPHANS = '# sqlite3\nimport os, time\nif os.fork() == 0: os._exit(0)\nif os.fork() == 0: time.sleep(60)'

let pool: Pool
afterEach(() => pool.close())

describe.each(['namespaces', 'landlock'] as const)('the machinery of the %s tier', tier => {
  const scripts = tier === 'landlock' ? SCRIPTS : [...SCRIPTS, { code: ORPHANS, status: 'completed' }]

  it(
    'holds after many zygotes what it held before, as does each of them, and leaves no zombie',
    async () => {
      const opened = await openSandbox({
        config: sandboxConfig({ tier, python: readablePython(), preload: ['sqlite3'] }),
        streamMaxBytes: 10_000,
        cpus: 2,
        env: process.env,
        log: pino({ level: 'silent' }),
        skipSelfTest: true,
        runsPerZygote: RUNS_PER_ZYGOTE,
      })
      pool = opened.pool
      const seen = new Set<string>()
      let calls = 0
      const take = async (zygotes: number) => {
        const until = seen.size + zygotes
        while (seen.size < until) {
          const { code, status } = scripts[calls++ % scripts.length] ?? { code: '', status: '' }
          const wallMs = status === 'timed_out' ? 150 : 20_000
          const request = { code, wallMs, signal: new AbortController().signal, onStdout: () => {} }
          expect(`${code}: ${(await pool.run(request)).status}`).toBe(`${code}: ${status}`)
          for (const one of machineryProcesses().zygotes) seen.add(`${one.pid} ${one.startTicks}`)
        }
      }
      /** Figures of the template, and the largest of the two zygotes that are left once their predecessors have gone. */
      const use = async () => {
        await expect.poll(() => machineryProcesses().zygotes.length, { timeout: 20_000 }).toBe(2)
        return settled(async () => {
          for (;;) {
            const { template, zygotes, zombies } = machineryProcesses()
            const [ours, first, second] = [template, ...zygotes].map(useOfProcess)
            if (!ours || !first || !second || zygotes.length !== 2) {
              await sleep(50)
              continue
            }
            const most = (name: keyof typeof first) => Math.max(first[name], second[name])
            return {
              templateRss: ours.rssBytes,
              templateDescriptors: ours.descriptors,
              templateThreads: ours.threads,
              templateChildren: ours.children,
              zygoteRss: most('rssBytes'),
              zygoteDescriptors: most('descriptors'),
              zygoteThreads: most('threads'),
              zygoteChildren: most('children'),
              zombies: zombies.length,
            }
          }
        })
      }

      await take(WARM_UP)
      const before = await use()
      await take(MORE)
      const after = await use()
      const figures = JSON.stringify({ tier, calls, zygotes: seen.size, before, after })
      if (process.env['SOAK_CALLS']) process.stdout.write(`${figures}\n`)
      expect(after.zombies, figures).toBe(0)
      expect([after.templateThreads, after.zygoteThreads], figures).toEqual([1, 1])
      for (const name of ['templateDescriptors', 'templateChildren', 'zygoteDescriptors', 'zygoteChildren'] as const) {
        expect(after[name] - before[name], `${name}: ${figures}`).toBeLessThanOrEqual(SOME)
      }
      for (const name of ['templateRss', 'zygoteRss'] as const) {
        expect(after[name] - before[name], `${name}: ${figures}`).toBeLessThan(RSS_GROWTH_MOST_BYTES)
      }

      const { template, zygotes } = machineryProcesses()
      await pool.close()
      expect(await survivors([template, ...zygotes], 5_000)).toEqual([])
    },
    TIMEOUT_MS,
  )
})
