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

/** Takes gigabytes in one call, while two threads keep the lock that any exact look at its memory waits for. */
const ONE_CALL = `
import threading
page = libc.syscall(ctypes.c_long(NR["mmap"]), None, ctypes.c_long(8192), 3, 0x22, ctypes.c_long(-1), None)
def busy():
    while True: libc.mprotect(ctypes.c_void_p(page), 4096, 1); libc.mprotect(ctypes.c_void_p(page), 4096, 3)
for _ in range(2): threading.Thread(target=busy, daemon=True).start()
time.sleep(0.05)
raw(NR["mmap"], 0, 5 << 29, 3, 0x8022 | 0x4000, -1, 0)
escaped("no limit")`

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

  if (forks === 0)
    it('is stopped before that within one call which nobody can look into', async () => {
      const taken: number[] = []
      while (taken.length < TRIES && taken.filter(one => one < 1.5 * LIMIT_MIB).length < 2) {
        const attack = { name: '', code: ONE_CALL, ends: { status: 'out_of_memory', limit: 'memory' } } as const
        const { report, complaints } = (await ground?.attempt(attack)) ?? {}
        expect(complaints).toEqual([])
        taken.push((report?.usage.max_rss_bytes ?? 0) / MIB)
      }
      expect(taken.toSorted((a, b) => a - b)[1]).toBeLessThan(1.5 * LIMIT_MIB)
    })
})
