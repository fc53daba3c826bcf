import { readdirSync, readFileSync, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** For processes that were killed to be waited for. */
const GONE_MS = 3_000

/** Processes that carry the mark of these attacks, once those that are being killed have gone. */
export async function survivors(mark: string, but: number): Promise<string[]> {
  const end = performance.now() + GONE_MS
  for (;;) {
    const found = readdirSync('/proc').filter(pid => /^\d+$/.test(pid) && Number(pid) !== but && carries(pid, mark))
    if (found.length === 0 || performance.now() > end) return found
    await sleep(10)
  }
}

function carries(pid: string, mark: string): boolean {
  try {
    return ['comm', 'cmdline'].some(name => readFileSync(`/proc/${pid}/${name}`, 'utf8').includes(mark))
  } catch {
    return false // it went while we looked
  }
}

/** What must not change outside, by name. */
export function surroundings(folder: string): Record<string, string> {
  const seen: Record<string, string> = {
    mounts: readFileSync('/proc/self/mountinfo', 'utf8'),
    hostname: os.hostname(),
    'files of the bait': readdirSync(folder).sort().join(' '),
  }
  for (const name of ['readable', 'writable']) {
    const file = path.join(folder, name)
    const { mode, mtimeMs, uid, nlink } = statSync(file, { throwIfNoEntry: false }) ?? {}
    seen[name] = [readIfThere(file), mode?.toString(8), mtimeMs, uid, nlink].join(' ')
  }
  return seen
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    return String(error)
  }
}

/** Files with the mark in places that anybody may write to, or that are everybody's. */
export function marked(mark: string): string[] {
  return ['/', '/tmp', '/var/tmp', '/dev/shm', '/dev', '/run', '/etc', '/usr', '/usr/lib', '/home'].flatMap(folder => {
    try {
      return readdirSync(folder)
        .filter(name => name.includes(mark))
        .map(name => `left behind: ${folder}/${name}`)
    } catch {
      return []
    }
  })
}
