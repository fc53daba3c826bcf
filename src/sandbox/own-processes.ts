import { readFile } from 'node:fs/promises'

const INIT = 1

/**
 * When a process began, in the kernel's ticks since its own start: with the pid a name that no other process has. Null where
 * there is none.
 */
export async function startTime(procFolder: string, pid: number): Promise<string | null> {
  return (await statOf(procFolder, pid))?.started ?? null
}

export async function isAlive(procFolder: string, pid: number, started: string): Promise<boolean> {
  return (await startTime(procFolder, pid)) === started
}

/**
 * Those of some processes that are this one's to move about: itself, its descendants, and the init of its container where that
 * has started it, which does nothing else (tini, docker run --init).
 */
export async function ownProcesses(procFolder: string, pids: readonly number[]): Promise<number[]> {
  const own: number[] = []
  for (const pid of pids) {
    if (pid === process.pid || (pid === INIT && process.ppid === INIT) || (await isDescendant(procFolder, pid))) {
      own.push(pid)
    }
  }
  return own
}

async function isDescendant(procFolder: string, pid: number): Promise<boolean> {
  for (let at: number | undefined = pid; at !== undefined && at > 0; at = (await statOf(procFolder, at))?.parent) {
    if (at === process.pid) return true
  }
  return false
}

/** From proc(5): the name in the second field may hold anything, so what counts begins after its last bracket. */
async function statOf(procFolder: string, pid: number): Promise<{ parent: number; started: string } | null> {
  const text = await readFile(`${procFolder}/${pid}/stat`, 'utf8').catch(() => '')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [, parent] = fields
  const started = fields[19]
  return parent === undefined || started === undefined ? null : { parent: Number(parent), started }
}
