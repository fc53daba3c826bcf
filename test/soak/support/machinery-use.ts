import { readdirSync, readFileSync } from 'node:fs'
import { descendants, type ProcessFacts } from '../../e2e/support/processes.js'

/** What one process holds. A process that has just ended counts as null. */
export interface ProcessUse {
  readonly rssBytes: number
  readonly descriptors: number
  readonly threads: number
  readonly children: number
}

/** The parts of this process's sandbox machinery; sandboxes are their children. */
export interface MachineryProcesses {
  readonly template: ProcessFacts
  /** Oldest first. */
  readonly zygotes: readonly ProcessFacts[]
  /** Processes that have ended and that nobody has waited for, anywhere below this one. */
  readonly zombies: readonly ProcessFacts[]
}

export function machineryProcesses(): MachineryProcesses {
  const all = descendants(process.pid)
  const named = all.filter(one => one.comm === 'zygote')
  // Its forks carry its name until they have one of their own.
  const zygotes = named.filter(one => !named.some(other => other.pid === one.ppid))
  const template = all.find(one => one.pid === zygotes[0]?.ppid)
  if (template === undefined) throw new Error(`no template among ${all.map(one => one.comm).join(', ')}`)
  return {
    template,
    zygotes: zygotes.toSorted((a, b) => Number(a.startTicks) - Number(b.startTicks)),
    zombies: all.filter(one => one.state === 'Z'),
  }
}

export function useOfProcess({ pid }: ProcessFacts): ProcessUse | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1])
    return {
      rssBytes: field('VmRSS') * 1024,
      threads: field('Threads'),
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
      children: descendants(pid).filter(one => one.ppid === pid).length,
    }
  } catch {
    return null
  }
}
