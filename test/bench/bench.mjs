// Measures the sandbox beside its baselines in one run: `npm run bench`. Prints a table and writes JSON.
//
//   node test/bench/bench.mjs [--quick] [--out FILE] [--report]
//   node test/bench/bench.mjs --cpu lean|data        only where the processor time of a call goes, see cpu.mjs
//
// Ends with 1 when a figure misses what it is to reach, unless --report is given: then it only tells.
//
// Ratios of one run are what counts: machines differ, and are noisy. Needs an interpreter with numpy and pandas
// (SANDBOX_PYTHON) for the figures about data.

import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { loadConfig } from '../../dist/config.js'
import { readHostFacts } from '../../dist/host.js'
import { openSandbox } from '../../dist/sandbox/open.js'
import { createLog } from '../../dist/telemetry/log.js'
import { toolCallMs } from './tool-calls.mjs'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    out: { type: 'string', default: 'bench.json' },
    report: { type: 'boolean', default: false },
    cpu: { type: 'string' },
  },
})
const ROUNDS = values.quick ? 20 : 100
const SECONDS = values.quick ? 2 : 8
const MIB = 1024 * 1024
const LIMIT = fileURLToPath(new URL('./limit.py', import.meta.url))
/** The baselines run without what the machine sets for Python, as sandboxes do. */
const CLEAN = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PYTHON')))

const host = readHostFacts()
const log = createLog({ level: 'error', pretty: true, destination: 'stderr' })
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const now = () => performance.now()
const sorted = list => [...list].sort((a, b) => a - b)
const quantile = (list, q) => sorted(list)[Math.min(list.length - 1, Math.floor(list.length * q))]

async function timed(action) {
  const start = now()
  const result = await action()
  return { ms: now() - start, result }
}

async function open(env = {}) {
  const config = loadConfig({ ...process.env, ...env }, host, { backend: false })
  const { pool } = await openSandbox({
    config: config.sandbox,
    streamMaxBytes: config.streamMaxBytes,
    cpus: host.cpus,
    env: process.env,
    log,
  })
  return pool
}

async function run(pool, code, wallMs = 60_000) {
  const report = await pool.run({ code, wallMs, signal: new AbortController().signal, onStdout: () => {} })
  if (report.status !== 'completed') throw new Error(`${code} ended as ${report.status}: ${report.stderr.text}`)
  return report
}

function bare(args) {
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, { env: CLEAN, stdio: ['ignore', 'pipe', 'inherit'] })
    child.stdout.resume()
    child.once('error', reject)
    child.once('close', code => (code === 0 ? resolve() : reject(new Error(`${args.join(' ')} ended with ${code}`))))
  })
}

const figures = []
function figure(name, value, unit, baseline, reach, ratio = value / baseline) {
  const ok = reach.most !== undefined ? ratio <= reach.most : ratio >= reach.least
  figures.push({ name, value, unit, baseline, ratio, ...reach, ok })
  const limit = reach.most !== undefined ? `≤ ${reach.most}` : `≥ ${reach.least}`
  const shown = [value, baseline].map(x => (x === null ? '–' : x.toFixed(2).padStart(10)))
  console.log(
    `${ok ? 'ok  ' : 'MISS'} ${name.padEnd(44)} ${shown[0]} ${unit.padEnd(4)} ${shown[1]}  ${ratio.toFixed(3).padStart(8)} (${limit})`,
  )
}

// ---------------------------------------------------------------- what is measured

async function latency(pool) {
  const calls = { trivial: [], pandas: [] }
  const spawned = { trivial: [], pandas: [] }
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(20) // as calls come: one after the other, with time to refill
    calls.trivial.push((await timed(() => run(pool, 'print(1)'))).ms)
    spawned.trivial.push((await timed(() => bare(['-I', '-c', 'print(1)']))).ms)
    if (round % 4 !== 0) continue
    await sleep(20)
    calls.pandas.push((await timed(() => run(pool, 'import numpy, pandas; print(1)'))).ms)
    spawned.pandas.push((await timed(() => bare(['-c', 'import numpy, pandas; print(1)']))).ms)
  }
  const p50 = quantile(spawned.trivial, 0.5)
  figure('warm call, trivial, p50', quantile(calls.trivial, 0.5), 'ms', p50, { most: 0.25 })
  figure('warm call, trivial, p95', quantile(calls.trivial, 0.95), 'ms', p50, { most: 0.6 })
  figure('warm call with pandas, p50', quantile(calls.pandas, 0.5), 'ms', quantile(spawned.pandas, 0.5), { most: 0.02 })
}

function limitPerSecond(modules) {
  const output = execFileSync(python, [LIMIT, String(SECONDS), ...modules], { env: CLEAN, encoding: 'utf8' })
  return JSON.parse(output).per_second
}

async function throughput(pool, name, code, modules) {
  const end = now() + SECONDS * 1000
  let calls = 0
  await Promise.all(
    Array.from({ length: host.cpus * 4 }, async () => {
      while (now() < end) {
        await run(pool, code)
        calls++
      }
    }),
  )
  figure(`throughput, ${name}`, calls / SECONDS, '/s', limitPerSecond(modules), { least: 0.5 })
}

