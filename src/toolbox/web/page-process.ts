import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { Pieces } from '../pieces.js'
import { type PageAnswer, type PageJob, type PageLimits, TITLE_CHARS_MAX } from './page-messages.js'

const RSS_CHECK_MS = 100
/** Memory that is taken faster than anyone looks ends in the kernel's own limit, which counts more than what is in use. */
const DATA_OVER_RSS = 4
/** For writing an answer as JSON: a control character takes six. */
const BYTES_PER_CHAR_MAX = 6

/** How a call's process ended: the answers that came before are good. */
export type PageProcessEnd = 'done' | 'aborted' | 'time' | 'memory' | 'garbage' | 'died' | 'not started'

export interface PageProcessResult {
  /** By the index of the URL; a page that is not in it has no answer. */
  readonly answers: ReadonlyMap<number, PageAnswer>
  readonly end: PageProcessEnd
}

/**
 * Gives a process its one job, and ends with it. Aborting ends the process. Never rejects; the process has ended when it resolves.
 */
export async function runPageJob(child: ChildProcess, job: PageJob, signal: AbortSignal): Promise<PageProcessResult> {
  const answers = new Map<number, PageAnswer>()
  const { limits } = job
  let end: PageProcessEnd | undefined
  const kill = (why: PageProcessEnd) => {
    end ??= why
    killPageProcess(child)
  }
  const abort = () => kill('aborted')
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  const wall = setTimeout(kill, limits.wallMs, 'time')
  const watch = setInterval(() => {
    void residentBytes(child.pid).then(bytes => bytes > limits.rssBytesMax && kill('memory'))
  }, RSS_CHECK_MS)
  try {
    const closed = once(child, 'close').catch(() => {
      end ??= 'not started'
    })
    // It may be dead already: EPIPE says no more than its end does.
    child.stdin?.on('error', () => {})
    child.stdin?.write(`${JSON.stringify(job)}\n`)
    readAnswers(child, job, answers, () => kill('garbage'))
    await closed
    end ??= child.exitCode === 0 && answers.size === job.urls.length ? 'done' : endOf(child)
    return { answers, end }
  } finally {
    signal.removeEventListener('abort', abort)
    clearTimeout(wall)
    clearInterval(watch)
    killPageProcess(child)
  }
}

/**
 * Limits of the kernel that node has no option for; of sh, since it is on every machine. A lower limit that is there stays. Where
 * the whole container is short of memory, this goes first, not the worker.
 */
const LIMITED =
  'ulimit -c 0; ulimit -t "$1"; ulimit -d "$2"; { echo 1000 >/proc/self/oom_score_adj; } || :; shift 2; exec "$@"'

/** A process that waits for its job. Not even the worker's death leaves it: its stdin closes. */
export function startPageProcess(entry: string, limits: PageLimits): ChildProcess {
  const seconds = Math.ceil(limits.wallMs / 1_000) + 5
  const dataKib = Math.ceil((limits.rssBytesMax * DATA_OVER_RSS) / 1024)
  const node = [process.execPath, ...nodeOptions(entry, limits.heapMib), entry]
  return spawn('/bin/sh', ['-c', LIMITED, 'sh', String(seconds), String(dataKib), ...node], {
    cwd: '/',
    env: {},
    // A process group of its own, so that it is killed whole.
    detached: true,
    // Whatever it says on stderr may come from a page, and goes nowhere.
    stdio: ['pipe', 'pipe', 'ignore'],
  })
}

/** Reads no file but the code it runs, writes none, starts nothing, makes no code out of strings. */
function nodeOptions(entry: string, heapMib: number): string[] {
  const flags = process.allowedNodeEnvironmentFlags
  const permission = flags.has('--permission') ? '--permission' : '--experimental-permission'
  const code = dirname(entry)
  const modules = createRequire(import.meta.url)
    .resolve('linkedom')
    .split(`${sep}linkedom${sep}`)[0]
  return [
    '--no-warnings',
    '--disallow-code-generation-from-strings',
    `--max-old-space-size=${heapMib}`,
    permission,
    `--allow-fs-read=${code}${sep}*`,
    // Where node looks for packages, and for the file that says that the code is made of modules; and where a link leads to.
    ...ancestors(code).flatMap(folder => [
      `--allow-fs-read=${join(folder, 'package.json')}`,
      `--allow-fs-read=${join(folder, 'node_modules', '*')}`,
    ]),
    `--allow-fs-read=${modules}${sep}*`,
    // Newer versions deny the network as well unless told.
    ...(flags.has('--allow-net') ? ['--allow-net'] : []),
  ]
}

/** Up to the one that has a package.json: node looks no further. */
function ancestors(folder: string): string[] {
  const parent = dirname(folder)
  return parent === folder || existsSync(join(folder, 'package.json')) ? [folder] : [folder, ...ancestors(parent)]
}

/** Beside this file, in a build. */
export const BUILT_ENTRY = fileURLToPath(new URL('./page-child.js', import.meta.url))

function readAnswers(child: ChildProcess, job: PageJob, answers: Map<number, PageAnswer>, garbage: () => void): void {
  const answer = z.strictObject({
    index: z
      .int()
      .min(0)
      .max(job.urls.length - 1),
    title: z.string().max(TITLE_CHARS_MAX),
    content: z.string().max(job.charLimit),
    error: z.string().max(500).nullable(),
  })
  const bytesMax = job.urls.length * (job.charLimit + TITLE_CHARS_MAX + 1_000) * BYTES_PER_CHAR_MAX
  let bytes = 0
  const line = new Pieces()
  child.stdout?.on('error', garbage)
  child.stdout?.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > bytesMax) {
      line.take()
      garbage()
      return
    }
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
      line.add(chunk.subarray(from, at))
      const parsed = answer.safeParse(jsonOf(line.take()))
      from = at + 1
      if (!parsed.success || answers.has(parsed.data.index)) return garbage()
      answers.set(parsed.data.index, parsed.data)
    }
    line.add(chunk.subarray(from))
  })
}

function jsonOf(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString('utf8'))
  } catch {
    return undefined
  }
}

function endOf(child: ChildProcess): PageProcessEnd {
  // How V8 ends when its heap is full, and the kernel's out-of-memory killer. SIGKILL of ours has a reason already.
  return child.signalCode === 'SIGABRT' || child.signalCode === 'SIGTRAP' || child.signalCode === 'SIGKILL'
    ? 'memory'
    : 'died'
}

export function killPageProcess(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // It has ended, and nobody else has its number before its end is seen here.
  }
}

async function residentBytes(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024
}
