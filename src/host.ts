import { readFileSync } from 'node:fs'
import os from 'node:os'
import { type CgroupMount, foldersUpTo, parseMounts } from './cgroup-mounts.js'

/** What this process may use of the machine, after CPU affinity and cgroup limits. */
export interface HostFacts {
  /** CPUs; a fraction where a cgroup quota gives one (0.5 is half a CPU). Always above 0. */
  readonly cpus: number
  readonly memoryBytes: number
}

/** Reads a small text file; null when it is not there or not readable. */
export type ReadFile = (file: string) => string | null

/** Where the usual mounts are when mountinfo cannot be read. */
const USUAL_MOUNTS: readonly CgroupMount[] = [
  { version: 2, root: '/', mountPoint: '/sys/fs/cgroup', controllers: [] },
  { version: 1, root: '/', mountPoint: '/sys/fs/cgroup/memory', controllers: ['memory'] },
  { version: 1, root: '/', mountPoint: '/sys/fs/cgroup/cpu', controllers: ['cpu'] },
  { version: 1, root: '/', mountPoint: '/sys/fs/cgroup/cpu,cpuacct', controllers: ['cpu'] },
]

/**
 * Reads how many CPUs and how much memory this process may use: the least of what the machine has, what the affinity mask
 * allows, and what any cgroup from the process's own up to the visible root grants (v1 and v2, also side by side).
 * Whatever is missing or makes no sense counts as "no limit"; never throws.
 */
export function readHostFacts(
  readFile: ReadFile = readTextFile,
  availableParallelism: () => number = os.availableParallelism,
  totalMemory: () => number = os.totalmem,
): HostFacts {
  const folders = cgroupFolders(readFile)
  const affinity = countCpuList(/^Cpus_allowed_list:\s*(\S+)/m.exec(readFile('/proc/self/status') ?? '')?.[1])
  return {
    cpus: least(Math.max(1, availableParallelism()), affinity, ...folders.map(folder => cpuQuota(folder, readFile))),
    memoryBytes: least(totalMemory(), ...folders.map(folder => memoryLimit(folder, readFile))),
  }
}

function readTextFile(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

function least(known: number, ...limits: readonly (number | null)[]): number {
  return Math.min(known, ...limits.filter(limit => limit !== null))
}

/** Counts a kernel CPU list such as "0-3,8"; null when it is none. */
function countCpuList(list: string | undefined): number | null {
  if (list === undefined) return null
  let count = 0
  for (const range of list.split(',')) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(range)
    if (!match) return null
    const first = Number(match[1])
    const last = Number(match[2] ?? match[1])
    if (last < first) return null
    count += last - first + 1
  }
  return count > 0 ? count : null
}

interface CgroupFolder {
  readonly version: 1 | 2
  readonly folder: string
}

/** The folders, from each of the process's own cgroups up to its mount, in which a limit may stand. */
function cgroupFolders(readFile: ReadFile): CgroupFolder[] {
  const own = readFile('/proc/self/cgroup')
  if (own === null) return []
  const mountinfo = readFile('/proc/self/mountinfo')
  const mounts = mountinfo === null ? USUAL_MOUNTS : parseMounts(mountinfo)
  const folders: CgroupFolder[] = []
  for (const line of own.split('\n')) {
    // hierarchy-ID:controllers:path; the path itself may hold colons.
    const match = /^(\d+):([^:]*):(\/.*)$/.exec(line)
    if (!match) continue
    const controllers = (match[2] ?? '').split(',')
    const version = match[1] === '0' && match[2] === '' ? 2 : 1
    for (const mount of mounts) {
      if (mount.version !== version) continue
      if (version === 1 && !mount.controllers.some(name => controllers.includes(name))) continue
      folders.push(...foldersUpTo(mount, match[3] ?? '/').map(folder => ({ version, folder }) as const))
    }
  }
  return folders
}

/** CPUs as quota over period; null without a quota ("max" in v2, -1 in v1). */
function cpuQuota({ version, folder }: CgroupFolder, readFile: ReadFile): number | null {
  const [quota, period] =
    version === 2
      ? (readFile(`${folder}/cpu.max`) ?? '').trim().split(' ').map(positive)
      : [positive(readFile(`${folder}/cpu.cfs_quota_us`)), positive(readFile(`${folder}/cpu.cfs_period_us`))]
  return quota && period ? quota / period : null
}

function memoryLimit({ version, folder }: CgroupFolder, readFile: ReadFile): number | null {
  // v1 says "no limit" as a number near 2^63, which the machine's own memory undercuts.
  return positive(readFile(`${folder}/${version === 2 ? 'memory.max' : 'memory.limit_in_bytes'}`))
}

function positive(text: string | null): number | null {
  const digits = text?.trim() ?? ''
  return /^\d+$/.test(digits) && Number(digits) > 0 ? Number(digits) : null
}
