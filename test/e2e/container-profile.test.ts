import { chmod, mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'
import { endPrograms, startProgram } from './support/worker-process.js'

afterEach(endPrograms)

const at = (file: string) => fileURLToPath(new URL(file, import.meta.url))
/** docker/seccomp.json without what needs a capability; that it is just that, test/unit/kubernetes/seccomp.test.ts looks at. */
const PROFILE = at('../../docker/kubernetes/components/seccomp/python-execute.json')
const NOBODY = process.getuid?.() === 0 ? ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'] : []

it("the containers' seccomp profile allows the namespaces tier to a worker without any privilege", async () => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'profile-'))
  try {
    await chmod(folder, 0o777) // a user of no name can't write into the program's own
    const below = [...NOBODY, '/usr/bin/python3', at('support/under-profile.py'), PROFILE]
    const program = await startProgram(['doctor'], { TMPDIR: folder }, 'ignore', below)
    const { code } = await program.exited
    expect(program.stderr()).toBe('')
    expect(program.stdout()).toMatch(/^tier namespaces: in use, escape self-test passed$/m)
    expect(code).toBe(0)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
