import { describe, expect, it } from 'vitest'
import { layersOf } from '../../../src/sandbox/layers.js'
import type { Up } from '../../../src/sandbox/template.js'

const BEST: Up = { event: 'up', landlock_abi: 7, landlock_missing: [], proc: true, proc_errno: 0, uid_base: 100_000 }

const layer = (up: Partial<Up>, name: string, tier: 'namespaces' | 'landlock' = 'namespaces') =>
  layersOf(tier, { ...BEST, ...up }).find(one => one.name === name)

describe('layersOf', () => {
  it('has every layer in force where the machine gives all', () => {
    const layers = layersOf('namespaces', BEST)
    expect(layers.filter(one => !one.inForce)).toEqual([])
    // Said although it is in force: nothing degrades silently.
    expect(layers.filter(one => one.why !== undefined).map(one => one.name)).toEqual(['watch'])
    expect(layers.map(one => one.name)).toEqual(
      expect.arrayContaining(['user namespace', 'pid namespace', 'net namespace', 'seccomp', 'landlock', 'uid']),
    )
  })

  it('names a kernel without Landlock', () => {
    expect(layer({ landlock_abi: 0 }, 'landlock')).toMatchObject({
      inForce: false,
      why: expect.stringMatching(/no Landlock/),
    })
  })

  it('lists what an older Landlock does not cover', () => {
    expect(layer({ landlock_abi: 4, landlock_missing: ['signals'] }, 'landlock')).toMatchObject({
      inForce: true,
      why: 'ABI 4, without: signals',
    })
  })

  it('says with which errno a /proc was refused', () => {
    expect(layer({ proc: false, proc_errno: 1 }, '/proc of its own')).toMatchObject({
      inForce: false,
      why: expect.stringMatching(/errno 1/),
    })
  })

  it('says that sandboxes share the uid of an unprivileged worker', () => {
    expect(layer({ uid_base: null }, 'uid')).toMatchObject({
      inForce: false,
      why: expect.stringMatching(/uid of the worker/),
    })
  })

  it('names the known gap of the landlock tier', () => {
    expect(layer({}, 'namespaces', 'landlock')).toMatchObject({ inForce: false, why: expect.stringMatching(/stat/) })
  })
})
