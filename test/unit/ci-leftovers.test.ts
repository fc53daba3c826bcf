import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const PROGRAM = fileURLToPath(new URL('../../.ci/leftovers', import.meta.url))

function temporary(parent: string): string {
  const folder = mkdtempSync(path.join(parent, 'leftovers-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

test('whatever a run leaves in its temporary folder or in one of the machine is seen, and nothing that was there', () => {
  const own = temporary(os.tmpdir())
  const run = (...args: string[]) =>
    execFileSync(PROGRAM, args, { encoding: 'utf8', env: { PATH: process.env['PATH'], TMPDIR: own } }).split('\n')
  mkdirSync(path.join(own, 'node-compile-cache'))
  writeFileSync(path.join(own, 'old'), '')
  const before = path.join(temporary(os.tmpdir()), 'before')
  writeFileSync(before, run().join('\n'))
  writeFileSync(path.join(own, 'new'), '')
  const left = [path.join(own, 'new'), ...['/tmp', '/var/tmp', '/dev/shm'].map(temporary)]
  const seen = run(before)
  expect(seen).toEqual(expect.arrayContaining(left))
  expect(seen).not.toContain(path.join(own, 'old'))
  expect(seen).not.toContain(path.join(own, 'node-compile-cache'))
})
