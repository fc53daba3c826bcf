import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { endPrograms, startProgram } from './support/worker-process.js'

afterEach(endPrograms)

const ROOT = process.getuid?.() === 0

/** A filter as a container's, which answers calls with an errno: "unshare=1,…" . Needs Debian's python3-seccomp. */
const refusing = (answers: string) => [
  '/usr/bin/python3',
  '-c',
  `import os, seccomp, sys
made = seccomp.SyscallFilter(seccomp.ALLOW)
for answer in sys.argv[1].split(","):
    name, errno = answer.split("=")
    made.add_rule(seccomp.ERRNO(int(errno)), name)
made.load()
os.execv(sys.argv[2], sys.argv[2:])`,
  answers,
]

const without = (...capabilities: string[]) => {
  const list = capabilities.map(name => `-${name}`).join(',')
  return ['setpriv', `--bounding-set=${list}`, `--inh-caps=${list}`]
}

const NOBODY = ROOT ? ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'] : []

/** What doctor prints where a place is short of something; it must find a sandbox there, and leave nothing behind. */
async function doctorThrough(through: readonly string[], env: Record<string, string> = {}): Promise<string[]> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'doctor-'))
  try {
    await chmod(folder, 0o777) // a user of no name can't write into the program's own
    const program = await startProgram(['doctor'], { TMPDIR: folder, ...env }, 'ignore', through)
    const { code } = await program.exited
    expect(program.stderr()).toBe('')
    expect(code, program.stdout()).toBe(0)
    expect(await readdir(folder)).toEqual([])
    return program.stdout().split('\n')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The line of a layer, and the next, which says what to do about it. */
function linesOf(lines: readonly string[], layer: string): string[] {
  const at = lines.findIndex(line => line.slice(4).startsWith(layer))
  expect(at, lines.join('\n')).toBeGreaterThan(0)
  return lines.slice(at, at + 2)
}

describe('doctor, where a layer can not be had', () => {
  it('says that the kernel refuses an unprivileged worker uids for its sandboxes', async () => {
    const lines = await doctorThrough(NOBODY)
    expect(lines).toContain('tier namespaces: in use, escape self-test passed')
    const [uid, remedy] = linesOf(lines, 'uid')
    expect(uid).toBe('  ✗ uid (refused with errno 1 (EPERM): sandboxes have the uid of the worker)')
    expect(remedy).toMatch(/^ {6}to get it: run the worker as root with CAP_SETUID/)
  })

  it.each(ROOT ? ['setuid,setgid', 'setuid', 'sys_admin'] : [])(
    'finds the namespaces tier for root without %s, and says that uids are refused',
    async capabilities => {
      const lines = await doctorThrough(without(...capabilities.split(',')))
      expect(lines).toContain('tier namespaces: in use, escape self-test passed')
      expect(linesOf(lines, 'uid')[0]).toMatch(/✗ uid \(refused with errno 1 \(EPERM\)/)
    },
  )

  it.each(ROOT ? ['with CAP_SETUID'] : [])(
    'says that a worker which is not root has no uids, also one %s',
    async () => {
      const caps = '+setuid,+setgid'
      const user = ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups']
      const through = [...user, `--inh-caps=${caps}`, `--ambient-caps=${caps}`]
      const lines = await doctorThrough(through, { SANDBOX_TIER: 'landlock' })
      expect(linesOf(lines, 'uid')[0]).toBe(
        '  ✗ uid (only a root worker has some: sandboxes have the uid of the worker)',
      )
    },
  )

  it('says that no uids are mapped for root of a user namespace that has only one', async () => {
    const lines = await doctorThrough(['unshare', '--user', '--map-root-user'])
    expect(lines).toContain('tier namespaces: in use, escape self-test passed')
    const [uid, remedy] = linesOf(lines, 'uid')
    expect(uid).toMatch(/✗ uid \(refused with errno 22 \(EINVAL\)/)
    expect(remedy).toMatch(/with EINVAL, map 4 096 uids/)
  })

  it('says that Landlock is hidden by a filter, and has the other layers', async () => {
    const lines = await doctorThrough(refusing('landlock_create_ruleset=38'))
    expect(lines).toContain('tier namespaces: in use, escape self-test passed')
    const [landlock, remedy] = linesOf(lines, 'landlock')
    expect(landlock).toMatch(/✗ landlock \(errno 38 \(ENOSYS\): the kernel has no Landlock, or/)
    expect(remedy).toMatch(/^ {6}to get it: Linux 5.13 or later/)
  })

  it('says with which errno namespaces were refused, and uses the landlock tier', async () => {
    const lines = await doctorThrough(refusing('unshare=1'))
    expect(lines[0]).toMatch(/^tier namespaces: not available: (user namespace|mount and pid namespaces): \[Errno 1\]/)
    expect(lines[1]).toMatch(/^ {2}to get it: allow /)
    expect(lines).toContain('tier landlock: in use, escape self-test passed')
    const [namespaces, remedy] = linesOf(lines, 'namespaces')
    expect(namespaces).toMatch(/✗ namespaces \(.* failed with errno 1 \(EPERM\)/)
    expect(remedy).toMatch(/^ {6}to get it: do what stands above below “tier namespaces: not available”\. /)
  })

  it.each([
    [{ SANDBOX_MIN_TIER: 'namespaces' }, 'SANDBOX_MIN_TIER=namespaces', 'SANDBOX_MIN_TIER'],
    [{ SANDBOX_TIER: 'namespaces' }, 'SANDBOX_TIER=namespaces', 'SANDBOX_TIER'],
  ])('says that %j refuses the tier that can be had, and ends with 69', async (env, setting, variable) => {
    const program = await startProgram(['doctor'], env, 'ignore', refusing('unshare=1'))
    expect((await program.exited).code).toBe(69)
    expect(program.stdout().trim().split('\n').at(-1)).toBe(
      `${setting} refuses the landlock tier, which can be had here: the worker does not start; unset ${variable}, or give the ` +
        'namespaces tier what is said above (in a container docker/seccomp.json)',
    )
    expect(await readdir(program.tmp)).toEqual([])
  })

  it('says once that nothing can be had where the kernel gives neither tier', async () => {
    const answers = 'unshare=1,landlock_create_ruleset=38'
    const program = await startProgram(['doctor'], { SANDBOX_TIER: 'namespaces' }, 'ignore', refusing(answers))
    expect((await program.exited).code).toBe(69)
    expect(program.stdout()).toMatch(/\nno sandbox can be had: the worker does not start\n$/)
  })
})

describe('a temporary folder that can not be used', () => {
  it.each([
    ['doctor', '/nonexistent', 'ENOENT'],
    ['demo', '/dev/null', 'ENOTDIR'],
  ])('is named by %s, once, and nothing else', async (command, folder, code) => {
    const program = await startProgram([command], { TMPDIR: folder })
    expect((await program.exited).code).toBe(69)
    expect(command === 'doctor' ? program.stdout() : program.stderr()).toBe(
      `the temporary folder ${folder} (TMPDIR) can't be written (${code}); give one that this user can write\n`,
    )
  })
})

describe('doctor, with the restricted policy', () => {
  it('names it and what enforces it', async () => {
    const env = { SANDBOX_POLICY: 'restricted', SANDBOX_PYTHON: '/usr/bin/python3' }
    const program = await startProgram(['doctor'], env, 'ignore')
    const { code } = await program.exited
    expect(code, program.stderr()).toBe(0)
    expect(program.stdout()).toMatch(/✓ restricted policy \(RestrictedPython \d/)
    expect(program.stdout()).toContain('policy: restricted (SANDBOX_POLICY)')
  })

  it('does not start where the interpreter has no RestrictedPython, and says what to install', async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'doctor-'))
    try {
      await promisify(execFile)('/usr/bin/python3', ['-m', 'venv', '--without-pip', folder])
      const env = { SANDBOX_POLICY: 'restricted', SANDBOX_PYTHON: path.join(folder, 'bin/python') }
      const program = await startProgram(['doctor'], env, 'ignore')
      const { code } = await program.exited
      expect(code).toBe(78)
      expect(program.stderr()).toContain('python3-restrictedpython')
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
