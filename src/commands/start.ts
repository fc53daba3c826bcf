import { constants } from 'node:os'
import type { BackendConfig, Config } from '../config.js'
import { createLog } from '../telemetry/log.js'
import { readVersion } from '../version.js'
import { Worker } from '../worker.js'
import { openTools, readSetup, type Setup, type Toolset } from './setup.js'

const EXIT_FORBIDDEN = 77
const EXIT_UNANSWERED = 1
const EXIT_SOFTWARE = 70

/** Serves the configured backend until a signal ends it. Returns the exit code. */
export async function start(env: NodeJS.ProcessEnv): Promise<number> {
  const setup = readSetup(env, { backend: true })
  const { config } = setup
  const { backend } = config
  if (backend === null) throw new Error('the configuration has no backend')
  const log = createLog({ level: config.logLevel, pretty: process.stdout.isTTY === true, secrets: secretsOf(backend) })
  log.info({ version: readVersion(), service: config.serviceName, backend: backend.baseUrl }, 'worker is starting')
  for (const warning of config.warnings) log.warn({ warning }, 'configuration warning')

  let end: (how: { code: number; reason: string }) => void = () => {}
  const ended = new Promise<{ code: number; reason: string }>(resolve => {
    end = resolve
  })
  const fatal = (err: unknown) => {
    log.fatal({ err }, 'uncaught error')
    end({ code: EXIT_SOFTWARE, reason: 'uncaught error' })
  }
  process.on('uncaughtException', fatal)
  process.on('unhandledRejection', fatal)
  let running: Worker | null = null
  let signals = 0
  const onSignal = (signal: NodeJS.Signals) => {
    signals++
    log.info({ signal, times: signals }, 'signal received')
    if (signals === 1) end({ code: 0, reason: signal })
    else if (signals === 2) running?.interruptAll('the worker was told to stop at once')
    else process.exit(128 + constants.signals[signal])
  }
  // Before the sandbox is up: a signal that comes meanwhile must not leave half of it behind.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  const { worker, tools } = await startWorker(setup, backend, log, reason => {
    if (config.exitOnForbidden) end({ code: EXIT_FORBIDDEN, reason: `forbidden: ${reason}` })
  })
  running = worker

  const { code, reason } = await ended
  const answered = await worker.stop(reason)
  await tools.pool.close()
  log.info({ answered, reason }, 'worker has stopped')
  return code !== 0 ? code : answered ? 0 : EXIT_UNANSWERED
}

/** A worker against the given backend, with its sandbox up. */
export async function startWorker(
  setup: Setup,
  backend: BackendConfig,
  log: ReturnType<typeof createLog>,
  onForbidden?: (reason: string) => void,
): Promise<{ worker: Worker; tools: Toolset }> {
  let worker: Worker | null = null
  const tools = await openTools(setup, log, (healthy, reason) =>
    worker?.setImpaired('sandbox', healthy ? null : reason),
  )
  worker = new Worker({
    config: { ...setup.config, backend },
    backend,
    tools: [tools.python],
    outcomes: tools.outcomes,
    log,
    ...(onForbidden === undefined ? {} : { onForbidden }),
  })
  return { worker, tools }
}

export function secretsOf(backend: NonNullable<Config['backend']>): string[] {
  switch (backend.credentials.mode) {
    case 'key':
      return [backend.credentials.apiKey]
    case 'ticket':
      return [backend.credentials.ticket]
    case 'superuser':
      return []
  }
}
