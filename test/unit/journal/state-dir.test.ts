import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { holdStateDir } from '../../../src/journal/state-dir.js'
import { PYTHON } from '../../e2e/support/worker-process.js'

function folder(): string {
  const made = mkdtempSync(path.join(os.tmpdir(), 'state-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

describe('holdStateDir', () => {
  it('lets one at a time have the folder, and names who has it', async () => {
    const dir = path.join(folder(), 'made', 'here')
    const release = await holdStateDir(dir, PYTHON)
    await expect(holdStateDir(dir, PYTHON)).rejects.toThrow(
      new RegExp(
        `^STATE_DIR: ${dir} is in use by another worker \\(pid ${process.pid} on ${os.hostname()} since \\d{4}-`,
      ),
    )
    await release()
    const again = await holdStateDir(dir, PYTHON)
    await again()
  })

  it.each(['/proc/worker/state', '/sys/worker/state', '/proc/worker'])('refuses %s at once, in words', async dir => {
    const from = performance.now()
    await expect(holdStateDir(dir, PYTHON)).rejects.toThrow(
      new RegExp(`^STATE_DIR: ${dir} can not be used \\(E[A-Z]+.*; give a folder that uid`),
    )
    expect(performance.now() - from).toBeLessThan(5_000)
  })

  it('holds the folder also when somebody removes the lock file', async () => {
    const dir = folder()
    const release = await holdStateDir(dir, PYTHON)
    rmSync(path.join(dir, 'lock'))
    await expect(holdStateDir(dir, PYTHON)).rejects.toThrow(/is in use by another worker/)
    await release()
  })

  it('holds the folder also when somebody puts another lock file in the place of ours', async () => {
    const dir = folder()
    const release = await holdStateDir(dir, PYTHON)
    rmSync(path.join(dir, 'lock'))
    writeFileSync(path.join(dir, 'lock'), '')
    await expect(holdStateDir(dir, PYTHON)).rejects.toThrow(/is in use by another worker/)
    await release()
  })

  it('follows no link in the place of its lock file', async () => {
    const dir = folder()
    const target = path.join(folder(), 'target')
    symlinkSync(target, path.join(dir, 'lock'))
    await expect(holdStateDir(dir, PYTHON)).rejects.toThrow(/can not be used \(ELOOP/)
    expect(existsSync(target)).toBe(false)
  })

  it.each([
    ['a file in its place', (dir: string) => path.join(dir, 'file')],
    ['a name that can not be', (dir: string) => path.join(dir, 'x'.repeat(300))],
  ])('refuses %s in words', async (_, where) => {
    const dir = folder()
    writeFileSync(path.join(dir, 'file'), '')
    await expect(holdStateDir(where(dir), PYTHON)).rejects.toThrow(
      /^STATE_DIR: .* can not be used \(.*\); give a folder/,
    )
  })

  it('says so where it can not be locked', async () => {
    await expect(holdStateDir(folder(), '/no/python')).rejects.toThrow(
      /can not be locked \(spawn \/no\/python ENOENT\)/,
    )
  })
})
