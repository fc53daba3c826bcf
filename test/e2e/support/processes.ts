import { readdirSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ProcessFacts {
  readonly pid: number
  readonly ppid: number
  readonly comm: string
  /** Clock ticks since boot; with the pid it names a process for good. */
  readonly startTicks: string
  readonly state: string
}

function readProcess(pid: number): ProcessFacts | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name may hold anything, so what follows its last bracket counts.
    const end = stat.lastIndexOf(')')
    const fields = stat.slice(end + 2).split(' ')
    return {
      pid,
      comm: stat.slice(stat.indexOf('(') + 1, end),
      state: fields[0] ?? '',
      ppid: Number(fields[1]),
      startTicks: fields[19] ?? '',
    }
  } catch {
    return null // ended meanwhile
  }
}

function allProcesses(): ProcessFacts[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(name => readProcess(Number(name)) ?? [])
}

/** Every process below `pid`, whatever its namespaces. */
export function descendants(pid: number): ProcessFacts[] {
  const all = allProcesses()
  const found = new Map<number, ProcessFacts>()
  let parents = new Set([pid])
  while (parents.size > 0) {
    const children = all.filter(one => parents.has(one.ppid) && !found.has(one.pid))
    for (const child of children) found.set(child.pid, child)
    parents = new Set(children.map(child => child.pid))
  }
  return [...found.values()]
}

/** The process that starts all of a worker's sandboxes. */
export function templateOf(workerPid: number): ProcessFacts {
  const template = descendants(workerPid).find(one => one.ppid === workerPid)
  if (template === undefined) throw new Error('the worker has no template process')
  return template
}

/** The process that code is forked from; its forks carry its name too. */
export function zygoteOf(workerPid: number): ProcessFacts {
  const all = descendants(workerPid)
  const zygotes = all.filter(one => one.comm === 'zygote')
  const zygote = zygotes.find(one => !zygotes.some(other => other.pid === one.ppid))
  if (zygote === undefined) throw new Error(`no zygote among ${all.map(one => one.comm).join(', ')}`)
  return zygote
}

function isAlive(one: ProcessFacts): boolean {
  const now = readProcess(one.pid)
  return now !== null && now.startTicks === one.startTicks && now.state !== 'Z'
}

/** Waits until none of them lives; returns those that still do after `ms`. */
export async function survivors(processes: readonly ProcessFacts[], ms: number): Promise<ProcessFacts[]> {
  const end = performance.now() + ms
  for (;;) {
    const alive = processes.filter(isAlive)
    if (alive.length === 0 || performance.now() >= end) return alive
    await sleep(20)
  }
}

/** Waits until a process below `pid` has `word` in its command line. */
export async function processWith(word: string, pid: number, ms: number): Promise<ProcessFacts> {
  const end = performance.now() + ms
  for (;;) {
    for (const one of descendants(pid)) if (commandLine(one.pid).includes(word)) return one
    if (performance.now() >= end) throw new Error(`no process with ${word} in its command line after ${ms} ms`)
    await sleep(20)
  }
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** Whether a process has a handler for a signal by now. */
export function catches(pid: number, signal: NodeJS.Signals): boolean {
  try {
    const mask = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0'
    return (BigInt(`0x${mask}`) & (1n << BigInt(constants.signals[signal] - 1))) !== 0n
  } catch {
    return false
  }
}
