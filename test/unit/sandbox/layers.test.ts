import { describe, expect, it } from 'vitest'
import { layerRemedy, layersOf } from '../../../src/sandbox/layers.js'
import type { Up } from '../../../src/sandbox/template.js'

const BEST: Up = {
  event: 'up',
  landlock_abi: 7,
  landlock_errno: 0,
  landlock_missing: [],
  proc: true,
  proc_errno: 0,
  uid_base: 100_000,
  uid_errno: 0,
  cgroup_errno: 0,
  oom_errno: 0,
  cgroup: null,
}

const layer = (up: Partial<Up>, name: string, tier: 'namespaces' | 'landlock' = 'namespaces') =>
  layersOf(tier, { ...BEST, ...up }).find(one => one.name === name)

describe('layersOf', () => {
  it('has every layer in force where the machine gives all', () => {
    const layers = layersOf('namespaces', BEST)
    expect(layers.filter(one => !one.inForce)).toEqual([])
    expect(layers.filter(one => one.why !== undefined)).toEqual([])
    expect(layers.map(one => one.name)).toEqual(
      expect.arrayContaining(['user namespace', 'pid namespace', 'net namespace', 'seccomp', 'landlock', 'uid']),
    )
  })

  it.each([
    [38, /^errno 38 \(ENOSYS\): the kernel has no Landlock, or .* seccomp profile hides it$/],
    [95, /^errno 95 \((EOPNOTSUPP|ENOTSUP)\): Landlock was left out when the kernel was started$/],
    [1, /^refused with errno 1 \(EPERM\)$/],
  ])('says with which errno Landlock was refused: %i', (errno, why) => {
    expect(layer({ landlock_abi: 0, landlock_errno: errno }, 'landlock')).toMatchObject({
      inForce: false,
      why: expect.stringMatching(why),
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
    expect(layer({ uid_base: null, uid_errno: 1 }, 'uid')).toEqual({
      name: 'uid',
      inForce: false,
      why: 'refused with errno 1 (EPERM): sandboxes have the uid of the worker',
    })
  })

  it('says that a worker which is not root has no uids to give, though nothing refuses it one', () => {
    expect(layer({ uid_base: null, uid_errno: 0 }, 'uid')).toEqual({
      name: 'uid',
      inForce: false,
      why: 'only a root worker has some: sandboxes have the uid of the worker',
    })
  })

  it('says with which errno a cgroup namespace was refused', () => {
    expect(layer({ cgroup_errno: 22 }, 'cgroup namespace')).toMatchObject({
      inForce: false,
      why: expect.stringMatching(/^refused with errno 22 \(EINVAL\): the names of the worker’s control groups/),
    })
  })

  it('says with which errno the oom score could not be set', () => {
    expect(layer({ oom_errno: 30 }, 'oom score')).toMatchObject({
      inForce: false,
      why: expect.stringMatching(/errno 30 \(EROFS\)/),
    })
  })

  it.each([
    [{ step: 'mkdir in its cgroup', errno: 30 }, 'mkdir in its cgroup refused with errno 30 (EROFS)'],
    [{ step: 'no cgroup v2 hierarchy is mounted', errno: 0 }, 'no cgroup v2 hierarchy is mounted'],
  ])('says why there is no cgroup, what to do, and that the watch then holds memory alone: %j', (cgroup, why) => {
    const absent = layer({ cgroup }, 'cgroup')
    expect(absent).toEqual({ name: 'cgroup', inForce: false, why })
    expect(absent && layerRemedy(absent)).toMatch(/writable-cgroups=true.*Delegate=yes.*Kubernetes/)
    // Said although it is in force: nothing degrades silently.
    expect(layer({ cgroup }, 'watch')).toMatchObject({ inForce: true, why: expect.stringMatching(/no cgroup/) })
  })

  it('says in the landlock tier what keeps the other from being had', () => {
    const refused = layersOf('landlock', BEST, [], { step: 'user namespace', errno: 1 })
    expect(refused.find(one => one.name === 'namespaces')).toMatchObject({
      inForce: false,
      why: expect.stringMatching(/user namespace failed with errno 1 \(EPERM\)/),
    })
    expect(layer({}, 'namespaces', 'landlock')?.why).toMatch(/not asked for/)
  })

  it('names the known gap of the landlock tier', () => {
    expect(layer({}, 'namespaces', 'landlock')).toMatchObject({ inForce: false, why: expect.stringMatching(/stat/) })
  })
})
