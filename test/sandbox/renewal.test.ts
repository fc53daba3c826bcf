import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openSandbox } from '../../src/sandbox/open.js'
import type { Pool } from '../../src/sandbox/pool.js'
import { type CapturedLog, captureLog } from '../backend/support/fixtures.js'
import { sandboxConfig } from './support/config.js'
import { readablePython } from './support/pythons.js'

const RUNS_PER_ZYGOTE = 4
/** A new zygote takes as long as some runs. */
const RUNS_MOST = 300

let folder: string
let python: string
let pool: Pool
let logged: CapturedLog
let health: (string | null)[]

/** An interpreter of its own that can be taken away: a copy of the real one. */
beforeEach(() => {
  folder = mkdtempSync('/tmp/renewal-')
  chmodSync(folder, 0o755)
  execFileSync(readablePython(), ['-m', 'venv', '--without-pip', '--copies', folder])
  python = path.join(folder, 'bin', 'python3')
  const real = realpathSync(python)
  if (real !== python) {
    unlinkSync(python)
    copyFileSync(real, python)
  }
  logged = captureLog()
  health = []
})
afterEach(async () => {
  await pool.close()
  rmSync(folder, { recursive: true, force: true })
})

async function open(tier: 'namespaces' | 'landlock'): Promise<void> {
  const opened = await openSandbox({
    config: sandboxConfig({ tier, python }),
    streamMaxBytes: 1,
    cpus: 2,
    env: process.env,
    log: logged.log,
    onHealth: (healthy, reason) => health.push(healthy ? null : reason),
    skipSelfTest: true,
    runsPerZygote: RUNS_PER_ZYGOTE,
  })
  pool = opened.pool
}

async function run(): Promise<string> {
  const code = 'print(hash("a"))'
  const report = await pool.run({ code, wallMs: 20_000, signal: new AbortController().signal, onStdout: () => {} })
  return report.status === 'completed' ? report.stdout.text : `${report.status}: ${report.reason}`
}

describe.each(['namespaces', 'landlock'] as const)('a zygote that is replaced in the %s tier', tier => {
  it('has a hash seed of its own', async () => {
    await open(tier)
    const seen = new Set<string>()
    for (let n = 0; n < RUNS_MOST && seen.size < 2; n++) seen.add(await run())
    expect(seen.size).toBe(2)
    expect([...seen].filter(hash => !/^-?\d+\n$/.test(hash))).toEqual([])
  })

  it('is forked as the first one was where the interpreter can not be started, serves, and says so', async () => {
    await open(tier)
    renameSync(python, `${python}.away`)
    const seen = new Set<string>()
    const isTold = () => logged.messages().includes('zygote shares hash seed and address layout with the one before it')
    for (let n = 0; n < RUNS_MOST && !isTold(); n++) seen.add(await run())
    expect(isTold()).toBe(true)
    for (let n = 0; n < 2 * RUNS_PER_ZYGOTE; n++) seen.add(await run())
    expect(seen.size).toBe(1)
    expect(health).toEqual([])
  })

  it('is missed within a second when it ends before it has connected, and the old one serves on', async () => {
    await open(tier)
    renameSync(python, `${python}.away`)
    writeFileSync(python, '#!/bin/sh\nexit 3\n', { mode: 0o755 })
    const results: string[] = []
    const from = performance.now()
    for (let n = 0; n < 6 * RUNS_PER_ZYGOTE; n++) results.push(await run())
    expect(results.filter(hash => !/^-?\d+\n$/.test(hash))).toEqual([])
    await expect.poll(() => logged.messages(), { timeout: 5_000 }).toContain('zygote could not be replaced')
    expect(performance.now() - from).toBeLessThan(20_000) // its imports are waited for for 60 s
    expect(JSON.stringify(logged.lines)).toContain('the zygote ended before it had connected')
  })
})
