import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxReport, TierName } from '../../src/outcome.js'
import { openCgroupHome } from '../../src/sandbox/cgroup.js'
import { type LayerSwitch, layerRemedy } from '../../src/sandbox/layers.js'
import { openSandbox } from '../../src/sandbox/open.js'
import type { Pool } from '../../src/sandbox/pool.js'
import { attackAll } from '../escape/support/areas.js'
import { sandboxConfig } from './support/config.js'
import { readablePython } from './support/pythons.js'
import { sharedRoom } from './support/shared-room.js'

const MIB = 1024 * 1024
/** Not what these tests are about, and the machine may be an emulated one. */
const CPU_MS = 60_000
const TIERS: readonly TierName[] = ['namespaces', 'landlock']

const home = await openCgroupHome()
const available = 'folder' in home
/** Own cgroup as it is before and after: what is in it then must be in it later. */
const base = available ? path.dirname(home.folder) : ''
if ('close' in home) await home.close()

function groups(): string[] {
  return readdirSync(base).filter(name => name.startsWith('pyx-'))
}

const open = (tier: TierName, layersOff: readonly LayerSwitch[] = []) =>
  openSandbox({
    config: sandboxConfig({ python: readablePython(), tier, cpuMs: CPU_MS }),
    streamMaxBytes: 1,
    cpus: 2,
    env: process.env,
    log: pino({ level: 'silent' }),
    layersOff,
    skipSelfTest: layersOff.length > 0,
  })

const run = (pool: Pool, code: string, onStdout: (text: string) => void = () => {}): Promise<SandboxReport> =>
  pool.run({ code, wallMs: 20_000, signal: new AbortController().signal, onStdout })

describe('the layer that holds memory by a cgroup', () => {
  const room = sharedRoom({ tier: 'namespaces', cpuMs: CPU_MS })

  it('is in force, or says what keeps it from being had and what to do', () => {
    const layer = room().pool.facts.layers.find(one => one.name === 'cgroup')
    if (process.env['CGROUP_REQUIRED'] !== undefined) expect(available).toBe(true)
    expect(layer?.inForce).toBe(available)
    if (!available) expect(layer?.why).toMatch(/\S/)
    if (!available && layer !== undefined) expect(layerRemedy(layer)).toMatch(/Delegate=yes/)
  })
})

