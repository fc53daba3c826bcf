import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterEach, expect, it } from 'vitest'
import { startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { openSandbox } from '../../src/sandbox/open.js'
import { faults, statusOf } from '../e2e/support/answers.js'
import { descendants, type ProcessFacts, survivors } from '../e2e/support/processes.js'
import { endPrograms, leftFolders, startWorkerProcess } from '../e2e/support/worker-process.js'
import { sandboxConfig } from '../sandbox/support/config.js'
import { readablePython } from '../sandbox/support/pythons.js'
import { GROWTH_MOST_BYTES_A_CALL, growthPerCall, heldBytes, type Sample } from './support/growth.js'
import { settled, useOf } from './support/use.js'

/** A few hundred show a leak of one thing a call; what leaks less often, and memory, takes thousands. */
const CALLS = Number(process.env['SOAK_CALLS'] || 300)
/** Code is compiled, every kind of sandbox has been parked, and of 5 000 the journal's 2 000 settled answers are full. */
const WARM_UP = Math.round(CALLS / 2)
const TIMEOUT_MS = 60_000 + CALLS * 300
/** With the memory that a large machine has, V8 puts off collecting for longer than this test lasts; a leak breaks this bound. */
const HEAP_MIB = 160
/** Between two looks at the heap. */
const STEP = Math.max(1, Math.ceil((CALLS - WARM_UP) / 10))
/** Of what is outside of the heap, and so wide; memory is judged by what each call adds to the heap and to buffers. */
const RSS_GROWTH_MOST_BYTES = 64 * 1024 * 1024
/** A zygote of each kind that was replaced, as long as it has parked sandboxes; a connection that is being closed. */
const SOME = 6

/** Ends of every sort, by turns: text, a library, an exception, a file and a child, more than is kept. */
const SCRIPTS: readonly { readonly code: string; readonly status: string }[] = [
  { code: 'print("a line")', status: 'completed' },
  { code: '# numpy\nsum(range(1000))', status: 'completed' },
  { code: 'raise ValueError("meant to be")', status: 'failed' },
  { code: 'open("file.txt", "w").write("x" * 10_000)\nprint("written")', status: 'completed' },
  { code: 'for _ in range(2_000): print("y" * 100)', status: 'completed' },
]
const PROBE = fileURLToPath(new URL('./support/resources.mjs', import.meta.url))
const scriptOf = (call: number) => SCRIPTS[call % SCRIPTS.length] ?? { code: '', status: '' }

afterEach(endPrograms)

it(
  `a worker that has taken ${CALLS} calls uses what it used before, and leaves nothing`,
  async () => {
    const backend = await startEmbeddedBackend()
    try {
      const program = await startWorkerProcess(backend, {
        SANDBOX_PRELOAD: 'numpy',
        LOG_LEVEL: 'warn',
        STDOUT_KEPT_BYTES: '2000', // answers are kept on purpose, and large ones would look like a leak
        NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB} --import=${PROBE}`,
      })
      const all: string[] = []
      const take = async (from: number, to: number) => {
        for (let call = from; call < to; call++) {
          const { fcall_id } = backend.pushCode(scriptOf(call).code)
          all.push(fcall_id)
          expect(statusOf(await backend.waitForAnswer(fcall_id, 20_000))).toBe(scriptOf(call).status)
        }
      }
      await take(0, WARM_UP)
      const before = await settled(() => useOf(program))
      const begun = performance.now()
      const samples: Sample[] = [{ calls: WARM_UP, bytes: await heldBytes(program) }]
      for (let from = WARM_UP; from < CALLS; from += STEP) {
        const to = Math.min(CALLS, from + STEP)
        await take(from, to)
        samples.push({ calls: to, bytes: await heldBytes(program) })
      }
      const perSecond = Math.round(((CALLS - WARM_UP) * 1000) / (performance.now() - begun))
      const after = await settled(() => useOf(program))
      const growth = Math.round(growthPerCall(samples))
      const figures = JSON.stringify({ calls: CALLS, perSecond, growth, before, after, samples })
      if (process.env['SOAK_CALLS']) process.stdout.write(`${figures}\n`)
      expect(growth, figures).toBeLessThan(GROWTH_MOST_BYTES_A_CALL)
      expect(after.rssBytes - before.rssBytes, figures).toBeLessThan(RSS_GROWTH_MOST_BYTES)
      expect(after.descriptors - before.descriptors, figures).toBeLessThanOrEqual(SOME)
      expect(after.processes - before.processes, figures).toBeLessThanOrEqual(SOME)
      expect(faults(backend, all)).toEqual([])
      expect(await leftFolders(program)).toHaveLength(1) // its own, while it lives

      const below: ProcessFacts[] = descendants(program.pid)
      program.child.kill('SIGTERM')
      expect(await program.exited).toEqual({ code: 0, signal: null })
      expect(await survivors(below, 5_000)).toEqual([])
      expect(await leftFolders(program)).toEqual([])
    } finally {
      await backend.close()
    }
  },
  TIMEOUT_MS,
)

it.each(['namespaces', 'landlock'] as const)(
  `${CALLS} runs in the %s tier leave no handle and no descriptor in the process that ordered them`,
  async tier => {
    const { pool } = await openSandbox({
      config: sandboxConfig({ tier, python: readablePython() }),
      streamMaxBytes: 10_000,
      cpus: 2,
      env: process.env,
      log: pino({ level: 'silent' }),
      skipSelfTest: true,
    })
    const use = () => ({
      handles: process.getActiveResourcesInfo().length,
      descriptors: readdirSync('/proc/self/fd').length,
      processes: descendants(process.pid).length,
    })
    const take = async (from: number, to: number) => {
      for (let call = from; call < to; call++) {
        const { code, status } = scriptOf(call)
        const request = { code, wallMs: 20_000, signal: new AbortController().signal, onStdout: () => {} }
        expect((await pool.run(request)).status).toBe(status)
      }
    }
    try {
      await take(0, WARM_UP)
      const before = await settled(use)
      await take(WARM_UP, CALLS)
      const after = await settled(use)
      const figures = JSON.stringify({ before, after })
      if (process.env['SOAK_CALLS']) process.stdout.write(`${tier} ${figures}\n`)
      expect(after.handles - before.handles, figures).toBeLessThanOrEqual(SOME)
      expect(after.descriptors - before.descriptors, figures).toBeLessThanOrEqual(SOME)
      expect(after.processes - before.processes, figures).toBeLessThanOrEqual(SOME)
    } finally {
      await pool.close()
    }
  },
  TIMEOUT_MS,
)
