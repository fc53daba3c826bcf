import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { CannotStart } from './connection.js'
import type { StdioConnection } from './server-config.js'

const TERM_MS = 2_000
/** How long what is left in the pipe of a dead server is waited for: somebody who left its group may hold it open. */
const LAST_WORDS_MS = 500
const INHERITED = ['PATH', 'HOME', 'LANG', 'TMPDIR']

/**
 * Nothing may outlive the worker, however it dies, and a server that doesn't look at the end of its stdin would. So a second
 * process in the server's group waits for the end of a pipe that only the worker holds (fd 3), and ends the group then. The shell
 * becomes the server, whose exit code and process id are therefore its own; `$$` is the group.
 */
const WATCHED =
  '(trap "" TERM INT HUP; PATH=/usr/bin:/bin; read -r _ <&3; kill -s TERM -- "-$$"; sleep 2; kill -s KILL -- "-$$")' +
  ' </dev/null >/dev/null 2>&1 & exec "$0" "$@" 3<&-'

export interface ServerProcess {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** When it is gone, and its output read: how, as words that follow "the tool server 'x' ". */
  readonly ended: Promise<string>
  /** Ends the whole group: SIGTERM, 2 s, SIGKILL. Resolves when it is gone. */
  stop(): Promise<void>
}

/** Starts a server in a process group of its own. Throws CannotStart. */
export function startServerProcess(
  connection: StdioConnection,
  environment: Readonly<Record<string, string | undefined>>,
): ServerProcess {
  const cwd = connection.cwd ?? process.cwd()
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) throw new CannotStart(`no folder ${cwd}`)
  const env: Record<string, string> = {}
  for (const name of INHERITED) if (environment[name] !== undefined) env[name] = environment[name]
  Object.assign(env, connection.env)
  const program = programOf(connection.command, env['PATH'] ?? '', cwd)

  const child = spawn('/bin/sh', ['-c', WATCHED, program, ...connection.args], {
    cwd,
    env,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  }) as ChildProcessByStdio<Writable, Readable, Readable>
  const lifeline = child.stdio[3]
  for (const stream of [child.stdin, child.stdout, child.stderr, lifeline]) {
    stream?.on('error', () => {}) // EPIPE of a server that is going; its end is told by its exit
  }

  const exited = new Promise<string>(resolve => {
    child.once('exit', (code, signal) => {
      signalGroup('SIGKILL')
      resolve(`ended (${signal === null ? `exit code ${code}` : signal})`)
    })
    child.once('error', error =>
      resolve(`could not start (${(error as NodeJS.ErrnoException).code ?? 'no reason given'})`),
    )
  })
  const ended = exited.then(async words => {
    await within(LAST_WORDS_MS, Promise.all([over(child.stdout), over(child.stderr)]))
    for (const stream of [child.stdin, child.stdout, child.stderr, lifeline]) stream?.destroy()
    return words
  })

  /** Only before its exit or right after it: the number is free for others once the group is empty. */
  function signalGroup(signal: NodeJS.Signals): void {
    if (child.pid === undefined) return
    try {
      process.kill(-child.pid, signal)
    } catch {
      // The group is gone.
    }
  }

  let stopping: Promise<void> | null = null
  async function stop(): Promise<void> {
    if (child.exitCode === null && child.signalCode === null) {
      child.stdin.end()
      signalGroup('SIGTERM')
      const gone = await within(TERM_MS, exited)
      if (!gone) signalGroup('SIGKILL')
    }
    // Nobody reads any more; without this a full pipe would keep the streams from ending.
    child.stdout.resume()
    child.stderr.resume()
    await ended
  }

  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    ended,
    stop() {
      stopping ??= stop()
      return stopping
    },
  }
}

/** Looked for here, for the words: a shell that finds nothing says so to stderr. */
function programOf(command: string, searchPath: string, cwd: string): string {
  if (command.includes('/')) {
    const program = path.resolve(cwd, command)
    if (isProgram(program)) return program
    throw new CannotStart(`${command} is no program`)
  }
  for (const folder of searchPath.split(':')) {
    const program = path.resolve(cwd, folder, command)
    if (isProgram(program)) return program
  }
  throw new CannotStart(`no program ${command} on its PATH`)
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

function over(stream: Readable): Promise<void> {
  return new Promise(resolve => {
    if (stream.closed) return resolve()
    stream.once('close', resolve)
  })
}

/** Whether it settled in time. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>(resolve => {
    timer = setTimeout(() => resolve(false), ms)
  })
  const settled = await Promise.race([work.then(() => true), late])
  clearTimeout(timer)
  return settled
}
