import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { foldersUpTo, parseMounts } from '../cgroup-mounts.js'
import { isAlive, ownProcesses, startTime } from './own-processes.js'

/** Why there are no cgroups for sandboxes. `errno` is 0 where it was not the kernel that refused; `step` then says all. */
export interface CgroupRefusal {
  readonly step: string
  readonly errno: number
}

/** A folder of the cgroup v2 hierarchy in which groups with limits may be made. */
export interface CgroupHome {
  readonly folder: string
  /** Removes it with all groups in it, which nothing may use any more. Never rejects; what stays is for the next start. */
  close(): Promise<void>
}

/** Where the kernel tells what; others in tests. */
export interface CgroupPlaces {
  readonly procFolder: string
}

const HOME = /^pyx-(\d+)-(\d+)-\d+$/
const LEAF = /^pyx-worker-(\d+)-(\d+)$/
/** Of which the first is needed; both are switched on. */
const CONTROLLERS: readonly string[] = ['memory', 'pids']
/** For processes that were killed to leave a group. */
const REMOVE_TRIES = 200
const REMOVE_PAUSE_MS = 10
/** A process that forks while it is moved leaves a child behind. */
const MOVE_ROUNDS = 5

/** Numbers the homes of this process, which has one for each machinery. */
let homes = 0

/**
 * Finds out by doing it whether this process may make groups below its own cgroup, and makes a folder for them:
 *
 *     <own>/pyx-<pid>-<start time>-<n>/        memory and pids switched on; the groups of sandboxes go in here
 *     <own>/pyx-worker-<pid>-<start time>/     this process, where <own> may not have processes beside such folders
 *
 * The kernel gives controllers only to folders of a cgroup that has no processes itself (its root excepted). Only this
 * process, its descendants and its container's init are moved; where others are in the same cgroup there are no groups. What
 * workers that were killed have left there is removed.
 */
export async function openCgroupHome(
  places: CgroupPlaces = { procFolder: '/proc' },
): Promise<CgroupHome | CgroupRefusal> {
  const own = await ownFolder(places)
  if (typeof own !== 'string') return own
  // In the leaf of this process, or of one that has started it.
  const base = LEAF.test(path.basename(own)) ? path.dirname(own) : own
  const offered = words(await readOr(`${base}/cgroup.controllers`))
  if (!offered.includes('memory')) {
    return { step: `no memory controller in its cgroup (there is: ${offered.join(' ') || 'none'})`, errno: 0 }
  }
  const wanted = CONTROLLERS.filter(name => offered.includes(name))
  await sweep(base, places)
  const me = `${process.pid}-${await startTime(places.procFolder, process.pid)}`
  const home = path.join(base, `pyx-${me}-${++homes}`)
  const leaf = path.join(base, `pyx-worker-${me}`)
  const close = async () => {
    await removeTree(home)
    await leaveLeaf(base, leaf, me)
  }
  try {
    await doing('mkdir in its cgroup', () => mkdir(home, 0o755))
    if (!(await isOn(base, wanted))) {
      await doing('cgroup.subtree_control of its cgroup', () => switchOnBeside(base, leaf, wanted, places))
    }
    await doing('cgroup.subtree_control', () => switchOn(home, wanted))
    return { folder: home, close }
  } catch (error) {
    await close()
    if (error instanceof Refused) return { step: error.step, errno: error.errno }
    throw error
  }
}

class Refused extends Error {
  readonly step: string
  readonly errno: number

  constructor(step: string, error: NodeJS.ErrnoException) {
    super(`${step}: ${error.message}`)
    this.step = step
    this.errno = Math.abs(error.errno ?? 0)
  }
}

async function doing(step: string, action: () => Promise<unknown>): Promise<void> {
  try {
    await action()
  } catch (error) {
    throw new Refused(step, error as NodeJS.ErrnoException)
  }
}

