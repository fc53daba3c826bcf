import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { FRAME, FrameDecoder, packFrame } from '../../../../src/sandbox/frames.js'
import { answerOf } from './catalog.js'

const FOLDER = fileURLToPath(new URL('../../../../src/sandbox/python', import.meta.url))
const DRIVER = readFileSync(new URL('./guest.py', import.meta.url), 'utf8')

export interface Request {
  readonly id: number
  readonly op: string
  readonly [field: string]: unknown
}

export interface Options {
  readonly python?: string
  /** A folder to work in that stays. */
  readonly work?: string
  readonly progress?: boolean
  /** No toolbox at all. */
  readonly without?: boolean
  /** Instead of the usual answers; undefined: the usual one, null: none. */
  readonly answer?: (request: Request, line: Line) => unknown
  readonly started?: (child: ChildProcess, line: Line) => void
}

/** The server's end of the pipes. */
interface Line {
  send(answer: unknown): void
  raw(payload: string | Buffer): void
  end(): void
  pause(): void
  resume(): void
}

interface Ended {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number | null
  readonly value: string | null
  readonly requests: readonly Request[]
  readonly calls: readonly Request[]
}

/** Runs code as in a sandbox, with the toolbox library on real pipes and a server that knows the tools of catalog.ts. */
export async function runCode(code: string, options: Options = {}): Promise<Ended> {
  const work = options.work ?? mkdtempSync(path.join(tmpdir(), 'toolbox-'))
  const given = options.without === true ? null : { calls_max: 50, progress: options.progress === true }
  const args = ['-s', '-B', '-X', 'utf8', '-c', DRIVER, FOLDER, work, JSON.stringify(given)]
  const child = spawn(options.python ?? '/usr/bin/python3', args, {
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    env: { PATH: '/usr/bin:/bin' },
  })
  const [toGuest, fromGuest] = child.stdio.slice(3) as [Duplex, Duplex]
  const line: Line = {
    send: answer => line.raw(JSON.stringify(answer)),
    raw: payload => void (toGuest.writable && toGuest.write(packFrame(FRAME.answer, Buffer.from(payload)))),
    end: () => void toGuest.end(),
    pause: () => void fromGuest.pause(),
    resume: () => void fromGuest.resume(),
  }
  const ended = { stdout: '', stderr: '', value: null as string | null, requests: [] as Request[] }
  const decoder = new FrameDecoder()
  for (const stream of [toGuest, fromGuest]) stream.on('error', () => {})
  toGuest.resume()
  fromGuest.on('data', (chunk: Buffer) => {
    for (const frame of decoder.feed(chunk)) {
      if (frame.type === FRAME.value) ended.value = frame.payload.toString()
      if (frame.type !== FRAME.request) continue
      const request = JSON.parse(frame.payload.toString()) as Request
      ended.requests.push(request)
      const own = options.answer?.(request, line)
      if (own === undefined) void answerOf(request).then(answer => answer !== null && line.send(answer))
      else if (own !== null) line.send(own)
    }
  })
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    ended.stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    ended.stderr += text
  })
  child.stdin?.on('error', () => {})
  child.stdin?.end(code)
  options.started?.(child, line)
  const patience = setTimeout(() => child.kill('SIGKILL'), 28_000)
  const [exitCode] = (await once(child, 'close')) as [number | null]
  clearTimeout(patience)
  if (options.work === undefined) rmSync(work, { recursive: true, force: true })
  return { ...ended, exitCode, calls: ended.requests.filter(request => request.op === 'call') }
}

/** What code prints. Throws with its error output where it ends in an error. */
export async function printed(code: string, options: Options = {}): Promise<string> {
  const ended = await runCode(code, options)
  if (ended.exitCode !== 0) throw new Error(`exit code ${ended.exitCode}\n${ended.stdout}\n${ended.stderr}`)
  return ended.stdout
}
