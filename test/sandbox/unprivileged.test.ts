import { beforeAll, describe, expect, it } from 'vitest'
import { endings } from './support/endings.js'
import { children, language } from './support/language.js'
import { output } from './support/output.js'
import { sharedRoom } from './support/shared-room.js'

/** A user of no name, no groups and no home, as in a container that was started with a bare uid. */
const UNPRIVILEGED = 54_321

// Tests that run as root leave that behind, once and for all: every file has a process of its own.
beforeAll(() => {
  if (process.getuid?.() !== 0) return
  process.setgroups?.([])
  process.setgid?.(UNPRIVILEGED)
  process.setuid?.(UNPRIVILEGED)
})

describe('the namespaces tier of an unprivileged worker', () => {
  const room = sharedRoom({ tier: 'namespaces' })

  it('says that its sandboxes have the uid of the worker', () => {
    expect(process.getuid?.()).not.toBe(0)
    expect(room().pool.facts.layers).toContainEqual(expect.objectContaining({ name: 'uid', inForce: false }))
  })

  describe('language', () => language(room))
  describe('children', () => children(room))
  describe('output', () => output('namespaces', room))
  describe('endings', () => endings('namespaces', room))
})

describe('the landlock tier of an unprivileged worker', () => {
  const room = sharedRoom({ tier: 'landlock' })

  it('says that there are no processes to be had', () => {
    expect(room().pool.facts.subprocesses).toBe(false)
  })

  describe('language', () => language(room))
  describe('output', () => output('landlock', room))
  describe('endings', () => endings('landlock', room))
})
