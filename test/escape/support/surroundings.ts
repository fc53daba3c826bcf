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

/** Where the programs of a machine mount what is theirs: container engines, sessions, other tests. A sandbox has none of it. */
const OTHERS = /^\/(?:run|var|mnt|media|tmp)\//
/** What our own mounts are called, see python/core/root.py and zygote.py. */
const OURS = ['sandbox', 'box', 'zygote']

/**
 * The lines of a mountinfo that a sandbox could be the cause of, in order of their places: what lies in `temporary`, carries the
 * mark or the name of a mount of ours, or lies where a sandbox has a folder of the same name. Others mount and unmount below
 * /run, /var and the like at any time, and that is nothing to us.
 */
export function mountsOfInterest(mountinfo: string, temporary: string, mark: string): string[] {
  return mountinfo
    .split('\n')
    .filter(line => {
      const [, , , , point = ''] = line.split(' ')
      const source = line.split(' - ')[1]?.split(' ')[1] ?? ''
      if (point === temporary || point.startsWith(`${temporary}/`)) return true
      return line.includes(mark) || OURS.includes(source) || (point !== '' && !OTHERS.test(point))
    })
    .sort()
}

/** What must not change outside, by name. */
export function surroundings(folder: string, mark: string): Record<string, string> {
  const mountinfo = readFileSync('/proc/self/mountinfo', 'utf8')
  const seen: Record<string, string> = {
    mounts: mountsOfInterest(mountinfo, path.dirname(folder), mark).join('\n'),
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

/** Lines that went, with a minus, and those that came, with a plus. */
export function difference(was: string, now: string): string {
  const [before, after] = [was.split('\n'), now.split('\n')]
  const gone = before.filter(line => !after.includes(line)).map(line => `-${line}`)
  return [...gone, ...after.filter(line => !before.includes(line)).map(line => `+${line}`)].join('\n')
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
