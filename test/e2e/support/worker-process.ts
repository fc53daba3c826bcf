import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { EmbeddedBackend } from '../../../src/dev/embedded-backend.js'

/** The built command line, as a user starts it. */
export const MAIN = fileURLToPath(new URL('../../../dist/main.js', import.meta.url))

/** Debian's interpreter has numpy, pandas and matplotlib where CI installs them; another `python3` may not. */
export const PYTHON = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3'

interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Program {
  readonly child: ChildProcess
  readonly pid: number
  readonly exited: Promise<Exit>
  stdout(): string
  stderr(): string
  /** Its temporary folder; nothing else uses it. */
  readonly tmp: string
}

const programs: Program[] = []

/**
 * Starts the command line with an environment of its own: nothing of this process's variables but PATH and HOME.
 *
 * through: a command, with its arguments, that then becomes what it is given as further arguments.
 */
export async function startProgram(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  stdin: 'ignore' | 'pipe' = 'ignore',
  through: readonly string[] = [],
): Promise<Program> {
  const tmp = await mkdtemp(path.join(os.tmpdir(), 'e2e-'))
  // Sandboxes of a root worker have uids of their own and pass through it in the landlock tier.
  await chmod(tmp, 0o711)
  const [command = process.execPath, ...rest] = [...through, process.execPath, MAIN, ...args]
  const child = spawn(command, rest, {
    env: {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      HOME: tmp,
      TMPDIR: tmp,
      STATE_DIR: path.join(tmp, 'state'),
      HEALTH_PORT: '0', // several run at once
      SANDBOX_PYTHON: PYTHON,
      // Most tests need no library, and without them a sandbox is up in half the time.
      SANDBOX_PRELOAD: 'none',
      ...env,
    },
    stdio: [stdin, 'pipe', 'pipe'],
  })
  const text = { stdout: '', stderr: '' }
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text.stdout += chunk
  })
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text.stderr += chunk
  })
  const exited = new Promise<Exit>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal }))
  })
  const program: Program = {
    child,
    pid: child.pid ?? -1,
    exited,
    stdout: () => text.stdout,
    stderr: () => text.stderr,
    tmp,
  }
  programs.push(program)
  return program
}

/** `start` against a backend, subscribed and registered. */
export async function startWorkerProcess(
  backend: EmbeddedBackend,
  env: Readonly<Record<string, string>> = {},
  through: readonly string[] = [],
): Promise<Program> {
  const program = await startProgram(
    ['start'],
    { FLEXUS_API_BASEURL: backend.url, FLEXUS_API_KEY: backend.apiKey, ...env },
    'ignore',
    through,
  )
  // Its own word: what a worker that was killed has sent last can reach the backend after its end.
  const hasRegistered = () => env['LOG_LEVEL'] !== undefined || program.stdout().includes('tools registered')
  const registrations = backend.registrations.length
  const said = () => `:\n${program.stdout()}${program.stderr()}`
  let end: Exit | null = null
  void program.exited.then(exit => {
    end = exit
  })
  const isUp = () => {
    if (end !== null) throw new Error(`the worker ended before it connected, ${JSON.stringify(end)}${said()}`)
    return backend.subscribers > 0 && backend.registrations.length > registrations && hasRegistered()
  }
  await backend.waitFor(isUp, 60_000, () => `the worker did not connect${said()}`)
  return program
}

/** The log of a worker process, a JSON object a line. */
export function logLines(program: Program): Record<string, unknown>[] {
  return program
    .stdout()
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as Record<string, unknown>)
}

/** Ends every program of this test and removes its folder; for afterEach. */
export async function endPrograms(): Promise<void> {
  for (const program of programs.splice(0)) {
    if (program.child.exitCode === null && program.child.signalCode === null) program.child.kill('SIGTERM')
    const timer = setTimeout(() => program.child.kill('SIGKILL'), 8_000)
    await program.exited
    clearTimeout(timer)
    await rm(program.tmp, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** Scratch folders that the worker has left in its temporary folder. */
export async function leftFolders(program: Program): Promise<string[]> {
  return (await readdir(program.tmp)).filter(name => name.startsWith('pyx-'))
}
