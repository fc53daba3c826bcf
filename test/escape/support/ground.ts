import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { SandboxConfig } from '../../../src/config.js'
import type { SandboxReport, TierName } from '../../../src/outcome.js'
import { type OpenOptions, openSandbox } from '../../../src/sandbox/open.js'
import type { Pool } from '../../../src/sandbox/pool.js'
import { sandboxConfig } from '../../sandbox/support/config.js'
import { descendants, type Process, stillAlive } from '../../sandbox/support/processes.js'
import { readablePython } from '../../sandbox/support/pythons.js'
import { type Attack, type Ending, TRIED } from './attack.js'
import { type Neighbour, startNeighbour } from './neighbour.js'
import { difference, marked, surroundings, survivors } from './surroundings.js'

const MIB = 1024 * 1024
const WALL_MS = 10_000

/** Limits that an attack meets within a second. */
const LIMITS: Partial<SandboxConfig> = {
  memoryBytes: 160 * MIB,
  processes: 12,
  workspaceBytes: 8 * MIB,
  workspaceFiles: 200,
  fileBytes: 4 * MIB,
  openFiles: 40,
  cpuMs: 700,
  slots: 4,
}

export interface GroundOptions extends Pick<OpenOptions, 'layersOff' | 'skipSelfTest' | 'landlockAbiMost'> {
  readonly tier: TierName
  readonly limits?: Partial<SandboxConfig>
}

/** What an attack did, and all that was not as it should be: empty where the sandbox held. */
interface Attempt {
  readonly report: SandboxReport
  readonly complaints: readonly string[]
}

/** A worker's sandboxes with something around them to attack. */
export interface Ground {
  readonly pool: Pool
  /** The folder of files to attack. */
  readonly bait: string
  /** In the name of all that an attack leaves. */
  readonly mark: string
  /** What was logged at level error: [message, fields]. */
  readonly errors: readonly Record<string, unknown>[]
  /** What was reached of the neighbour, so far. */
  readonly reached: readonly string[]
  attempt(attack: Attack): Promise<Attempt>
  /** What attacks have changed outside of their sandboxes since this was last asked. */
  damage(): Promise<string[]>
  /** Ends all; returns what is left behind. */
  close(): Promise<string[]>
}

export async function openGround(options: GroundOptions): Promise<Ground> {
  const before = process.env['TMPDIR']
  const temporary = mkdtempSync('/tmp/escape-')
  chmodSync(temporary, 0o755)
  process.env['TMPDIR'] = temporary
  const folder = path.join(temporary, 'bait')
  const mark = `esc-${path.basename(temporary).slice(-6)}`
  const canary = `canary-${mark}`
  process.env['ESCAPE_CANARY'] = canary
  layBait(folder)
  let neighbour: Neighbour | null = null
  const tidy = async () => {
    await neighbour?.close()
    const left = readdirSync(temporary).filter(name => name !== 'bait')
    rmSync(temporary, { recursive: true, force: true })
    delete process.env['ESCAPE_CANARY']
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    return left
  }
  try {
    neighbour = await startNeighbour(folder, mark)
    const errors: Record<string, unknown>[] = []
    const log = pino({ level: 'error' }, { write: line => void errors.push(JSON.parse(line)) })
    const { tier, limits, ...switches } = options
    const { pool } = await openSandbox({
      config: sandboxConfig({ ...LIMITS, python: readablePython(), tier, ...limits }),
      streamMaxBytes: 1,
      cpus: 2,
      env: process.env,
      log,
      ...switches,
    })
    const machinery = (await settled()).filter(one => one.pid !== neighbour?.facts.pid)
    const wardens = machinery.filter(one => one.name === 'warden')
    const bait = {
      ...neighbour.facts,
      mark,
      folder,
      canary: [...canary].reverse().join(''),
      host: os.hostname(),
      cgroup_ns: readlinkSync('/proc/self/ns/cgroup'),
      worker_socket: workerSocket(temporary),
      // A sandbox's uid is its warden's too: against that one the other layers hold, which are proved one by one.
      own: options.layersOff === undefined ? {} : Object.fromEntries(wardens.map(one => [one.uid, one.pid])),
      pids: [neighbour.facts.pid, process.pid, ...machinery.map(one => one.pid)],
      numbers: callNumbers(),
    }
    const prelude = readFileSync(new URL('prelude.py', import.meta.url), 'utf8').replace(
      '__BAIT__',
      JSON.stringify(bait),
    )
    const known = neighbour
    let outside = surroundings(folder, mark)
    let told = 0
    return {
      pool,
      bait: folder,
      mark,
      errors,
      reached: known.reached,
      attempt: attack => attempt(pool, prelude, attack, tier, () => survivors(mark, known.facts.pid)),
      damage: async () => {
        const now = surroundings(folder, mark)
        const changed = Object.keys(now).filter(key => now[key] !== outside[key])
        const left = await survivors(mark, known.facts.pid)
        const doors = known.reached.slice(told)
        const was = outside
        told = known.reached.length
        outside = now
        return [
          ...changed.map(key => `${key} has changed: ${difference(was[key] ?? '', now[key] ?? '')}`),
          ...doors.map(door => `reached: ${door}`),
          ...left.map(process => `still lives: ${process}`),
          ...marked(mark),
        ]
      },
      close: async () => {
        await pool.close()
        for (let tries = 0; tries < 80 && stillAlive(machinery).length > 0; tries++) await sleep(25)
        const processes = stillAlive(machinery).map(one => `still lives: ${one.name}`)
        return [...processes, ...(await tidy()).map(name => `left in the temporary folder: ${name}`)]
      },
    }
  } catch (error) {
    await tidy()
    throw error
  }
}