/** Private memory of one warden and one guest, from the processes of a pool at rest. */
function parkedMemory() {
  const privateOf = pid => {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    return [...text.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].reduce((sum, [, kb]) => sum + Number(kb) * 1024, 0)
  }
  const parentOf = pid => /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  const isOurs = pid => pid === String(process.pid) || (Number(pid) > 1 && isOurs(parentOf(pid)))
  const found = { warden: [], guest: [] }
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      if (!isOurs(pid)) continue // another worker's
      const comm = readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
      const parent = parentOf(pid)
      const parentComm = parent === '0' ? '' : readFileSync(`/proc/${parent}/comm`, 'utf8').trim()
      if (comm === 'warden') found.warden.push(privateOf(pid))
      else if (parentComm === 'zygote') found.guest.push(privateOf(pid))
    } catch {} // it went while we looked
  }
  if (found.warden.length === 0 || found.guest.length === 0) throw new Error('no parked sandbox was found')
  return quantile(found.warden, 0.5) + quantile(found.guest, 0.5)
}

async function start() {
  const imports = 'import numpy, pandas, matplotlib.pyplot'
  const samples = { pool: [], bare: [] }
  for (let round = 0; round < 3; round++) {
    samples.bare.push((await timed(() => bare(['-c', imports]))).ms)
    const { ms, result } = await timed(async () => {
      const opened = await open()
      await run(opened, 'import numpy, pandas') // one that is parked, and proves it
      return opened
    })
    samples.pool.push(ms)
    await result.close()
  }
  const baseline = quantile(samples.bare, 0.5)
  const value = quantile(samples.pool, 0.5)
  figure('start to first parked data sandbox, beyond import', value, 'ms', baseline, { most: 300 }, value - baseline)
}

async function output(pool) {
  const bytes = (values.quick ? 50 : 200) * 1_000_000
  const scripts = {
    '64 KiB writes': [`import os\nfor _ in range(${Math.floor(bytes / 65536)}): os.write(1, b"x" * 65536)`, [], 0.25],
    '1 000-byte prints': [`for _ in range(${Math.floor(bytes / 4 / 1000)}): print("x" * 999)`, ['-u'], 0.5],
  }
  for (const [name, [code, flags, least]] of Object.entries(scripts)) {
    const cat = await timed(
      () =>
        new Promise(resolve => {
          const shell = spawn('sh', ['-c', '"$0" "$@" | cat >/dev/null', python, ...flags, '-c', code], { env: CLEAN })
          shell.once('close', resolve)
        }),
    )
    const before = process.memoryUsage().rss
    let most = before
    const watch = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss)
    }, 10)
    const { ms } = await timed(() => run(pool, code))
    clearInterval(watch)
    figure(`output, ${name}: speed`, 1000 / ms, '/ks', 1000 / cat.ms, { least })
    figure(`output, ${name}: worker memory`, (most - before) / MIB, 'MiB', 32, { most: 1 })
  }
}

async function toolCalls(pool) {
  const [inARow, together, slow] = await toolCallMs(pool, log)
  figure('tool call that does nothing, one by one, p50', inARow, 'ms', 1, { most: 1 })
  figure('tool call that does nothing, 50 at once, each', together, 'ms', 1, { most: 1 })
  figure('10 tool calls of 0.3 s in 10 threads', slow, 'ms', 600, { most: 1 })
}

async function sleepers() {
  const pool = await open({ MAX_CONCURRENT_CALLS: '64' })
  await sleep(500)
  const { ms } = await timed(() =>
    Promise.all(Array.from({ length: 64 }, () => run(pool, 'import time; time.sleep(1)'))),
  )
  figure('64 sandboxes sleeping 1 s at once', ms, 'ms', 1500, { most: 1 })
  await pool.close()
}

// ---------------------------------------------------------------- main

if (values.cpu !== undefined) {
  const { cpuPerCall } = await import('./cpu.mjs')
  await cpuPerCall(values.cpu)
  process.exit(0)
}
const pool = await open()
const python = pool.facts.interpreter.path
if (pool.facts.installed.pandas === undefined) {
  console.error(`${python} has no pandas, which the bench measures with: give one that has it as SANDBOX_PYTHON`)
  await pool.close()
  process.exit(69)
}
console.log(`${pool.facts.tier} tier, Python ${pool.facts.interpreter.version}, ${host.cpus} CPUs\n`)
console.log(`     ${'figure'.padEnd(44)} ${'value'.padStart(10)}      ${'baseline'.padStart(10)}     ratio (reach)`)
await latency(pool)
await sleep(500)
figure('private memory of a parked sandbox', parkedMemory() / MIB, 'MiB', 3, { most: 1 })
await throughput(pool, 'lean', 'print(1)', [])
await throughput(pool, 'data', 'import numpy, pandas; print(1)', ['numpy', 'pandas'])
await output(pool)
await toolCalls(pool)
await pool.close()
await start()
await sleepers()
writeFileSync(values.out, `${JSON.stringify({ tier: pool.facts.tier, cpus: host.cpus, figures }, null, 2)}\n`)
const missed = figures.filter(one => !one.ok)
console.log(`\n${figures.length - missed.length} of ${figures.length} reached; written to ${values.out}`)
if (missed.length > 0) {
  console.log(`missed: ${missed.map(one => one.name).join('; ')}`)
  if (!values.report) process.exitCode = 1
}
