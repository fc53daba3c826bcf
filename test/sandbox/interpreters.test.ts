import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SandboxUnavailable } from '../../src/sandbox/open.js'
import { language } from './support/language.js'
import { pythons } from './support/pythons.js'
import { openRoom } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'

const ROOT = process.getuid?.() === 0
/** Some user of the machine that is neither root nor a sandbox. */
const SOMEONE = 12_345
/** Without what needs more than the standard library; with one import that no zygote has made. */
const CHECK = 'import sqlite3, sys, zoneinfo\nprint(sys.prefix)\n".".join(map(str, sys.version_info[:3]))'

describe.each(pythons())('CPython $version at $path', python => {
  describe('in the namespaces tier', () => {
    const room = sharedRoom({ tier: 'namespaces', python: python.path })

    it('is the one that runs the code', async () => {
      const report = await room().run(CHECK)
      expect(report.stderr.text).toBe('')
      expect(report.value).toBe(`'${python.version}'`)
      expect(room().pool.facts.interpreter).toMatchObject({ version: python.version })
    })

    language(room)
  })

  it(`is ${ROOT && !python.readable ? 'refused with the remedy' : 'served'} in the landlock tier`, async () => {
    if (ROOT && !python.readable) await expectRefusal(python.path)
    else expect((await runOnce('landlock', python.path)).value).toBe(`'${python.version}'`)
  })
})

describe.each(pythons())('a venv of CPython $version below a home that nobody else may enter', python => {
  let home: string
  let venv: string

  beforeAll(() => {
    home = mkdtempSync('/tmp/home-')
    venv = join(home, 'project', 'venv')
    execFileSync(python.path, ['-m', 'venv', '--without-pip', venv])
    chmodSync(home, 0o700)
    if (ROOT) chownSync(home, SOMEONE, SOMEONE)
  })
  afterAll(() => rmSync(home, { recursive: true, force: true }))

  it('is served in the namespaces tier', async () => {
    const report = await runOnce('namespaces', join(venv, 'bin', 'python'))
    expect(report.stderr.text).toBe('')
    expect(report.stdout.text).toBe(`${venv}\n`)
  })

  it('is served from below the folder that sandboxes have a link for, and leaves nothing on the machine', async () => {
    const place = mkdtempSync('/var/tmp/venv-')
    try {
      chmodSync(place, 0o755)
      execFileSync(python.path, ['-m', 'venv', '--without-pip', place])
      const report = await runOnce('namespaces', join(place, 'bin', 'python'))
      expect(report.stdout.text).toBe(`${place}\n`)
      expect(existsSync(join('/tmp', basename(place)))).toBe(false)
    } finally {
      rmSync(place, { recursive: true, force: true })
    }
  })

  it(`is ${ROOT ? 'refused with the remedy' : 'served'} in the landlock tier`, async () => {
    if (ROOT) await expectRefusal(join(venv, 'bin', 'python'))
    else expect((await runOnce('landlock', join(venv, 'bin', 'python'))).stdout.text).toBe(`${venv}\n`)
  })
})

async function runOnce(tier: 'namespaces' | 'landlock', python: string) {
  const room = await openRoom({ tier, python })
  try {
    return await room.run(CHECK)
  } finally {
    await room.close()
  }
}

/** A root worker's sandboxes have uids of their own, which may not pass through other people's folders. */
async function expectRefusal(python: string): Promise<void> {
  const refused = openRoom({ tier: 'landlock', python })
  await expect(refused).rejects.toThrow(SandboxUnavailable)
  await expect(refused).rejects.toThrow(/can't be read by the sandbox's uid.*SANDBOX_PYTHON=\/usr\/bin\/python3/)
}
