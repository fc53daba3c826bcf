// Where the CPU time of a call goes, by process: `npm run bench -- --cpu lean`, or `data`.
//
// A closed loop of small calls, and the processor time that worker, template, zygotes, wardens and guests have used for
// it, with their page faults. Unlike the calls per second of bench.mjs these figures hardly depend on what else runs.

import { readdirSync, readFileSync } from 'node:fs'
import { loadConfig } from '../../dist/config.js'
import { readHostFacts } from '../../dist/host.js'
import { openSandbox } from '../../dist/sandbox/open.js'
import { createLog } from '../../dist/telemetry/log.js'

const TICK_MS = 10
const CALLS = 300
const AT_ONCE = 8

/** {user, system, faults} of a process itself and of its children that it has waited for. */
function used(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  const of = (user, system, faults) => ({ user: user * TICK_MS, system: system * TICK_MS, faults })
  return { own: of(fields[11], fields[12], fields[7]), children: of(fields[13], fields[14], fields[8]) }
}

function descendants() {
  const found = new Map()
  const parents = new Map()
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
      const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      parents.set(pid, { parent, name: stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')) })
    } catch {} // it went while we looked
  }
  const isOurs = pid => pid === String(process.pid) || (parents.has(pid) && isOurs(parents.get(pid).parent))
  for (const [pid, { name, parent }] of parents) if (isOurs(pid)) found.set(pid, { name, parent })
  return found
}

function snapshot() {
  const all = descendants()
  const sum = {}
  const add = (role, figures) => {
    sum[role] ??= { user: 0, system: 0, faults: 0 }
    for (const key of Object.keys(figures)) sum[role][key] += figures[key]
  }
  for (const [pid, { name, parent }] of all) {
    try {
      const { own, children } = used(pid)
      if (pid === String(process.pid)) add('worker', own)
      else if (name === 'zygote') {
        add('zygotes', own)
        add('guests', children)
      } else if (name === 'warden') add('wardens', own)
      else if (all.get(parent)?.name === 'zygote') add('guests', own)
      else {
        add('template', own)
        if (all.get(parent)?.name !== 'node' || ![...all.values()].some(one => one.parent === pid))
          add('wardens', children)
        else if (![...all].some(([, one]) => one.parent === pid && one.name.startsWith('python')))
          add('wardens', children)
      }
    } catch {}
  }
  return sum
}

/** Prints a table. kind: "lean" or "data". */
export async function cpuPerCall(kind) {
  const code = kind === 'lean' ? 'print(1)' : 'import numpy, pandas; print(1)'
  const host = readHostFacts()
  const config = loadConfig(process.env, host, { backend: false })
  const { pool } = await openSandbox({
    config: config.sandbox,
    streamMaxBytes: config.streamMaxBytes,
    cpus: host.cpus,
    env: process.env,
    log: createLog({ level: 'error', pretty: true, destination: 'stderr' }),
  })

  const run = () => pool.run({ code, wallMs: 60_000, signal: new AbortController().signal, onStdout: () => {} })
  const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
  const closedLoop = async count => {
    let left = count
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (left-- > 0) await run()
      }),
    )
  }
  await closedLoop(50)
  await pause(1000)
  const before = snapshot()
  const started = performance.now()
  await closedLoop(CALLS)
  const seconds = (performance.now() - started) / 1000
  await pause(1000)
  const after = snapshot()
  console.log(`${pool.facts.tier} tier, ${kind}: ${(CALLS / seconds).toFixed(1)} calls/s\n`)
  console.log('per call      user ms  system ms  total ms  page faults')
  const total = { user: 0, system: 0, faults: 0 }
  const line = (name, one) =>
    console.log(
      name.padEnd(12),
      ...[one.user, one.system, one.user + one.system].map(ms => (ms / CALLS).toFixed(2).padStart(9)),
      (one.faults / CALLS).toFixed(0).padStart(11),
    )
  for (const role of Object.keys(after)) {
    const one = {}
    for (const key of Object.keys(total)) {
      one[key] = after[role][key] - (before[role]?.[key] ?? 0)
      total[key] += one[key]
    }
    line(role, one)
  }
  line('all', total)
  await pool.close()
}
