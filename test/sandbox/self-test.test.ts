import { readdirSync } from 'node:fs'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import { doctor } from '../../src/commands/doctor.js'
import type { TierName } from '../../src/outcome.js'
import { type LayerSwitch, layerRemedy } from '../../src/sandbox/layers.js'
import { openSandbox } from '../../src/sandbox/open.js'
import type { Pool } from '../../src/sandbox/pool.js'
import { selfTest } from '../../src/sandbox/self-test.js'
import { sandboxConfig } from './support/config.js'
import { readablePython } from './support/pythons.js'

const MEMORY_BYTES = 64 * 1024 * 1024

let opened: Pool | null = null

afterEach(async () => {
  await opened?.close()
  opened = null
})

/** Sandboxes that no self-test has looked at, with some layers left out; and a self-test of them. */
async function openWithout(tier: TierName, off: readonly LayerSwitch[]): Promise<() => Promise<string[]>> {
  const config = sandboxConfig({ tier, memoryBytes: MEMORY_BYTES, python: readablePython() })
  const log = pino({ level: 'silent' })
  const options = { config, streamMaxBytes: 1, cpus: 2, env: process.env, log }
  const { pool } = await openSandbox({ ...options, layersOff: off, skipSelfTest: true })
  opened = pool
  return () => selfTest(pool, config)
}

const throughWithout = async (tier: TierName, off: readonly LayerSwitch[]) => (await openWithout(tier, off))()

describe.each(['namespaces', 'landlock'] as const)('the self-test in the %s tier', tier => {
  it('finds nothing where every layer is in force', async () => {
    expect(await throughWithout(tier, [])).toEqual([])
  })

  it('names memory where nobody watches it', async () => {
    expect(await throughWithout(tier, ['watch'])).toEqual(['exceed memory'])
  })

  it('names the limits that are not set', async () => {
    const through = await throughWithout(tier, ['rlimits'])
    expect(through).toEqual(expect.arrayContaining(['exceed the limit of open files', 'exceed the limit of file size']))
  })

  it('adds little more to the start than the time that touching the memory takes', async () => {
    const test = await openWithout(tier, [])
    const took: number[] = []
    for (let round = 0; round < 3; round++) {
      const before = performance.now()
      expect(await test()).toEqual([])
      took.push(performance.now() - before)
    }
    expect(Math.min(...took)).toBeLessThan(600)
  })
})

it('names the host’s files, and the network, where there is no namespace for them', async () => {
  expect(await throughWithout('namespaces', ['mount', 'net'])).toEqual(
    expect.arrayContaining(['read a file of the host', 'connect to the host', 'reach the network']),
  )
})

it('names the number of processes where it is not limited', async () => {
  expect(await throughWithout('namespaces', ['rlimits'])).toContain('exceed the limit of processes')
})

it('names the files of another sandbox, and the folder of all, where no rule keeps them apart', async () => {
  expect(await throughWithout('landlock', ['landlock', 'uid'])).toEqual(
    expect.arrayContaining(['see another sandbox’s files', 'list the folder of all sandboxes']),
  )
})

it('names the files of another sandbox where each works in a folder of the host', async () => {
  expect(await throughWithout('namespaces', ['mount', 'landlock'])).toContain('see another sandbox’s files')
})

it('leaves nothing on the host, where no layer keeps its sandboxes from writing there', async () => {
  const marks = () =>
    ['/tmp', '/var/tmp', '/dev/shm'].flatMap(place => readdirSync(place).filter(name => /^self-test-/.test(name)))
  const before = marks()
  expect(await throughWithout('namespaces', ['mount', 'landlock'])).not.toEqual([])
  expect(marks().filter(name => !before.includes(name))).toEqual([])
})

describe('doctor', () => {
  it.each([
    ['namespaces', 'SANDBOX_TIER=auto'],
    ['/proc of its own', 'systempaths=unconfined'],
    ['/proc of its own', 'procMount: Unmasked'],
    ['landlock', 'lsm=landlock'],
    ['uid', '--user 0'],
    ['uid', 'runAsUser: 0'],
  ])('has a remedy for a missing layer, %s: %s', (name, remedy) => {
    expect(layerRemedy({ name, inForce: false, why: 'it is not there' })).toContain(remedy)
  })

  it.each([
    ['landlock', '6.12 (ABI 6)'],
    ['rlimits', 'a uid of its own'],
    ['watch', 'docker run --memory'],
  ])('has a remedy for a layer that is weaker than it could be, %s: %s', (name, remedy) => {
    expect(layerRemedy({ name, inForce: true, why: 'not all of it' })).toContain(remedy)
  })

  it('has none for a layer that is whole', () => {
    expect(layerRemedy({ name: 'landlock', inForce: true })).toBeNull()
  })

  it('says of each layer whether it is in force, why not, and under that what to do', async () => {
    const lines: string[] = []
    const env = { SANDBOX_TIER: 'landlock', SANDBOX_PRELOAD: 'none', SANDBOX_PYTHON: readablePython(), HOME: '/' }
    expect(await doctor(env, line => lines.push(line))).toBe(0)
    const at = lines.findIndex(line => line.startsWith('  ✗ namespaces (this is the landlock tier'))
    expect(at).toBeGreaterThan(0)
    expect(lines[at + 1]).toBe(
      '      to get it: set SANDBOX_TIER=auto. The landlock tier is in use because SANDBOX_TIER=landlock asks for it',
    )
    expect(lines).toContain('  ✓ seccomp')
    expect(lines.find(line => line.startsWith('  ✓ watch'))).toBeDefined()
  })
})
