import { once } from 'node:events'
import { callLine } from './call-hint.js'
import type { StartWorker } from './demo.js'
import { addDevRoutes } from './dev-routes.js'
import { startEmbeddedBackend } from './embedded-backend.js'
import { showEvents } from './show-events.js'
import { createPaint, type Terminal } from './terminal.js'

/** A stop that is over by then needs no words about what it waits for. */
const QUIET_STOP_MS = 200

/**
 * An embedded backend and a worker that stay up until `signal` aborts; calls come in over `POST /dev/call` and are shown in `out` as they
 * run. Calls that still run then may end, unless `hurry` aborts as well; one that waits for a person is not waited for. Returns the
 * exit code 0; rejects with the worker's own error if it does not start.
 */
export async function runDev(options: {
  readonly startWorker: StartWorker
  readonly out: Terminal
  readonly signal: AbortSignal
  readonly hurry?: AbortSignal
  /** TCP port on 127.0.0.1; default 0, any free one. */
  readonly port?: number
  readonly env?: NodeJS.ProcessEnv
}): Promise<number> {
  const { out, signal } = options
  const paint = createPaint(out, options.env ?? process.env)
  const backend = await startEmbeddedBackend({ port: options.port ?? 0 })
  try {
    const routes = addDevRoutes(backend)
    const running = showEvents(backend, out, paint)
    const worker = await options.startWorker(backend.url, backend.apiKey)
    try {
      out.write(`${paint.dim('backend')}  ${backend.url}\n${paint.dim('worker')}   ${worker.describe()}\n`)
      out.write(`Send it a call (Ctrl-C ends both):\n  ${paint.cyan(callLine(backend.url))}\n`)
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
      await routes.close()
    }
  } finally {
    await backend.close()
  }
  return 0
}

function waitingLine(calls: number, drainMs: number): string | null {
  if (calls === 0) return null
  return `waiting up to ${drainMs / 1000} s for ${calls} running ${calls === 1 ? 'call' : 'calls'}; Ctrl-C again ends it now`
}
