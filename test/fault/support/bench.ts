import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { openTools, readSetup, type Toolset } from '../../../src/commands/setup.js'
import type { AcceptedCredentials } from '../../../src/dev/credential-check.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../../src/dev/embedded-backend.js'
import { DiskJournal } from '../../../src/journal/disk-journal.js'
import { Worker } from '../../../src/worker.js'
import { captureLog } from '../../backend/support/fixtures.js'
import { PYTHON } from '../../e2e/support/worker-process.js'
import type { Stage } from './cell.js'
import { startProxy, type WireProxy } from './proxy.js'

/** A backend, a wire that can be broken, and a worker in this process. */
export interface Bench extends Stage {
  readonly backend: EmbeddedBackend
  readonly proxy: WireProxy
  /** The one that runs now. */
  readonly worker: Worker
  /** Every line that the worker has logged, parsed. */
  readonly lines: readonly Record<string, unknown>[]
  /** The worker is stopped, and another one begins on the same STATE_DIR. */
  restart(): Promise<void>
  close(): Promise<void>
}

export interface BenchOptions {
  readonly slots?: number
  /** What the backend lets in; default an API key. */
  readonly accepted?: AcceptedCredentials
  /** Variables in the place of those that are made up. */
  readonly env?: Readonly<Record<string, string>>
}

/** One sandbox for all workers of a test file, since its start takes longer than all else. */
export async function openSharedTools(slots: number): Promise<Toolset> {
  return await openTools(setupFor('http://127.0.0.1:9/', slots), pino({ level: 'silent' }))
}

function setupFor(url: string, slots: number, env: Readonly<Record<string, string>> = { FLEXUS_API_KEY: 'fx-none' }) {
  return readSetup(
    {
      FLEXUS_API_BASEURL: url,
      SANDBOX_PYTHON: PYTHON,
      SANDBOX_PRELOAD: 'none',
      MAX_CONCURRENT_CALLS: String(slots),
      DRAIN_MS: '5000',
      ...env,
    },
    { backend: true },
  )
}

export async function startBench(tools: Toolset, options: BenchOptions = {}): Promise<Bench> {
  const backend = await startEmbeddedBackend(options.accepted === undefined ? {} : { accepted: options.accepted })
  const proxy = await startProxy(backend.port)
  const logged = captureLog()
  const { config } = setupFor(proxy.url, options.slots ?? 4, options.env ?? { FLEXUS_API_KEY: backend.apiKey })
  if (config.backend === null) throw new Error('the configuration has no backend')
  const stateDir = await mkdtemp(path.join(os.tmpdir(), 'fault-state-'))
  const reach = config.backend
  const open = async () =>
    new Worker({
      config,
      backend: reach,
      tools: [tools.python],
      journal: await DiskJournal.open({ stateDir, log: logged.log, onHealth: () => {} }),
      outcomes: tools.outcomes,
      log: logged.log,
    })
  let worker = await open()
  const bench: Bench = {
    backend,
    proxy,
    get worker() {
      return worker
    },
    stateDir,
    lines: logged.lines,
    hasLogged: (message, fcallId) => logged.lines.some(line => line['msg'] === message && line['fcall_id'] === fcallId),
    async restart() {
      await worker.stop('it is started again')
      worker = await open()
    },
    async close() {
      backend.clearMisbehaviour()
      await proxy.heal()
      await worker.stop('the test is over')
      await proxy.close()
      await backend.close()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
  await backend.waitFor(() => backend.subscribers > 0 && backend.registrations.length > 0, 20_000)
  return bench
}
