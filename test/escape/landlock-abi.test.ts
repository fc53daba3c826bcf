import { describe, expect, it } from 'vitest'
import { SandboxUnavailable } from '../../src/sandbox/open.js'
import { attackAll } from './support/areas.js'
import { openGround } from './support/ground.js'

/** What Landlock covers only from ABI 4 on. */
const AREAS = ['other processes', 'files of the host', 'the network', 'other runs']

describe('a kernel with Landlock ABI 3', () => {
  it.each(['namespaces', 'landlock'] as const)('is served in the %s tier, with what is missing', async tier => {
    const ground = await openGround({ tier, landlockAbiMost: 3 })
    const landlock = ground.pool.facts.layers.find(layer => layer.name === 'landlock')
    await ground.close()
    expect(landlock).toEqual({
      name: 'landlock',
      inForce: true,
      why: 'ABI 3, without: tcp, device ioctl, signals, abstract sockets',
    })
  })

  describe('attacks on the landlock tier', () => attackAll({ tier: 'landlock', landlockAbiMost: 3 }, AREAS))
})

describe('a kernel with Landlock ABI 2', () => {
  it('is refused by the landlock tier', async () => {
    await expect(openGround({ tier: 'landlock', landlockAbiMost: 2 })).rejects.toThrow(/Landlock ABI is 2, 3 is needed/)
  })
})

describe('a kernel without Landlock', () => {
  it('is refused by the landlock tier, with what is needed', async () => {
    const opened = openGround({ tier: 'landlock', landlockAbiMost: 0 })
    await expect(opened).rejects.toThrow(SandboxUnavailable)
    await expect(opened).rejects.toThrow(/Landlock ABI is 0, 3 is needed \(Linux 6\.2\).*lsm= list/)
  })

  it('is served by the namespaces tier, which lists Landlock as absent', async () => {
    const ground = await openGround({ tier: 'namespaces', landlockAbiMost: 0 })
    const landlock = ground.pool.facts.layers.find(layer => layer.name === 'landlock')
    await ground.close()
    expect(landlock).toMatchObject({ inForce: false, why: expect.stringMatching(/^errno 95 .*Landlock was left out/) })
  })

  describe('attacks on the namespaces tier', () =>
    attackAll({ tier: 'namespaces', landlockAbiMost: 0 }, ['other processes', 'the network', 'other runs']))
})
