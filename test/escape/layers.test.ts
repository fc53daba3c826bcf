import { afterEach, describe, expect, it } from 'vitest'
import type { TierName } from '../../src/outcome.js'
import type { LayerSwitch } from '../../src/sandbox/layers.js'
import { SandboxUnavailable } from '../../src/sandbox/open.js'
import { attacksOf } from './support/areas.js'
import { type Ground, openGround } from './support/ground.js'

const ROOT = process.getuid?.() === 0

/** With all of these layers off the attack gets through; where one of several is left, that one holds it. */
interface Proof {
  readonly tier: TierName
  readonly off: readonly LayerSwitch[]
  readonly attack: string
}

const proof = (tier: TierName, off: readonly LayerSwitch[], attack: string): Proof => ({ tier, off, attack })

/** Layers that any worker can leave out. */
const ANYBODY: readonly Proof[] = [
  proof('namespaces', ['mount'], 'a file of the host: read by every way round'),
  proof('namespaces', ['net'], 'TCP to a service on the loopback'),
  proof('namespaces', ['uts'], 'the name of the host'),
  proof('namespaces', ['cgroup'], '/proc/self/cgroup: what the container and its control groups are called'),
  proof('namespaces', ['ipc', 'seccomp'], 'a System V segment of a process outside'),
  proof('namespaces', ['mount', 'landlock'], 'a file of the host: write, append, truncate'),
  proof('namespaces', ['seccomp'], 'memfd_create and memfd_secret: programs and room that no path rule sees'),
  proof('namespaces', ['seccomp'], 'unshare: each namespace alone, with users, and all at once'),
  proof('namespaces', ['rlimits'], 'open files beyond their number'),
  proof('namespaces', ['rlimits'], 'one file beyond its size'),
  proof('namespaces', ['rlimits'], 'signals and timers that wait in the kernel'),
  proof('namespaces', ['watch'], 'anonymous memory'),
  proof('namespaces', ['net', 'landlock'], 'an abstract socket of a service'),
  proof('landlock', ['landlock'], 'a file of the host: read by every way round'),
  proof('landlock', ['seccomp'], 'getpgid and getsid: find processes outside'),
  proof('landlock', ['seccomp'], 'keyctl, add_key, request_key: a store that outlives the sandbox'),
  proof('landlock', ['seccomp', 'landlock'], 'TCP to a service on the loopback'),
  proof('landlock', ['seccomp', 'landlock'], 'an abstract socket of a service'),
  proof('landlock', ['rlimits'], 'open files beyond their number'),
  proof('landlock', ['watch'], 'anonymous memory'),
]

/** Layers that only root has, or can leave out. */
const ROOT_ONLY: readonly Proof[] = [
  proof('namespaces', ['user'], 'who owns the files of the host'),
  proof('namespaces', ['pid'], 'getpgid and getsid: find processes outside'),
  proof('namespaces', ['uid'], 'the files of the host are one’s own'),
  proof('landlock', ['uid'], 'the files of the host are one’s own'),
  proof('landlock', ['uid', 'seccomp'], 'prlimit: read the limits of others'),
  proof('landlock', ['uid', 'seccomp'], 'chmod of a file of the worker'),
  proof('landlock', ['uid', 'seccomp', 'landlock'], 'kill: ask whether a process outside is there'),
]

/** The same attacks where the uid is the worker's anyway. */
const NOBODY_ONLY: readonly Proof[] = [
  proof('landlock', ['seccomp'], 'prlimit: read the limits of others'),
  proof('landlock', ['seccomp'], 'chmod of a file of the worker'),
  proof('landlock', ['seccomp', 'landlock'], 'kill: ask whether a process outside is there'),
]

let ground: Ground | null = null

afterEach(async () => {
  const opened = ground
  ground = null
  expect((await opened?.close()) ?? []).toEqual([])
})

/** What the attack printed, and how it ended. */
async function outcomeOf({ tier, off, attack: name }: Proof): Promise<string> {
  const attack = attacksOf(tier).find(one => one.name === name)
  if (attack === undefined) throw new Error(`there is no attack "${name}" in the ${tier} tier`)
  const opened = await openGround({ tier, layersOff: off, skipSelfTest: true })
  ground = opened
  const { report } = await opened.attempt(attack)
  return `${report.status}: ${report.stdout.text}${report.stderr.text}`
}

function provesLayers(proofs: readonly Proof[]): void {
  it.each(proofs.map(one => [one.tier, one.off.join(' and '), one.attack, one] as const))(
    '%s tier without %s: %s',
    async (_, __, ___, one) => {
      expect(await outcomeOf(one)).toContain('ESCAPED')
    },
  )

  const halves = proofs.flatMap(one =>
    one.off.length < 2 ? [] : one.off.map(kept => ({ ...one, off: one.off.filter(layer => layer !== kept), kept })),
  )
  it.each(halves.map(one => [one.kept, one.tier, one.attack, one] as const))(
    '%s holds alone in the %s tier: %s',
    async (_, __, ___, one) => {
      expect(await outcomeOf(one)).not.toContain('ESCAPED')
    },
  )
}

describe('layers, each proved by an attack that gets through without it', () => {
  describe('of every worker', () => provesLayers(ANYBODY))
  describe(ROOT ? 'of a root worker' : 'of an unprivileged worker', () => provesLayers(ROOT ? ROOT_ONLY : NOBODY_ONLY))
})

describe('a layer that is switched off', () => {
  it('is listed as not in force and logged as an error', async () => {
    ground = await openGround({ tier: 'namespaces', layersOff: ['net', 'mount', 'watch'], skipSelfTest: true })
    const off = ground.pool.facts.layers.filter(layer => layer.why === 'switched off')
    expect(off.map(layer => layer.name).sort()).toEqual(
      ['/proc of its own', 'mount namespace', 'net namespace', 'root of its own', 'watch'].sort(),
    )
    expect(off.every(layer => !layer.inForce)).toBe(true)
    expect(ground.errors).toContainEqual(
      expect.objectContaining({ msg: 'sandbox layers are switched off', layers: ['net', 'mount', 'watch'] }),
    )
  })

  it.each([
    ['namespaces', 'mount'],
    ['namespaces', 'net'],
    ['landlock', 'landlock'],
    ['landlock', 'seccomp'],
  ] as const)('keeps the worker from serving by its self-test: %s tier without %s', async (tier, layer) => {
    const opened = openGround({ tier, layersOff: [layer] })
    await expect(opened).rejects.toThrow(SandboxUnavailable)
    await expect(opened).rejects.toThrow(/the self-test got through/)
  })
})
