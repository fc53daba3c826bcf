import { constants } from 'node:os'
import { configError } from '../config/report.js'
import { runBackend } from '../dev/backend-server.js'
import { explainListen } from './port-unavailable.js'

/**
 * The embedded backend without a worker, until a signal. It lets in who has FLEXUS_API_KEY. Returns the exit code. Errors: ConfigError for
 * a key that no worker would take, PortUnavailable.
 */
export async function backend(env: NodeJS.ProcessEnv, host: string, port: number): Promise<number> {
  const apiKey = env['FLEXUS_API_KEY']?.trim() ?? ''
  if (apiKey !== '' && !/^fx-[\x21-\x7e]+$/.test(apiKey)) {
    throw configError([{ variable: 'FLEXUS_API_KEY', right: 'give a key that starts with fx-, or none' }], [], env)
  }
  const stop = new AbortController()
  const onSignal = (signal: NodeJS.Signals) => {
    if (stop.signal.aborted) process.exit(128 + constants.signals[signal])
    stop.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
  try {
    return await runBackend({
      out: process.stdout,
      env,
      signal: stop.signal,
      host,
      port,
      ...(apiKey === '' ? {} : { apiKey }),
    })
  } catch (error) {
    throw explainListen(error, 'backend', host, port)
  }
}
