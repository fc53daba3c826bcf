import type { BackendConfig } from '../config.js'
import { runDemo, type StartWorker } from '../dev/demo.js'
import { runDev } from '../dev/dev-server.js'
import { createLog } from '../telemetry/log.js'
import { readSetup } from './setup.js'
import { secretsOf, startWorker } from './start.js'

/** Three sample calls through an embedded backend. Returns the exit code. */
export function demo(env: NodeJS.ProcessEnv): Promise<number> {
  return runDemo({ startWorker: workerFor(env), out: process.stdout, env })
}

/** Embedded backend and worker until Ctrl-C. Returns the exit code. */
export function dev(env: NodeJS.ProcessEnv, port: number): Promise<number> {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stop.abort())
  return runDev({ startWorker: workerFor(env), out: process.stdout, env, port, signal: stop.signal })
}

function workerFor(env: NodeJS.ProcessEnv): StartWorker {
  const setup = readSetup({ LOG_LEVEL: 'error', ...env }, { backend: false })
  return async (baseUrl, apiKey) => {
    const backend: BackendConfig = { baseUrl, endpoint: '/v1/graphql', credentials: { mode: 'key', apiKey } }
    const log = createLog({
      level: setup.config.logLevel,
      pretty: true,
      destination: 'stderr',
      secrets: secretsOf(backend),
    })
    const { worker, tools } = await startWorker(setup, backend, log)
    return {
      describe: tools.describe,
      stop: async () => {
        await worker.stop('the embedded backend is closing')
        await tools.pool.close()
      },
    }
  }
}