/** The folder of this process's cgroup, proved by its number in it. */
async function ownFolder({ procFolder }: CgroupPlaces): Promise<string | CgroupRefusal> {
  const own = /^0::(\/.*)$/m.exec(await readOr(`${procFolder}/self/cgroup`))?.[1]
  const mounts = parseMounts(await readOr(`${procFolder}/self/mountinfo`)).filter(mount => mount.version === 2)
  if (own === undefined || mounts.length === 0) return { step: 'no cgroup v2 hierarchy is mounted', errno: 0 }
  for (const mount of mounts) {
    const folder = foldersUpTo(mount, own).at(-1) ?? mount.mountPoint
    const inside = words(await readOr(`${folder}/cgroup.procs`))
    if (inside.includes(String(process.pid))) return folder
  }
  return { step: 'the mounted cgroup v2 hierarchy does not show the cgroup of this process', errno: 0 }
}

async function isOn(folder: string, controllers: readonly string[]): Promise<boolean> {
  const on = words(await readOr(`${folder}/cgroup.subtree_control`))
  return controllers.every(name => on.includes(name))
}

function switchOn(folder: string, controllers: readonly string[]): Promise<void> {
  return writeFile(`${folder}/cgroup.subtree_control`, controllers.map(name => `+${name}`).join(' '))
}

/** Switches controllers on for the folders of `base`, after moving own processes into one of them where that is needed. */
async function switchOnBeside(
  base: string,
  leaf: string,
  controllers: readonly string[],
  places: CgroupPlaces,
): Promise<void> {
  try {
    await switchOn(base, controllers)
    return
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error
  }
  await mkdir(leaf, { recursive: true })
  for (let round = 1; ; round++) {
    for (const pid of await ownProcesses(places.procFolder, await processesIn(base))) await move(pid, leaf)
    try {
      await switchOn(base, controllers)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || round === MOVE_ROUNDS) throw error
    }
  }
}

/** Back to where it was, once no home of this process is left: nothing then tells that it was there. */
async function leaveLeaf(base: string, leaf: string, me: string): Promise<void> {
  const names: readonly string[] = await readdir(base).catch(() => [])
  if (!names.includes(path.basename(leaf)) || names.some(name => name.startsWith(`pyx-${me}-`))) return
  try {
    if (await isOn(base, ['memory'])) {
      const on = words(await readOr(`${base}/cgroup.subtree_control`)).filter(name => CONTROLLERS.includes(name))
      // Refused while another worker has its groups here: then this one's leaf stays as long as it lives.
      await writeFile(`${base}/cgroup.subtree_control`, on.map(name => `-${name}`).join(' '))
    }
    for (const pid of await processesIn(leaf)) await move(pid, base)
    await removeTree(leaf)
  } catch {
    // For the next start in this cgroup to remove.
  }
}

async function processesIn(folder: string): Promise<number[]> {
  return words(await readOr(`${folder}/cgroup.procs`)).map(Number)
}

async function move(pid: number, folder: string): Promise<void> {
  try {
    await writeFile(`${folder}/cgroup.procs`, String(pid))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // it has ended
  }
}

/** Removes what workers that no longer live have left. Never what has processes: those may be of another pid namespace. */
async function sweep(base: string, places: CgroupPlaces): Promise<void> {
  for (const name of await readdir(base).catch(() => [])) {
    const [, pid, started] = HOME.exec(name) ?? LEAF.exec(name) ?? []
    if (pid === undefined || started === undefined) continue
    if (await isAlive(places.procFolder, Number(pid), started)) continue
    const folder = path.join(base, name)
    if (/^populated 1$/m.test(await readOr(`${folder}/cgroup.events`))) continue
    await removeTree(folder, 1)
  }
}

/** Removes a cgroup and those in it; gives up quietly. */
async function removeTree(folder: string, tries = REMOVE_TRIES): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) if (entry.isDirectory()) await removeTree(path.join(folder, entry.name), tries)
  for (let attempt = 1; ; attempt++) {
    try {
      await rmdir(folder)
      return
    } catch (error) {
      // What was killed takes a moment to leave.
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || attempt >= tries) return
      await sleep(REMOVE_PAUSE_MS)
    }
  }
}

async function readOr(file: string): Promise<string> {
  return await readFile(file, 'utf8').catch(() => '')
}

function words(text: string): string[] {
  return text.split(/\s+/).filter(word => word !== '')
}
