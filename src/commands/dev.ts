import { constants } from 'node:os'
import type { BackendConfig } from '../config.js'
import { runDemo, type StartWorker } from '../dev/demo.js'
import { runDev } from '../dev/dev-server.js'
import { createLog } from '../telemetry/log.js'
import { Redactor } from '../telemetry/redactor.js'
import { explainListen } from './port-unavailable.js'
import { readSetup, StartCancelled } from './setup.js'
import { secretsOf, startWorker } from './start.js'

/** Some tool has to ask, for a person to see how that goes; TOOLS_ASK says otherwise. */
const ASKED_FOR = 'files.patch'

/** Three sample calls through an embedded backend. Returns the exit code. */
export function demo(env: NodeJS.ProcessEnv): Promise<number> {
  return runDemo({ startWorker: workerFor(env), out: process.stdout, env })
}

/** Embedded backend and worker until Ctrl-C. Returns the exit code. Errors: PortUnavailable, and those of openTools. */
export async function dev(env: NodeJS.ProcessEnv, port: number | null): Promise<number> {
  const stop = new AbortController()
  const hurry = new AbortController()
  let isUp = false
  const onSignal = (signal: NodeJS.Signals) => {
    if (!stop.signal.aborted) stop.abort()
    else if (isUp && !hurry.signal.aborted) hurry.abort()
    else process.exit(128 + constants.signals[signal])
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
  const startIt = workerFor({ TOOLS_ASK: ASKED_FOR, ...env }, stop.signal)
  const startWorker: StartWorker = async (backendUrl, apiKey) => {
    const worker = await startIt(backendUrl, apiKey)
    isUp = true
    return worker
  }
  try {
    return await runDev({ startWorker, out: process.stdout, env, port, signal: stop.signal, hurry: hurry.signal })
  } catch (error) {
    if (error instanceof StartCancelled) return 0
    throw explainListen(error, 'dev', '127.0.0.1', port ?? 0)
  }
}

function workerFor(env: NodeJS.ProcessEnv, signal?: AbortSignal): StartWorker {
  const setup = readSetup({ LOG_LEVEL: 'error', ...env }, { backend: false })
  return async (baseUrl, apiKey) => {
    const backend: BackendConfig = { baseUrl, endpoint: '/v1/graphql', credentials: { mode: 'key', apiKey } }
    const redactor = new Redactor(secretsOf(backend))
    const log = createLog({ level: setup.config.logLevel, pretty: true, destination: 'stderr', redactor })
    const { worker, tools } = await startWorker(setup, backend, log, {
      redactor,
      ...(signal === undefined ? {} : { signal }),
    })
    return {
      describe: tools.describe,
      drainMs: setup.config.drainMs,
      files: tools.files,
      cancel: (fcallId, reason) => worker.cancel(fcallId, reason),
      interrupt: () => worker.interruptAll('the worker was told to stop at once'),
      stop: async () => {
        await worker.stop('the embedded backend is closing')
        await tools.close()
      },
    }
  }
}
