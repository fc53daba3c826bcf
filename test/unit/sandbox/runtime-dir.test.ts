import { existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Listener } from '../../../src/sandbox/listener.js'
import { makeRuntimeDir } from '../../../src/sandbox/runtime-dir.js'

let parent: string
const TMPDIR = process.env['TMPDIR']

beforeEach(() => {
  parent = mkdtempSync('/tmp/r-')
  process.env['TMPDIR'] = parent
})

afterEach(() => {
  if (TMPDIR === undefined) delete process.env['TMPDIR']
  else process.env['TMPDIR'] = TMPDIR
  rmSync(parent, { recursive: true, force: true })
})

const mode = (path: string) => statSync(path).mode & 0o777

it('lets nobody else reach the socket, and others pass to their own workspaces without seeing them', async () => {
  const dir = await makeRuntimeDir()
  expect(mode(dir.path)).toBe(0o711)
  expect(mode(dir.socketDir)).toBe(0o700)
  expect(mode(dir.boxesDir)).toBe(0o711)
  expect(mode(dir.rootDir)).toBe(0o700)
  expect(mode(dir.zygoteDir)).toBe(0o700)
})

it('removes all of it', async () => {
  const dir = await makeRuntimeDir()
  writeFileSync(join(dir.boxesDir, 'left'), 'x')
  await dir.remove()
  expect(readdirSync(parent)).toEqual([])
})

it('removes what a killed worker left, and keeps a living one', async () => {
  const living = await makeRuntimeDir()
  const listener = await Listener.open(living.socketPath)
  const dead = join(parent, 'pyx-dead')
  mkdirSync(join(dead, 's'), { recursive: true })
  await leaveSocket(join(dead, 's', 'w.sock'))
  await makeRuntimeDir()
  expect(existsSync(dead)).toBe(false)
  expect(existsSync(living.path)).toBe(true)
  await listener.close()
})

it('keeps the folder of a worker that is just starting and does not listen yet', async () => {
  const starting = await makeRuntimeDir()
  await makeRuntimeDir()
  expect(existsSync(starting.path)).toBe(true)
})

it('leaves what is not ours', async () => {
  mkdirSync(join(parent, 'other', 's'), { recursive: true })
  await leaveSocket(join(parent, 'other', 's', 'w.sock'))
  await makeRuntimeDir()
  expect(existsSync(join(parent, 'other'))).toBe(true)
})

it('has a path that a Unix socket can hold, however deep the temporary folder lies', async () => {
  const deep = join(parent, 'x'.repeat(100))
  mkdirSync(deep)
  process.env['TMPDIR'] = deep
  const dir = await makeRuntimeDir()
  expect(Buffer.byteLength(dir.socketPath)).toBeLessThan(108)
  await dir.remove()
})

/** A socket file on which nobody listens, as after kill -9: Node removes the path on close, so it listens on a link of it. */
async function leaveSocket(path: string): Promise<void> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(`${path}.live`, resolve))
  linkSync(`${path}.live`, path)
  await new Promise(resolve => server.close(resolve))
}
