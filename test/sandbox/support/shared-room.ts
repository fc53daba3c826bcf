import { afterAll, beforeAll, expect } from 'vitest'
import type { SandboxConfig } from '../../../src/config.js'
import { openRoom, type Room } from './room.js'

/** One room for the tests of a `describe`; when they are over, nothing of it may be left. A function is asked when it opens. */
export function sharedRoom(changes: Partial<SandboxConfig> | (() => Partial<SandboxConfig>)): () => Room {
  let room: Room | null = null
  beforeAll(async () => {
    room = await openRoom(typeof changes === 'function' ? changes() : changes)
  })
  afterAll(async () => {
    if (room !== null) expect(await room.close()).toEqual({ processes: [], files: [] })
  })
  return () => {
    if (room === null) throw new Error('the room is not open')
    return room
  }
}