/** All that this process has started, once each warden among them has its name and uid: a fork has its parent's at first. */
async function settled(): Promise<Process[]> {
  for (let tries = 0; ; tries++) {
    const all = descendants()
    const templates = all.filter(one => one.name === 'zygote').map(one => one.parent)
    const unnamed = all.filter(one => templates.includes(one.parent) && one.name.startsWith('python'))
    if (unnamed.length === 0 || tries === 500) return all
    await sleep(10)
  }
}

/** Files that nothing but a sandbox keeps anybody from reading and writing. */
function layBait(folder: string): void {
  mkdirSync(folder)
  for (const [name, mode] of [
    ['readable', 0o644],
    ['writable', 0o666],
  ] as const) {
    writeFileSync(path.join(folder, name), 'bait')
    chmodSync(path.join(folder, name), mode)
  }
  chmodSync(folder, 0o777)
}

function workerSocket(temporary: string): string {
  const folder = readdirSync(temporary).find(name => name.startsWith('pyx-'))
  if (folder === undefined) throw new Error('the worker has no folder of its own')
  return path.join(temporary, folder, 's', 'w.sock')
}

function callNumbers(): Record<string, number> {
  const file = new URL('../../../src/sandbox/python/seccomp/filters.json', import.meta.url)
  const arch = os.arch() === 'arm64' ? 'aarch64' : 'x86_64'
  return JSON.parse(readFileSync(file, 'utf8')).numbers[arch]
}

async function attempt(
  pool: Pool,
  prelude: string,
  attack: Attack,
  tier: TierName,
  lookForSurvivors: () => Promise<string[]>,
): Promise<Attempt> {
  const complaints: string[] = []
  const run = (code: string, wallMs: number, signal = new AbortController().signal, onStdout = (_: string) => {}) =>
    pool.run({ code: prelude + code, wallMs, signal, onStdout, files: { inputs: [], contents: 'kept' } })
  if (attack.before !== undefined) {
    const report = await run(attack.before, WALL_MS)
    if (report.status !== 'completed') complaints.push(`before it: ${report.status} ${report.stderr.text}`)
  }
  const done = new AbortController()
  let beside: Promise<SandboxReport> | null = null
  if (attack.beside !== undefined) {
    const code = attack.beside
    await new Promise<void>(resolve => {
      beside = run(code, WALL_MS, done.signal, () => resolve())
      void beside.then(() => resolve())
    })
  }
  const report = await run(attack.code, attack.wallMs ?? WALL_MS)
  done.abort()
  await beside
  const ending = (tier === 'landlock' ? attack.endsInLandlock : undefined) ?? attack.ends ?? { status: 'completed' }
  complaints.push(...compare(report, ending))
  for (const { path: name, content } of report.collected?.files ?? []) {
    if (content?.includes('bait') === true) complaints.push(`collected what is not the code's: ${JSON.stringify(name)}`)
  }
  report.collected?.release()
  const next = await pool.run({
    code: 'print(42)',
    wallMs: WALL_MS,
    signal: new AbortController().signal,
    onStdout: () => {},
  })
  if (next.status !== 'completed' || next.stdout.text !== '42\n') complaints.push(`the next call: ${describe(next)}`)
  complaints.push(...(await lookForSurvivors()).map(process => `still lives: ${process}`))
  return { report, complaints }
}

function compare(report: SandboxReport, ending: Ending): string[] {
  const complaints = report.stdout.text
    .split('\n')
    .filter(line => line.startsWith('ESCAPED'))
    .slice(0, 10)
  const oneOf = <T>(value: T, wanted: T | readonly T[]) =>
    Array.isArray(wanted) ? wanted.includes(value) : value === wanted
  const text = report.stdout.text
  const stdout = ending.stdout ?? (ending.status === 'completed' ? TRIED : /^/)
  const right =
    oneOf(report.status, ending.status) &&
    (ending.limit === undefined || oneOf(report.limit?.name ?? null, ending.limit)) &&
    (ending.signal === undefined || report.signal === ending.signal) &&
    (typeof stdout === 'string' ? text === stdout : stdout.test(text))
  if (!right) complaints.push(describe(report))
  return complaints
}

function describe(report: SandboxReport): string {
  const { status, exitCode, signal, limit, reason, stdout, stderr } = report
  const short = { stdout: stdout.text.slice(0, 200), stderr: stderr.text.slice(-400) }
  return JSON.stringify({ status, exitCode, signal, limit, reason, ...short })
}
