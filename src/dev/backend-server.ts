import { once } from 'node:events'
import { callLine } from './call-hint.js'
import { checkSample, workerConnected } from './check-sample.js'
import { addDevRoutes } from './dev-routes.js'
import { type EmbeddedBackend, startEmbeddedBackend } from './embedded-backend.js'
import { SAMPLES, type Sample } from './samples.js'
import { showEvents } from './show-events.js'
import { createPaint, type Terminal } from './terminal.js'

const ANSWER_LIMIT_MS = 60_000
/** By then a worker that was started beside this backend has come, or will not. */
const HINT_AFTER_MS = 30_000
const FOREVER_MS = 2 ** 31 - 1

/**
 * The embedded backend alone, for a worker that runs elsewhere: once one has come it gets the sample calls, one after the other, which are
 * shown and checked as in the demo; then the backend stays up until `signal` aborts. Returns the exit code: 0, or 1 where a sample did
 * not come back as it should.
 */
export async function runBackend(options: {
  readonly out: Terminal
  readonly signal: AbortSignal
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 0, any free one. */
  readonly port?: number
  /** What a worker has to present; default a random one, which is shown. */
  readonly apiKey?: string
  readonly env?: NodeJS.ProcessEnv
  readonly samples?: readonly Sample[]
  readonly hintAfterMs?: number
}): Promise<number> {
  const { out, signal, apiKey, host = '127.0.0.1' } = options
  const samples = options.samples ?? SAMPLES
  const paint = createPaint(out, options.env ?? process.env)
  const backend = await startEmbeddedBackend({
    host,
    port: options.port ?? 0,
    ...(apiKey === undefined ? {} : { accepted: { apiKey } }),
  })
  const faults: string[] = []
  try {
    const routes = addDevRoutes(backend)
    showEvents(backend, out, paint)
    out.write(`${paint.dim('backend')}  ${host} port ${backend.port}, for a worker started with\n`)
    out.write(
      `  FLEXUS_API_BASEURL=http://${host === '0.0.0.0' || host === '::' ? 'ADDRESS' : host}:${backend.port}/\n`,
    )
    out.write(`  FLEXUS_API_KEY=${apiKey === undefined ? backend.apiKey : "(this one's)"}\n`)
    const hint = setTimeout(() => {
      out.write(
        'No worker has come so far: its FLEXUS_API_BASEURL has to name this backend, and its FLEXUS_API_KEY be the same.\n',
      )
    }, options.hintAfterMs ?? HINT_AFTER_MS)
    try {
      await workerConnected(backend, FOREVER_MS, signal)
      clearTimeout(hint)
      for (const sample of samples) faults.push(...(await checked(backend, sample, signal)))
      if (faults.length === 0) {
        out.write(`\n${paint.green(`All ${samples.length} sample calls came back as they should.`)}\n`)
      } else {
        out.write(`\n${paint.red('The samples did not come out as they should:')}\n`)
        for (const fault of faults) out.write(`  ${fault}\n`)
      }
      out.write(`More calls, from this machine alone:\n  ${paint.cyan(callLine(backend.url))}\n`)
      if (!signal.aborted) await once(signal, 'abort')
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      clearTimeout(hint)
      await routes.close()
    }
  } finally {
    await backend.close()
  }
  return faults.length === 0 ? 0 : 1
}

async function checked(backend: EmbeddedBackend, sample: Sample, signal: AbortSignal): Promise<readonly string[]> {
  const { fcall_id } = backend.pushCode(sample.code)
  const answer = await backend.waitForAnswer(fcall_id, ANSWER_LIMIT_MS, signal).catch((error: unknown) => {
    if (signal.aborted) throw error
    return error instanceof Error ? error.message : String(error)
  })
  const faults = typeof answer === 'string' ? [answer] : await checkSample(backend, sample, answer)
  return faults.map(fault => `${sample.title}: ${fault}`)
}
