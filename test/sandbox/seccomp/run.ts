import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The Python that libseccomp's binding of the distribution belongs to; also the one with numpy and pandas. */
export const SYSTEM_PYTHON = '/usr/bin/python3'
export const FOLDER = fileURLToPath(new URL('../../../src/sandbox/python/seccomp/', import.meta.url))
const UNDER = fileURLToPath(new URL('./under.py', import.meta.url))

export const GUESTS = ['namespaces', 'landlock', 'landlock-shared-uid', 'landlock-shared-files'] as const
export const LANDLOCK = GUESTS.slice(1)
export const VARIANTS = [...GUESTS, 'warden'] as const

type Ended = { stdout: string; stderr: string; code: number | null; signal: NodeJS.Signals | null }

/**
 * Runs `before`, loads the filter `variant` and runs `code`, in a process without PYTHON* variables, with a home and temporary folder that is
 * removed afterwards. Never rejects for what the code does.
 */
export const under = (
  variant: string,
  code: string,
  python = SYSTEM_PYTHON,
  before = '',
  timeout = 25_000,
): Promise<Ended> =>
  new Promise((resolve, reject) => {
    const home = mkdtempSync(join(tmpdir(), 'seccomp-'))
    const child = spawn(python, ['-BI', UNDER, FOLDER, variant, before], {
      env: { PATH: '/usr/bin:/bin', HOME: home, TMPDIR: home, LANG: 'C.UTF-8', MPLBACKEND: 'Agg' },
      timeout,
    })
    const ended: Ended = { stdout: '', stderr: '', code: null, signal: null }
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      ended.stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      ended.stderr += text
    })
    const clear = () => rmSync(home, { recursive: true, force: true, maxRetries: 3 })
    child.on('error', error => {
      clear()
      reject(error)
    })
    child.on('close', (exitCode, signal) => {
      clear()
      resolve({ ...ended, code: exitCode, signal })
    })
    child.stdin.on('error', () => {})
    child.stdin.end(code)
  })

/** The system's Python, and the one that PATH names where it is another one and new enough (a pyenv build, say). */
export const pythons = (): string[] => {
  const asked = 'import sys; print(sys.executable if sys.version_info >= (3, 10) else "")'
  const found = spawnSync('python3', ['-I', '-c', asked], { encoding: 'utf8' }).stdout.trim()
  return [...new Set([SYSTEM_PYTHON, ...(found === '' ? [] : [found])])]
}
