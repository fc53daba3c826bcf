import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pLimit from 'p-limit'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../../src/dev/embedded-backend.js'
import { type Program, startProgram, startWorkerProcess } from '../../e2e/support/worker-process.js'
import type { Stage } from './cell.js'
import type { SmallDisk } from './small-disk.js'

/** How many workers may be started at the same time: each start keeps a core busy for a second. */
export const atOnce = pLimit(2)

/** A backend and the built program, which can be ended and started again on the same STATE_DIR. */
export interface ProgramBench extends Stage {
  readonly backend: EmbeddedBackend
  /** The one that runs now, or ran last. */
  readonly program: Program
  /** Another one on the same STATE_DIR, which may be just starting; for the caller to end. */
  startUnconnected(): Promise<Program>
  /** Another one on the same STATE_DIR, subscribed and registered; now it is the one that runs. */
  restart(): Promise<void>
  close(): Promise<void>
}

/** `disk`: where STATE_DIR is; the caller closes it. */
export async function startProgramBench(
  env: Readonly<Record<string, string>> = {},
  disk: SmallDisk | null = null,
): Promise<ProgramBench> {
  // The harshest: also what has its answer comes again to each worker that is started.
  const backend = await startEmbeddedBackend({ redeliver: 'always' })
  const stateDir = disk?.path ?? (await mkdtemp(path.join(os.tmpdir(), 'fault-state-')))
  const own = { STATE_DIR: stateDir, DRAIN_MS: '4000', ...env }
  const under = disk === null ? [] : disk.inside
  const start = () => startWorkerProcess(backend, own, under)
  const clear = async () => {
    await backend.close()
    if (disk === null) await rm(stateDir, { recursive: true, force: true })
  }
  let program = await start().catch(async (error: unknown) => {
    await clear()
    throw error
  })
  return {
    backend,
    stateDir: disk?.pathFromHere ?? stateDir,
    get program() {
      return program
    },
    hasLogged: (message, fcallId) =>
      program
        .stdout()
        .split('\n')
        .some(line => line.includes(JSON.stringify(message)) && line.includes(fcallId)),
    startUnconnected() {
      const reach = { FLEXUS_API_BASEURL: backend.url, FLEXUS_API_KEY: backend.apiKey }
      return startProgram(['start'], { ...reach, ...own }, 'ignore', under)
    },
    async restart() {
      program = await start()
    },
    async close() {
      backend.clearMisbehaviour()
      program.child.kill('SIGTERM')
      const timer = setTimeout(() => program.child.kill('SIGKILL'), 8_000)
      await program.exited
      clearTimeout(timer)
      await clear()
    },
  }
}
