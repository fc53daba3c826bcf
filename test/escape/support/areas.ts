import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TierName } from '../../../src/outcome.js'
import { collection } from '../attacks/collection.js'
import { endings } from '../attacks/endings.js'
import { files } from '../attacks/files.js'
import { frames } from '../attacks/frames.js'
import { kernel } from '../attacks/kernel.js'
import { kernelMemory } from '../attacks/kernel-memory.js'
import { leftovers } from '../attacks/leftovers.js'
import { memory } from '../attacks/memory.js'
import { network } from '../attacks/network.js'
import { processes } from '../attacks/processes.js'
import { sharedMemory } from '../attacks/shared-memory.js'
import { workspace } from '../attacks/workspace.js'
import type { Attack } from './attack.js'
import { type Ground, type GroundOptions, openGround } from './ground.js'

const AREAS: Readonly<Record<string, readonly Attack[]>> = {
  'other processes': processes,
  'files of the host': files,
  'the kernel': kernel,
  'the network': network,
  'frames and descriptors': frames,
  'other runs': leftovers,
  memory,
  'memory that is shared, and page tables': sharedMemory,
  'memory of the kernel': kernelMemory,
  'room in the workspace': workspace,
  'the collection of files': collection,
  endings,
}

export function attacksOf(tier: TierName, areas: readonly string[] = Object.keys(AREAS)): Attack[] {
  return areas.flatMap(area => AREAS[area] ?? []).filter(attack => attack.tiers?.includes(tier) ?? true)
}

/** Tests that make every attack of some areas, one after the other, on one worker's sandboxes. */
export function attackAll(options: GroundOptions, areas: readonly string[] = Object.keys(AREAS)): void {
  let ground: Ground | null = null
  const opened = () => {
    if (ground === null) throw new Error('the ground is not open')
    return ground
  }
  beforeAll(async () => {
    ground = await openGround(options)
  })
  afterAll(async () => {
    if (ground !== null) expect(await ground.close()).toEqual([])
  })

  describe.each(areas)('%s', area => {
    it.each(attacksOf(options.tier, [area]).map(attack => [attack.name, attack] as const))('%s', async (_, attack) => {
      expect((await opened().attempt(attack)).complaints).toEqual([])
    })

    it('has changed nothing outside', async () => {
      expect(await opened().damage()).toEqual([])
    })
  })
}
