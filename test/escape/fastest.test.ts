import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TierName } from '../../src/outcome.js'
import { type Ground, openGround } from './support/ground.js'

const MIB = 1024 * 1024
const LIMIT_MIB = 512
/** Other work on the machine can keep the warden from its CPU for a moment: one of so many has to be stopped in time. */
const TRIES = 3

/** Takes memory as fast as the kernel gives it, and says how many mebibytes each process got. */
const touch = (forks: number) => `
for _ in range(${forks}): os.fork()
for n in range(1, 80):
    raw(NR["mmap"], 0, 16 << 20, 3, 0x8022, -1, 0)  # private, anonymous, MAP_POPULATE
    os.write(1, b"%d %d\\n" % (os.getpid(), n * 16))
time.sleep(2)`

/** What all processes together had touched when they were ended. */
function touchedMiB(stdout: string): number {
  const most = new Map<string, number>()
  for (const line of stdout.split('\n')) {
    const [pid, mebibytes] = line.split(' ')
    if (pid !== undefined && mebibytes !== undefined) most.set(pid, Number(mebibytes))
  }
  return [...most.values()].reduce((sum, one) => sum + one, 0)
}

describe.each<[TierName, number]>([
  ['namespaces', 0],
  ['namespaces', 1],
  ['landlock', 0],
])('memory in the %s tier, taken at full speed after %i forks', (tier, forks) => {
  let ground: Ground | null = null
  beforeAll(async () => {
    ground = await openGround({ tier, limits: { memoryBytes: LIMIT_MIB * MIB, cpuMs: 5_000 } })
  })
  afterAll(async () => {
    expect(await ground?.close()).toEqual([])
  })

  it('is stopped before one and a half times the limit', async () => {
    const touched: number[] = []
    // Two of three: a machine that gives the watch no time is no fault of the watch.
    while (touched.length < TRIES && touched.filter(one => one < 1.5 * LIMIT_MIB).length < 2) {
      const attack = { name: '', code: touch(forks), ends: { status: 'out_of_memory', limit: 'memory' } } as const
      const { report, complaints } = (await ground?.attempt(attack)) ?? {}
      expect(complaints).toEqual([])
      touched.push(touchedMiB(report?.stdout.text ?? ''))
    }
    expect(touched.toSorted((a, b) => a - b)[1]).toBeLessThan(1.5 * LIMIT_MIB)
    expect(Math.min(...touched)).toBeGreaterThan(0.5 * LIMIT_MIB)
  })
})
