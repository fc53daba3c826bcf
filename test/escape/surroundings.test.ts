import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Ground, openGround } from './support/ground.js'
import { mountsOfInterest } from './support/surroundings.js'

const ROOT = process.getuid?.() === 0
const tool = (command: string, ...args: string[]) => execFileSync(command, args)

describe('the comparison of what is outside', () => {
  let ground: Ground
  let undo: (() => void)[] = []
  beforeEach(async () => {
    ground = await openGround({ tier: 'namespaces', skipSelfTest: true })
  })
  afterEach(async () => {
    for (const step of undo.reverse()) step()
    undo = []
    expect(await ground.close()).toEqual([])
  })

  /** Mounts a tmpfs of that name, until the test is over; a folder that was made for it goes then as well. */
  function mount(name: string, place: string): void {
    const made = mkdirSync(place, { recursive: true })
    if (made !== undefined) undo.push(() => rmSync(made, { recursive: true }))
    tool('mount', '-t', 'tmpfs', '-o', 'size=64k', name, place)
    undo.push(() => tool('umount', place))
  }

  it('finds nothing where nothing was left', async () => {
    expect(await ground.damage()).toEqual([])
  })

  it('finds a file of the bait that was written to, or is new, and a file with the mark, once', async () => {
    writeFileSync(path.join(ground.bait, 'writable'), 'changed')
    writeFileSync(path.join(ground.bait, 'new'), '')
    const left = `/tmp/${ground.mark}`
    writeFileSync(left, '')
    const damage = await ground.damage()
    unlinkSync(left)
    expect(damage).toEqual([
      expect.stringContaining('files of the bait has changed'),
      expect.stringContaining('writable has changed'),
      `left behind: ${left}`,
    ])
    expect(await ground.damage()).toEqual([])
  })

  // Names of mounts of ours are not among these: the attacks that run beside this would find them.
  if (ROOT) {
    it('is not disturbed by what others mount and unmount on the machine meanwhile', async () => {
      const folder = mkdtempSync('/tmp/beside-')
      undo.push(() => rmSync(folder, { recursive: true }))
      for (const place of [folder, `/run/beside-${process.pid}/netns`, `/var/lib/beside-${process.pid}/merged`]) {
        mount('overlay', place)
      }
      expect(await ground.damage()).toEqual([])
    })

    it('finds a mount in the folder of the worker, once', async () => {
      const left = path.join(path.dirname(ground.bait), 'left')
      mount('anything', left)
      const damage = await ground.damage()
      expect(damage).toHaveLength(1)
      expect(damage[0]).toMatch(new RegExp(`^mounts has changed: \\+.* ${left} .* tmpfs anything `))
      expect(await ground.damage()).toEqual([])
    })

    it('finds a mount over the bait', async () => {
      mount('anything', ground.bait)
      chmodSync(ground.bait, 0o777)
      expect((await ground.damage())[0]).toMatch(new RegExp(`^mounts has changed: \\+.* ${ground.bait} `))
    })

    it('finds a mount with the mark, wherever it lies', async () => {
      const folder = mkdtempSync('/tmp/beside-')
      undo.push(() => rmSync(folder, { recursive: true }))
      mount(`x-${ground.mark}`, folder)
      expect(await ground.damage()).toEqual([expect.stringContaining(`${folder} `)])
    })
  }
})

describe('mounts of interest', () => {
  const line = (point: string, source = 'none') => `40 28 0:35 / ${point} rw shared:1 - tmpfs ${source} rw`
  const interest = (...lines: string[]) => mountsOfInterest(lines.join('\n'), '/tmp/escape-a', 'esc-a')

  it.each(['/', '/usr', '/usr/lib', '/work', '/etc/hosts', '/dev/shm', '/proc', '/tmp', '/run', '/var'])(
    'are those at a place that a sandbox has as well: %s',
    point => expect(interest(line(point))).toHaveLength(1),
  )

  it.each(['box', 'sandbox', 'zygote'])('are those that are called as ours, wherever they lie: %s', source => {
    expect(interest(line('/run/somewhere', source))).toHaveLength(1)
  })

  it.each(['/run/docker/netns/x', '/var/lib/docker/overlay2/x/merged', '/tmp/other', '/tmp/escape-ab', '/mnt/x'])(
    'are not those of others: %s',
    point => expect(interest(line(point))).toEqual([]),
  )
})
