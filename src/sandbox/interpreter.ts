import { execFile } from 'node:child_process'
import { realpath, stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { tooManyFiles } from '../open-files.js'
import { otherProgram, RUN_TIMEOUT_MS, type Run, type RunFailure, whyNot } from './interpreter-failure.js'
import { parseJson } from './listener.js'

/** An interpreter that the sandbox can use, and the places outside of /usr that it needs. */
export interface Interpreter {
  /** sys.executable: for a shim or a link, what really runs. */
  readonly path: string
  readonly version: string
  /** Folders (and files) to show to the sandbox, read-only, none below another. */
  readonly trees: readonly string[]
  /** Folders of sys.path that sandboxes do not see: a .pth file (an editable install) may name a whole project, keys and all. */
  readonly notShown: readonly string[]
}

/** The configured interpreter can't be used; the message says why and what would be right. */
export class InterpreterError extends Error {
  override readonly name = 'InterpreterError'
}

const PROBE = `
import json, os, sys, sysconfig
libraries = set()
try:
    with open("/proc/self/maps") as maps:
        for line in maps:
            parts = line.split(None, 5)
            if len(parts) == 6 and parts[5].startswith("/"):
                libraries.add(os.path.dirname(parts[5].strip()))
except OSError:
    pass
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": list(sys.version_info[:3]),
    "executable": sys.executable,
    "prefixes": [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix],
    "paths": list(sysconfig.get_paths().values()),
    "path": [p for p in sys.path if os.path.isabs(p) and os.path.exists(p)],
    "libraries": sorted(libraries),
}))
`

const ProbeResult = z.object({
  implementation: z.string(),
  version: z.tuple([z.number(), z.number(), z.number()]),
  executable: z.string(),
  prefixes: z.array(z.string()),
  paths: z.array(z.string()),
  path: z.array(z.string()),
  libraries: z.array(z.string()),
})

/**
 * Finds what runs behind `command` (a name on PATH or a path; a shim of pyenv, a venv and a link are all right).
 *
 * Errors: InterpreterError when it does not start, is no CPython, or is older than 3.10.
 */
export async function findInterpreter(command: string, env: NodeJS.ProcessEnv): Promise<Interpreter> {
  const run = runner(command, env)
  const { stdout } = await run(['-s', '-c', PROBE]).catch(async (failure: RunFailure) => {
    if (tooManyFiles(failure) !== null) throw failure
    throw new InterpreterError(
      `SANDBOX_PYTHON: ${JSON.stringify(command)} ${await whyNot(command, env['PATH'], run, failure, PROBE)}; name a CPython of 3.10 or later`,
    )
  })
  const answer = ProbeResult.safeParse(parseJson(Buffer.from(stdout.trim().split('\n').at(-1) ?? '')))
  if (!answer.success) {
    const other = await otherProgram(run)
    throw new InterpreterError(
      `SANDBOX_PYTHON: ${JSON.stringify(command)} ${other ?? 'does not answer as Python does'}; name a CPython of 3.10 or later`,
    )
  }
  const probe = answer.data
  const version = probe.version.join('.')
  const [major, minor] = probe.version
  if (probe.implementation !== 'cpython' || major !== 3 || minor < 10) {
    throw new InterpreterError(
      `SANDBOX_PYTHON: ${JSON.stringify(command)} is ${probe.implementation} ${version}; a CPython of 3.10 or later is needed`,
    )
  }
  const wanted = [...probe.prefixes, ...probe.paths, ...probe.libraries, probe.executable]
  const real = await Promise.all(wanted.map(place => realpath(place).catch(() => null)))
  const trees = await presentTrees([...wanted, ...real.filter(place => place !== null)])
  const shown = [...SYSTEM, ...trees]
  return {
    path: probe.executable,
    version,
    trees,
    notShown: probe.path.filter(place => !shown.some(tree => isBelow(path.resolve(place), tree))),
  }
}

function runner(command: string, env: NodeJS.ProcessEnv): Run {
  const options = {
    // A shim needs PATH and HOME, but nothing of the machine's PYTHON* settings may decide what we find.
    env: Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('PYTHON'))),
    cwd: '/',
    timeout: RUN_TIMEOUT_MS,
  }
  return args => promisify(execFile)(command, [...args], options)
}

/** What sandboxes see anyway. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']

/** Folders that hold more than libraries, whatever a .pth file says: never shown as a whole. */
function tooWide(place: string): boolean {
  const parts = place.split('/').filter(part => part !== '')
  if (parts.length === 0) return true
  const [top] = parts
  if (['proc', 'sys', 'dev', 'run', 'etc', 'boot'].includes(top ?? '')) return true
  return parts.length === 1
    ? ['root', 'home', 'tmp', 'var', 'opt', 'srv', 'mnt'].includes(top ?? '')
    : parts.length === 2 && top === 'home'
}

async function presentTrees(places: readonly string[]): Promise<string[]> {
  const candidates = [...new Set(places.map(place => path.resolve(place)))]
    .filter(place => !tooWide(place) && !SYSTEM.some(system => isBelow(place, system)))
    .sort((a, b) => a.length - b.length)
  const trees: string[] = []
  for (const place of candidates) {
    if (trees.some(tree => isBelow(place, tree))) continue
    if (
      await stat(place).then(
        () => true,
        () => false,
      )
    )
      trees.push(place)
  }
  return trees
}

function isBelow(place: string, folder: string): boolean {
  return place === folder || place.startsWith(`${folder}/`)
}
