import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (file: string) => readFileSync(new URL(file, `file://${root}`), 'utf8')

function run(script: string, env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(
    'bash',
    ['-c', `set -euo pipefail\nsource .ci/untested\n${script}\ntell_untested\necho green`],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'] ?? '', ...env },
      encoding: 'utf8',
    },
  )
  return { status, stdout, stderr }
}

describe('.ci/full', () => {
  test('is green where all was tested', () => {
    expect(run('as_far_as_possible echo ok')).toEqual({ status: 0, stdout: 'ok\ngreen\n', stderr: '' })
  })

  const part = `as_far_as_possible bash -c 'echo "NOT TESTED: the alerts"; exit 69'
as_far_as_possible bash -c 'echo "NOT TESTED: the figure"; exit 0'
as_far_as_possible bash -c 'exit 69'
not_tested 'the rest'`

  test('is not where something could not be tested, and lists what', () => {
    const { status, stdout, stderr } = run(part)
    expect(status).toBe(69)
    expect(stdout).toContain(
      '4 of the tests could not be made here:\n  the alerts\n  the figure\n  what bash -c exit 69 would test\n  the rest\n',
    )
    expect(stderr).toContain('ALLOW_UNTESTED=1')
  })

  test('is green with ALLOW_UNTESTED=1, and lists it all the same', () => {
    const { status, stdout } = run(part, { ALLOW_UNTESTED: '1' })
    expect(status).toBe(0)
    expect(stdout).toMatch(/4 of the tests could not be made here:\n {2}the alerts\n[\s\S]*green\n$/)
  })

  test('ends at once with the code of what failed', () => {
    expect(run("as_far_as_possible bash -c 'exit 3'\necho later")).toMatchObject({ status: 3, stdout: '' })
  })

  test('asks so of Kubernetes, the image and the virtual machine, and tells at its very end', () => {
    const full = read('.ci/full')
    for (const program of ['test/cgroup-vm.sh', 'docker/kubernetes/test.sh', 'docker/test.sh']) {
      expect(full).toMatch(new RegExp(`^as_far_as_possible ${program}$`, 'm'))
    }
    expect(full.trimEnd().endsWith('\ntell_untested')).toBe(true)
    expect(full).not.toContain("echo 'NOT TESTED")
  })

  test('nothing of the image is passed over without being counted', () => {
    for (const file of ['compose', 'service', 'image']) {
      expect(read(`docker/test/${file}.sh`)).not.toMatch(/echo ['"]NOT TESTED/)
    }
  })
})
