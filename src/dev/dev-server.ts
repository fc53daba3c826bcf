import { once } from 'node:events'
import { callLine } from './call-hint.js'
import type { RunningWorker, StartWorker } from './demo.js'
import { addDevRoutes } from './dev-routes.js'
import { type EmbeddedBackend, startEmbeddedBackend } from './embedded-backend.js'
import { createPageFaults } from './page-faults.js'
import { createPageFeed } from './page-feed.js'
import { addPageFiles } from './page-files.js'
import { addPageRoutes } from './page-routes.js'
import { showEvents } from './show-events.js'
import { createPaint, type Terminal } from './terminal.js'

/** A stop that is over by then needs no words about what it waits for. */
const QUIET_STOP_MS = 200
/** Always the same, so that a page that is still open finds the next start. */
const USUAL_PORT = 8473

/**
 * An embedded backend and a worker that stay up until `signal` aborts; calls come from the page at / or over `POST /dev/call`, and are shown
 * in `out` as they run. Calls that still run then may end, unless `hurry` aborts as well; one that waits for a person is not waited for. Returns the
 * exit code 0; rejects with the worker's own error if it does not start.
 */
export async function runDev(options: {
  readonly startWorker: StartWorker
  readonly out: Terminal
  readonly signal: AbortSignal
  readonly hurry?: AbortSignal
  /** TCP port on 127.0.0.1; 0: any free one; null, the default: 8473, or any free one where another program has that. */
  readonly port?: number | null
  readonly env?: NodeJS.ProcessEnv
}): Promise<number> {
  const { out, signal } = options
  const paint = createPaint(out, options.env ?? process.env)
  const backend = await startBackend(options.port ?? null)
  try {
    const routes = addDevRoutes(backend)
    const running = showEvents(backend, out, paint)
    const faults = createPageFaults(backend)
    const feed = createPageFeed(backend, faults)
    let up: RunningWorker | null = null
    // Before the worker: a page that is open from the last time finds its way back at once.
    const cancel = (fcallId: string, reason: string) => up?.cancel(fcallId, reason) ?? false
    addPageRoutes({ backend, feed, faults, cancel, files: () => up?.files ?? null })
    await addPageFiles(backend)
    const worker = await options.startWorker(backend.url, backend.apiKey)
    up = worker
    feed.workerIsUp(worker.describe())
    try {
      out.write(`${paint.dim('backend')}  ${backend.url}\n${paint.dim('worker')}   ${worker.describe()}\n`)
      out.write(
        `${paint.bold(`Open ${backend.url} in a browser`)}, for an editor, a run button and what becomes of each call.\n`,
      )
      out.write(`Or send it a call (Ctrl-C ends both):\n  ${paint.cyan(callLine(backend.url))}\n`)
      if (!signal.aborted) await once(signal, 'abort')
      out.write('\nStopping.\n')
    } finally {
      const told = setTimeout(() => {
        const line = waitingLine(running(), worker.drainMs)
        if (line !== null) out.write(`${line}\n`)
      }, QUIET_STOP_MS)
      const interrupt = () => worker.interrupt()
      options.hurry?.addEventListener('abort', interrupt, { once: true })
      if (options.hurry?.aborted === true) interrupt()
      await worker.stop()
      clearTimeout(told)
      options.hurry?.removeEventListener('abort', interrupt)
      feed.close()
      await routes.close()
    }
  } finally {
    await backend.close()
  }
  return 0
}

async function startBackend(port: number | null): Promise<EmbeddedBackend> {
  if (port !== null) return await startEmbeddedBackend({ port })
  return await startEmbeddedBackend({ port: USUAL_PORT }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error
    return await startEmbeddedBackend({ port: 0 })
  })
}

function waitingLine(calls: number, drainMs: number): string | null {
  if (calls === 0) return null
  return `waiting up to ${drainMs / 1000} s for ${calls} running ${calls === 1 ? 'call' : 'calls'}; Ctrl-C again ends it now`
}
