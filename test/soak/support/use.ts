import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { descendants } from '../../e2e/support/processes.js'
import type { Program } from '../../e2e/support/worker-process.js'

/** What a worker process holds at this moment. */
export function useOf(program: Program): Record<'rssBytes' | 'descriptors' | 'processes', number> {
  const resident = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${program.pid}/status`, 'utf8'))?.[1]
  return {
    rssBytes: Number(resident) * 1024,
    descriptors: readdirSync(`/proc/${program.pid}/fd`).length,
    processes: descendants(program.pid).length,
  }
}

/** The least of several looks: what is on its way at one moment is gone at the next. */
export async function settled<Name extends string>(
  look: () => Record<Name, number> | Promise<Record<Name, number>>,
): Promise<Record<Name, number>> {
  const least = await look()
  for (let round = 0; round < 10; round++) {
    await sleep(100)
    const now = await look()
    for (const name in least) least[name] = Math.min(least[name], now[name])
  }
  return least
}