if (available) {
  // The watch is left out: what ends these runs is the kernel alone.
  describe.each(TIERS)('a cgroup without a watch that holds memory, %s tier', tier => {
    let pool: Pool
    beforeAll(async () => {
      pool = (await open(tier, ['watch'])).pool
    }, 60_000)
    afterAll(async () => {
      await pool.close()
      expect(groups()).toEqual([])
    })

    it.each([
      ['anonymous memory', 'block = b"x" * (400 << 20)'],
      [
        'memory as fast as the kernel gives it',
        'import mmap\nmmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)',
      ],
      [
        'shared anonymous memory',
        'import mmap\nb = mmap.mmap(-1, 400 << 20)\nfor n in range(0, len(b), 4096): b[n] = 1',
      ],
      ...(tier === 'namespaces'
        ? [
            ['a child', 'import os\nif os.fork() == 0: b = b"x" * (400 << 20)\nos.wait()'],
            [
              'children, each within the limit',
              'import os, time\nfor _ in range(7):\n    if os.fork() == 0: break\nb = b"x" * (60 << 20)\ntime.sleep(9)',
            ],
          ]
        : []),
    ])('ends %s at the limit, with its name and the most that was used', async (_, code) => {
      const report = await run(pool, `print("before", flush=True)\n${code}\nprint("after")`)
      expect(report).toMatchObject({
        status: 'out_of_memory',
        exitCode: null,
        signal: null,
        stdout: { text: 'before\n' },
      })
      expect(report.limit).toMatchObject({ name: 'memory', value: 160 * MIB, unit: 'bytes' })
      expect(report.limit?.peak).toBeGreaterThanOrEqual(160 * MIB)
      expect(report.limit?.peak).toBeLessThan(176 * MIB)
    })

    it('lets code use nearly all of its memory', async () => {
      const report = await run(pool, 'block = b"x" * (145 << 20)\nprint(len(block) >> 20)')
      expect(report).toMatchObject({ status: 'completed', limit: null, stdout: { text: '145\n' } })
    })

    it('does not take a SIGKILL that code sends itself for a lack of memory', async () => {
      const report = await run(pool, 'import os, signal\nos.kill(os.getpid(), signal.SIGKILL)')
      expect(report).toMatchObject({ status: 'crashed', signal: 'SIGKILL', limit: null })
    })

    it('removes each group with its sandbox', async () => {
      let during: string[] = []
      const [own] = groups().filter(name => /^pyx-\d/.test(name))
      const inside = () =>
        readdirSync(path.join(base, own ?? ''), { withFileTypes: true }).filter(one => one.isDirectory())
      await run(pool, 'print("here", flush=True)\nimport time\ntime.sleep(0.5)', () => {
        during = inside().map(one => one.name)
      })
      expect(during.length).toBeGreaterThan(0)
      for (let tries = 0; tries < 100 && inside().some(one => Number(one.name) <= Number(during[0])); tries++)
        await sleep(50)
      const number = Math.min(...inside().map(one => Number(one.name)))
      expect(number).toBeGreaterThan(Math.min(...during.map(Number)))
    })
  })

  describe('a cgroup that holds memory, beside the watch', () => {
    it('ends what is over and gone between two looks of the watch', async () => {
      const { pool } = await open('namespaces')
      try {
        const spike =
          'import mmap\nflags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE\n' +
          'for _ in range(5): mmap.mmap(-1, 200 << 20, flags=flags).close()\nprint("after")'
        expect(await run(pool, spike)).toMatchObject({ status: 'out_of_memory', stdout: { text: '' } })
        expect(await run(pool, 'print(42)')).toMatchObject({ status: 'completed', stdout: { text: '42\n' } })
      } finally {
        await pool.close()
      }
      expect(groups()).toEqual([])
    })

    it('charges the guest and its children, and neither worker nor warden', async () => {
      const { pool } = await open('namespaces')
      try {
        const [own] = groups().filter(name => /^pyx-\d/.test(name))
        let inside: string[][] = []
        await run(
          pool,
          'import os, time\nfor _ in range(2):\n    if os.fork() == 0: break\nprint("x", flush=True)\ntime.sleep(1)',
          () => {
            inside = readdirSync(path.join(base, own ?? ''), { withFileTypes: true })
              .filter(one => one.isDirectory())
              .map(one =>
                readFileSync(path.join(base, own ?? '', one.name, 'cgroup.procs'), 'utf8')
                  .trim()
                  .split('\n'),
              )
          },
        )
        const pids = inside.flat().filter(pid => pid !== '')
        const names = pids.map(pid =>
          existsSync(`/proc/${pid}/comm`) ? readFileSync(`/proc/${pid}/comm`, 'utf8').trim() : 'python3',
        )
        expect(Math.max(...inside.map(group => group.length))).toBe(4) // two forks by two processes
        expect(new Set(names)).toEqual(new Set(['python3']))
      } finally {
        await pool.close()
      }
    })

    it('removes what a worker has left that was killed', async () => {
      const dead = path.join(base, 'pyx-4194300-1-1')
      mkdirSync(path.join(dead, '7'), { recursive: true })
      const next = await openCgroupHome()
      expect(existsSync(dead)).toBe(false)
      if ('close' in next) await next.close()
      expect(groups()).toEqual([])
    })
  })

  describe('attacks on memory that is held by both', () => {
    attackAll({ tier: 'namespaces', limits: { cpuMs: CPU_MS } }, ['memory'])
  })
}
