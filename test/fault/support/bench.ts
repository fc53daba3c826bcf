import { pino } from 'pino'
import { openTools, readSetup, type Toolset } from '../../../src/commands/setup.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../../src/dev/embedded-backend.js'
import { Worker } from '../../../src/worker.js'
import { captureLog } from '../../backend/support/fixtures.js'
import { PYTHON } from '../../e2e/support/worker-process.js'
import type { Stage } from './cell.js'
import { startProxy, type WireProxy } from './proxy.js'

/** A backend, a wire that can be broken, and a worker in this process. */
export interface Bench extends Stage {
  readonly backend: EmbeddedBackend
  readonly proxy: WireProxy
  readonly worker: Worker
  /** Every line that the worker has logged, parsed. */
  readonly lines: readonly Record<string, unknown>[]
  close(): Promise<void>
}

export interface BenchOptions {
  readonly slots?: number
  readonly drainMs?: number
  /** Waits until the worker is subscribed and registered; default true. */
  readonly connected?: boolean
}

/** One sandbox for all workers of a test file, since its start takes longer than all else. */
export async function openSharedTools(slots: number): Promise<Toolset> {
  return await openTools(setupFor('http://127.0.0.1:9/', 'fx-none', slots), pino({ level: 'silent' }))
}

function setupFor(url: string, apiKey: string, slots: number) {
  return readSetup(
    {
      FLEXUS_API_BASEURL: url,
      FLEXUS_API_KEY: apiKey,
      SANDBOX_PYTHON: PYTHON,
      SANDBOX_PRELOAD: 'none',
      MAX_CONCURRENT_CALLS: String(slots),
      DRAIN_MS: '5000',
    },
    { backend: true },
  )
}

export async function startBench(tools: Toolset, options: BenchOptions = {}): Promise<Bench> {
  const backend = await startEmbeddedBackend()
  const proxy = await startProxy(backend.port)
  const logged = captureLog()
  const { config } = setupFor(proxy.url, backend.apiKey, options.slots ?? 4)
  if (config.backend === null) throw new Error('the configuration has no backend')
  const worker = new Worker({
    config: { ...config, drainMs: options.drainMs ?? config.drainMs },
    backend: config.backend,
    tools: [tools.python],
    outcomes: tools.outcomes,
    log: logged.log,
  })
  const bench: Bench = {
    backend,
    proxy,
    worker,
    lines: logged.lines,
    hasLogged: (message, fcallId) => logged.lines.some(line => line['msg'] === message && line['fcall_id'] === fcallId),
    async close() {
      backend.clearMisbehaviour()
      await proxy.heal()
      await worker.stop('the test is over')
      await proxy.close()
      await backend.close()
    },
  }
  if (options.connected !== false) {
    await backend.waitFor(() => backend.subscribers > 0 && backend.registrations.length > 0, 20_000)
  }
  return bench
}
