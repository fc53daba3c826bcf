import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import path from 'node:path'

const PYENV = 'pyenv'

export interface FoundPython {
  /** sys.executable */
  readonly path: string
  readonly version: string
  /** Whether every user of the machine can read it and its library. */
  readonly readable: boolean
}

/**
 * The CPythons from 3.10 on that this machine has: the system's, those on PATH, and pyenv's versions. Those that every user
 * can read come first.
 */
export function pythons(): FoundPython[] {
  known ??= findPythons()
  return known
}

let known: FoundPython[] | null = null

function findPythons(): FoundPython[] {
  const found = new Map<string, FoundPython>()
  for (const command of ['/usr/bin/python3', ...onPath(), ...pyenvVersions()]) {
    const answer = ask(command)
    if (answer !== null) found.set(realpathSync(answer.path), answer)
  }
  return [...found.values()].sort((a, b) => Number(b.readable) - Number(a.readable))
}

/**
 * One that every user of the machine can read, or the one that SANDBOX_TEST_PYTHON names, to run all tests against another.
 * Throws where there is none: the tests of tiers need it.
 */
export function readablePython(): string {
  const asked = process.env['SANDBOX_TEST_PYTHON']
  if (asked) return asked
  const system = ask('/usr/bin/python3')
  const python = system?.readable ? system : pythons().find(one => one.readable)
  if (python === undefined) throw new Error('no CPython >= 3.10 that every user can read: install python3')
  return python.path
}

const QUESTION = `import os, sys
if sys.implementation.name == "cpython" and sys.version_info >= (3, 10):
    print(sys.executable, ".".join(map(str, sys.version_info[:3])), os.__file__, sep="\\n")`

function ask(command: string): FoundPython | null {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PYTHON')))
  const [executable, version, library] =
    spawnSync(command, ['-I', '-c', QUESTION], { encoding: 'utf8', env }).stdout?.trim().split('\n') ?? []
  if (!executable || version === undefined || library === undefined) return null
  return { path: executable, version, readable: [executable, library].every(isReadable) }
}

function onPath(): string[] {
  const folders = (process.env['PATH'] ?? '').split(':').filter(folder => path.isAbsolute(folder))
  return folders.map(folder => path.join(folder, 'python3')).filter(file => existsSync(file))
}

function pyenvVersions(): string[] {
  const root = spawnSync(PYENV, ['root'], { encoding: 'utf8' }).stdout?.trim()
  if (!root || !existsSync(path.join(root, 'versions'))) return []
  const versions = path.join(root, 'versions')
  return readdirSync(versions).map(name => path.join(versions, name, 'bin', 'python3'))
}

/** Whether others may pass through every folder above, and read it. */
function isReadable(file: string): boolean {
  const real = realpathSync(file)
  if ((statSync(real).mode & 0o004) === 0) return false
  for (let folder = path.dirname(real); folder !== '/'; folder = path.dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false
  }
  return true
}
