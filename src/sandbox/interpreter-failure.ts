import { constants } from 'node:fs'
import { access, readlink, stat } from 'node:fs/promises'
import path from 'node:path'

export const RUN_TIMEOUT_MS = 20_000
const REASON_CHARS = 200
/** As the kernel counts them. */
const LINKS_MOST = 40

/** Runs the command with arguments; rejects with a RunFailure. */
export type Run = (args: readonly string[]) => Promise<{ readonly stdout: string; readonly stderr: string }>

/** As execFile rejects: `code` is the exit code, or the system's name for why there was no start. */
export interface RunFailure extends Error {
  readonly code?: string | number | null
  readonly signal?: NodeJS.Signals | null
  readonly killed?: boolean
  readonly stderr?: string
}

/** What keeps the command from answering the probe, worded to follow its name. `searched`: PATH. */
export async function whyNot(
  command: string,
  searched: string | undefined,
  run: Run,
  failure: RunFailure,
  probe: string,
): Promise<string> {
  if (typeof failure.code === 'string') {
    return (await whyUnstartable(command, searched ?? '')) ?? `does not start (${lastWords(failure, probe)})`
  }
  return (await otherProgram(run)) ?? `does not start (${lastWords(failure, probe)})`
}

/** A program that says of itself that it is something else, in words; null for a Python, and for one that says nothing. */
export async function otherProgram(run: Run): Promise<string | null> {
  const said = await run(['--version']).catch(() => null)
  const [line = ''] = `${said?.stdout ?? ''}\n${said?.stderr ?? ''}`.split('\n').filter(text => text.trim() !== '')
  if (line === '' || /^(Python|PyPy) \d/.test(line)) return null
  return `is not a Python (it says of itself: ${short(line.trim())})`
}

/** Its last words, else how it ended. Never the message of execFile, which holds the whole command, and so the probe. */
function lastWords({ code, signal, killed, stderr = '', message }: RunFailure, probe: string): string {
  const words = stderr.replaceAll(probe, '…').trim().split('\n').at(-1) ?? ''
  if (words !== '') return short(words)
  if (typeof code === 'string') return message.split('\n', 1)[0] ?? code
  if (killed === true) return `no answer within ${RUN_TIMEOUT_MS / 1000} s`
  return signal === null || signal === undefined ? `exit code ${code}` : signal
}

function short(words: string): string {
  return words.length > REASON_CHARS ? `${words.slice(0, REASON_CHARS - 1).toWellFormed()}…` : words
}

/** Why the system does not start it, worded to follow its name; null where nothing is wrong with path and rights. */
async function whyUnstartable(command: string, searched: string): Promise<string | null> {
  if (command.includes('/')) return await whyUnreachable(command)
  const unreadable: string[] = []
  for (const folder of searched.split(':').filter(one => one !== '')) {
    const code = await refusal(path.join(folder, command), constants.F_OK)
    if (code === null) return await whyUnreachable(path.join(folder, command))
    if (code === 'EACCES') unreadable.push(folder)
  }
  const closed =
    unreadable.length === 0 ? '' : `, of which uid ${process.getuid?.()} may not enter ${unreadable.join(', ')}`
  return `is not found on PATH (${searched}${closed})`
}

/** Follows the path as the kernel does, to name the first thing in the way. */
async function whyUnreachable(command: string, links = 0): Promise<string | null> {
  const file = path.resolve('/', command)
  const uid = process.getuid?.()
  const parts = file.split('/').slice(1)
  for (let depth = 1; depth < parts.length; depth++) {
    const folder = `/${parts.slice(0, depth).join('/')}`
    const code = await refusal(folder, constants.X_OK)
    if (code === 'EACCES') return `can not be reached: uid ${uid} may not enter ${folder}`
    if (code !== null) return `is not there: there is no ${folder} (${code})`
  }
  const target = await readlink(file).catch(() => null)
  if (target !== null && links < LINKS_MOST) {
    const found = await whyUnreachable(path.resolve(path.dirname(file), target), links + 1)
    return found === null ? null : `leads to ${path.resolve(path.dirname(file), target)}, which ${found}`
  }
  const what = await stat(file).catch((error: NodeJS.ErrnoException) => error)
  if (what instanceof Error) return `is not there: there is no such file (${what.code})`
  if (what.isDirectory()) return 'is a folder'
  return (await refusal(file, constants.X_OK)) === null ? null : `may not be run by uid ${uid} (EACCES)`
}

/** What keeps this user from it, by the system's name; null for nothing. */
async function refusal(place: string, mode: number): Promise<string | null> {
  return await access(place, mode).then(
    () => null,
    (error: NodeJS.ErrnoException) => error.code ?? 'unknown error',
  )
}
