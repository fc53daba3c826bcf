import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { SandboxConfig } from '../../../src/config.js'
import type { SandboxReport } from '../../../src/outcome.js'
import type { GuestCalls } from '../../../src/sandbox/guest-calls.js'
import { openSandbox } from '../../../src/sandbox/open.js'
import type { FilesRequest, Pool } from '../../../src/sandbox/pool.js'
import { sandboxConfig } from './config.js'
import { descendants, type Process, stillAlive } from './processes.js'
import { readablePython } from './pythons.js'

export type Ran = SandboxReport & { readonly streamed: string }

interface RunOptions {
  readonly wallMs?: number
  readonly signal?: AbortSignal
  onStdout?(text: string): void
  readonly calls?: GuestCalls | null
  readonly files?: FilesRequest
}

export type Run = (code: string, options?: RunOptions) => Promise<Ran>

export interface Room {
  readonly pool: Pool
  readonly run: Run
  readonly health: { healthy: boolean; reason: string }[]
  /** Closes the pool; returns what it left behind: processes, and names in the temporary folder. */
  close(): Promise<{ processes: Process[]; files: string[] }>
}

/** Bytes of output that are streamed. */
export const STREAM_MAX_BYTES = 30_000

/** Opens a pool with a temporary folder of its own, so that what it leaves behind is seen. */
export async function openRoom(changes: Partial<SandboxConfig>): Promise<Room> {
  const before = process.env['TMPDIR']
  const temporary = mkdtempSync('/tmp/room-')
  chmodSync(temporary, 0o755)
  process.env['TMPDIR'] = temporary
  const giveBack = () => {
    const files = readdirSync(temporary)
    rmSync(temporary, { recursive: true, force: true })
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    return files
  }
  const health: { healthy: boolean; reason: string }[] = []
  try {
    const { pool } = await openSandbox({
      config: sandboxConfig({ python: changes.python ?? readablePython(), ...changes }),
      streamMaxBytes: STREAM_MAX_BYTES,
      cpus: 2,
      env: process.env,
      log: pino({ level: process.env['TEST_LOG_LEVEL'] ?? 'silent' }),
      onHealth: (healthy, reason) => health.push({ healthy, reason }),
    })
    return {
      pool,
      health,
      run: (code, options = {}) => runIn(pool, code, options),
      close: async () => {
        const ours = descendants()
        await pool.close()
        // A killed process is gone when its parent, or PID 1 of the machine, has waited for it.
        for (let tries = 0; tries < 40 && stillAlive(ours).length > 0; tries++) await sleep(25)
        return { processes: stillAlive(ours), files: giveBack() }
      },
    }
  } catch (error) {
    giveBack()
    throw error
  }
}

async function runIn(
  pool: Pool,
  code: string,
  { wallMs = 20_000, signal, onStdout, calls = null, files }: RunOptions,
): Promise<Ran> {
  const streamed: string[] = []
  const report = await pool.run({
    code,
    wallMs,
    calls,
    ...(files === undefined ? {} : { files }),
    signal: signal ?? new AbortController().signal,
    onStdout: text => {
      streamed.push(text)
      onStdout?.(text)
    },
  })
  return { ...report, streamed: streamed.join('') }
}

/** Runs code and cancels it as soon as it has printed `word`. */
export function cancelAfter(run: Run, code: string, word: string, reason: string): Promise<Ran> {
  const controller = new AbortController()
  let text = ''
  return run(code, {
    signal: controller.signal,
    onStdout: piece => {
      text += piece
      if (text.includes(word)) controller.abort(reason)
    },
  })
}
