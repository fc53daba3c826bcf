import { readdirSync, readFileSync } from 'node:fs'

export interface Process {
  readonly pid: number
  readonly parent: number
  /** The name it gave itself: "zygote", "warden", or the interpreter's for the template and the guests. */
  readonly name: string
  readonly uid: number
  /** With the pid, what tells two processes apart: clock ticks since the machine's start. */
  readonly startedAt: string
}

/** All that was started by this process, directly or not. */
export function descendants(of = process.pid): Process[] {
  const all = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(read)
    .filter(one => one !== null)
  const found: Process[] = []
  const queue = [of]
  for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
    const children = all.filter(one => one.parent === pid)
    found.push(...children)
    queue.push(...children.map(one => one.pid))
  }
  return found
}

export function stillAlive(processes: readonly Process[]): Process[] {
  return processes.filter(one => read(String(one.pid))?.startedAt === one.startedAt)
}

/** The processes of one sandbox room by what they are. */
export function machinery(): {
  zygote: Process | undefined
  guests: Process[]
  wardens: Process[]
  template: Process[]
} {
  const all = descendants()
  const zygotes = all.filter(one => one.name === 'zygote')
  return {
    zygote: zygotes[0],
    guests: all.filter(one => zygotes.some(zygote => zygote.pid === one.parent)),
    wardens: all.filter(one => one.name === 'warden'),
    template: all.filter(one => one.parent === process.pid && one.name.startsWith('python')),
  }
}

/** null when there is none, or it has ended and only waits to be reaped. */
function read(pid: string): Process | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [state, parent, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (state === 'Z' || state === 'X') return null
    const uid = /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'))
    return { pid: Number(pid), parent: Number(parent), name, uid: Number(uid), startedAt: rest[17] ?? '' }
  } catch {
    return null
  }
}
