import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { SandboxReport } from '../../src/outcome.js'
import { openSandbox } from '../../src/sandbox/open.js'
import type { Pool } from '../../src/sandbox/pool.js'
import { sandboxConfig } from './support/config.js'
import { descendants, type Process, stillAlive } from './support/processes.js'
import { readablePython } from './support/pythons.js'

const RUNS = 60
const RUNS_PER_ZYGOTE = 5
const IMPORT_MS = 2_000
/** A run that waited for an import would take longer, one that has to wait for a busy machine hardly does. */
const START_MOST_MS = 1_500
/** Long enough that several imports fit into all runs. */
const CODE = 'import slow, time\ntime.sleep(0.05)\nprint("done")'

let folder: string
let pool: Pool
let seen: Map<string, Process>

beforeAll(() => {
  folder = mkdtempSync('/tmp/replacement-')
  chmodSync(folder, 0o755)
  execFileSync(readablePython(), ['-m', 'venv', '--without-pip', join(folder, 'venv')])
  const lib = join(folder, 'venv', 'lib')
  const source = `import time\ntime.sleep(${IMPORT_MS / 1000})\n`
  writeFileSync(join(lib, readdirSync(lib)[0] ?? '', 'site-packages', 'slow.py'), source)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const zygotes = () => descendants().filter(one => one.name === 'zygote')

async function run(code = CODE): Promise<SandboxReport> {
  const report = await pool.run({ code, wallMs: 20_000, signal: new AbortController().signal, onStdout: () => {} })
  for (const zygote of zygotes()) seen.set(`${zygote.pid} ${zygote.startedAt}`, zygote)
  return report
}

async function runAll(atOnce: number): Promise<SandboxReport[]> {
  const reports: SandboxReport[] = []
  let begun = 0
  const one = async () => {
    while (begun++ < RUNS) reports.push(await run())
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  return reports
}

describe.each(['namespaces', 'landlock'] as const)('zygotes of the %s tier, replaced after a few runs', tier => {
  beforeEach(async () => {
    seen = new Map()
    const opened = await openSandbox({
      config: sandboxConfig({ tier, python: join(folder, 'venv', 'bin', 'python'), preload: ['slow'] }),
      streamMaxBytes: 1,
      cpus: 2,
      env: process.env,
      log: pino({ level: 'silent' }),
      skipSelfTest: true,
      runsPerZygote: RUNS_PER_ZYGOTE,
    })
    pool = opened.pool
  })

  afterEach(() => pool.close())

  it.each([1, 8])('serve without a pause, %i runs at a time', async atOnce => {
    const reports = await runAll(atOnce)
    const ends = reports.map(({ status, stdout, reason }) => ({ status, stdout: stdout.text, reason }))
    expect(ends.filter(end => end.status !== 'completed' || end.stdout !== 'done\n')).toEqual([])
    expect(reports).toHaveLength(RUNS)
    // Eight at once start with two that are parked: the rest waits for its sandbox, but for no import.
    expect(Math.max(...reports.map(report => report.usage.start_ms))).toBeLessThan(START_MOST_MS)
    // None of the runs has imported it anew either.
    expect(Math.max(...reports.map(report => report.usage.run_ms))).toBeLessThan(50 + IMPORT_MS)
  })

  it('have each a hash seed and an address layout of its own', async () => {
    const code = `import ctypes\nprint(hash("seed"), ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value)`
    const lines = new Set<string>()
    const end = performance.now() + 20_000
    while (lines.size < 3 && performance.now() < end) lines.add((await run(code)).stdout.text)
    const fields = [...lines].map(line => line.trim().split(' '))
    for (const field of [0, 1]) expect(new Set(fields.map(one => one[field])).size).toBe(lines.size)
    // That of the template, and of two that came after it.
    expect(lines.size).toBe(3)
  })

  it('are new processes, and the old ones go when their last run has ended', async () => {
    const before = zygotes()
    expect(before).toHaveLength(2) // lean and data
    const fromTheFirst = run('import slow, time\ntime.sleep(1.5)\nprint("to its end")')
    await runAll(2)
    expect((await fromTheFirst).stdout.text).toBe('to its end\n')
    expect(seen.size).toBeGreaterThanOrEqual(3)
    // Two that serve, and perhaps one that is being replaced just now.
    await expect.poll(() => zygotes().length, { timeout: 10_000 }).toBeLessThanOrEqual(3)
    await expect
      .poll(() => seen.size - stillAlive([...seen.values()]).length, { timeout: 10_000 })
      .toBeGreaterThanOrEqual(1)
    for (let round = 0; round < 2; round++) await run()
    await expect.poll(() => stillAlive(before).length, { timeout: 10_000 }).toBe(1) // the lean one, which had no runs
  })
})
