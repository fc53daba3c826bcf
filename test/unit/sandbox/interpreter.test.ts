import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findInterpreter, InterpreterError } from '../../../src/sandbox/interpreter.js'
import { pythons } from '../../sandbox/support/pythons.js'

let folder: string
const PYTHON = pythons()[0]?.path ?? 'python3'

beforeAll(() => {
  folder = realpathSync(mkdtempSync('/tmp/i-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** An executable that answers the probe with `lines` of shell. */
function script(name: string, lines: string, shell = '/bin/sh'): string {
  const path = join(folder, name)
  writeFileSync(path, `#!${shell}\n${lines}\n`, { mode: 0o755 })
  return path
}

function link(name: string, target: string): string {
  const path = join(folder, name)
  symlinkSync(target, path)
  return path
}

const answer = (fields: object) =>
  `echo '${JSON.stringify({ implementation: 'cpython', version: [3, 12, 0], executable: '/x', prefixes: [], paths: [], path: [], libraries: [], ...fields })}'`

const find = (command: string, env: NodeJS.ProcessEnv = process.env) => findInterpreter(command, env)

describe('an interpreter that can be used', () => {
  it.each(pythons())('is found: $path ($version)', async ({ path, version }) => {
    const found = await find(path)
    expect(found.version).toBe(version)
    expect(realpathSync(found.path)).toBe(realpathSync(path))
  })

  it('is found by its name on PATH', async () => {
    const bin = join(folder, 'bin')
    mkdirSync(bin)
    symlinkSync(PYTHON, join(bin, 'some-python'))
    const found = await find('some-python', { PATH: `${bin}:/usr/bin:/bin` })
    expect(realpathSync(found.path)).toBe(realpathSync(PYTHON))
  })

  it('is what a shim script starts, not the shim', async () => {
    const found = await find(script('shim', `exec ${PYTHON} "$@"`))
    expect(found.path).toBe(PYTHON)
  })

  it.each(['', 'deep/er/'])('is a venv in "%s" of the temporary folder, with the venv as a tree', async where => {
    const venv = join(folder, where, 'venv')
    execFileSync(PYTHON, ['-m', 'venv', '--without-pip', venv])
    const found = await find(join(venv, 'bin', 'python'))
    expect(found.path).toBe(join(venv, 'bin', 'python'))
    expect(found.trees).toContain(venv)
  })

  it('needs no tree that sandboxes see anyway, and none below another', async () => {
    for (const { path } of pythons()) {
      const { trees } = await find(path)
      expect(trees.filter(tree => tree.startsWith('/usr/'))).toEqual([])
      expect(trees.filter(tree => trees.some(other => other !== tree && tree.startsWith(`${other}/`)))).toEqual([])
    }
  })

  it('is found whatever PYTHON* variables say', async () => {
    const found = await find(PYTHON, { ...process.env, PYTHONHOME: '/nowhere', PYTHONPATH: folder })
    expect(found.trees).not.toContain(folder)
  })

  it('does not bring whole homes or system folders into the sandbox, whatever its paths say', async () => {
    const wide = ['/', '/home', '/root', '/home/someone', '/etc', '/proc/self', '/tmp', '/var', '/opt']
    expect((await find(script('wide', answer({ prefixes: wide, paths: wide })))).trees).toEqual([])
  })

  it('does not bring in the project that an editable install names, and says so', async () => {
    const project = join(folder, 'project')
    mkdirSync(project)
    const found = await find(script('editable', answer({ path: [project, '/usr/lib'] })))
    expect(found.trees).toEqual([])
    expect(found.notShown).toEqual([project])
  })
})

describe('an interpreter that can not be used', () => {
  it.each([
    ['is not there', () => join(folder, 'python9'), /python9" is not there: there is no such file \(ENOENT\)/],
    [
      'is in a folder that is not there',
      () => '/nowhere/bin/python3',
      /is not there: there is no \/nowhere \(ENOENT\)/,
    ],
    ['is a folder', () => folder, /" is a folder/],
    [
      'is a link to nothing',
      () => link('dangling', '/nowhere/python3'),
      /leads to \/nowhere\/python3, which is not there/,
    ],
    [
      'is a program for another shell',
      () => script('shebang', '', '/nowhere/sh'),
      /does not start \(spawn \S+ ENOENT\)/,
    ],
    ['is on no PATH', () => 'python-of-nobody', /is not found on PATH \(\S+\)/],
    ['is ls', () => '/bin/ls', /is not a Python \(it says of itself: ls /],
    ['is perl', () => 'perl', /is not a Python \(it says of itself: This is perl/],
    ['does nothing', () => '/bin/true', /is not a Python \(it says of itself: true /],
    ['ends with an error', () => script('fails', 'echo "no such version" >&2; exit 127'), /no such version/],
    ['ends without a word', () => script('mute', 'exit 3'), /does not start \(exit code 3\)/],
    ['is killed', () => script('killed', 'kill -9 $$'), /does not start \(SIGKILL\)/],
    ['says nothing', () => script('silent', 'exit 0'), /does not answer/],
    ['says something else', () => script('garbage', 'echo hello'), /is not a Python \(it says of itself: hello\)/],
    ['is no CPython', () => script('pypy', answer({ implementation: 'pypy' })), /is pypy 3\.12\.0/],
    ['is older than 3.10', () => script('old', answer({ version: [3, 9, 18] })), /is cpython 3\.9\.18/],
    ['is Python 2', () => script('two', answer({ version: [2, 7, 18] })), /is cpython 2\.7\.18/],
  ])('is refused when it %s, with what would be right', async (_, command, message) => {
    const refused = find(command())
    await expect(refused).rejects.toThrow(InterpreterError)
    await expect(refused).rejects.toThrow(message)
    await expect(refused).rejects.toThrow(/CPython of 3\.10 or later/)
  })

  it('is another program: its last words are shown, in short, and not the whole of ours', async () => {
    const error: unknown = await find(script('other', 'echo first >&2; echo "unknown argument: $3" >&2; exit 2')).catch(
      thrown => thrown,
    )
    expect((error as Error).message).not.toContain('first')
    expect((error as Error).message.length).toBeLessThan(400)
  })

  it('quotes what it was given: nothing of the probe is shown', async () => {
    const echo = script('echo', 'echo "can not open $3 now" >&2; exit 2')
    const error: unknown = await find(echo).catch(thrown => thrown)
    expect((error as Error).message).toBe(
      `SANDBOX_PYTHON: "${echo}" does not start (can not open … now); name a CPython of 3.10 or later`,
    )
  })

  it('is one of the future with another major version', async () => {
    await expect(find(script('four', answer({ version: [4, 0, 0] })))).rejects.toThrow(/is cpython 4\.0\.0/)
  })
})
