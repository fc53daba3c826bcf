import { constants } from 'node:os'
import type { BackendConfig, Config } from '../config.js'
import { DiskJournal } from '../journal/disk-journal.js'
import type { Journal } from '../journal/journal.js'
import { MemoryJournal } from '../journal/memory-journal.js'
import { holdStateDir, StateDirError } from '../journal/state-dir.js'
import { findInterpreter } from '../sandbox/interpreter.js'
import { createLog } from '../telemetry/log.js'
import { watchForStalls } from '../telemetry/stall.js'
import { readVersion } from '../version.js'
import { Worker } from '../worker.js'
import { openTools, readSetup, type Setup, StartCancelled, type Toolset } from './setup.js'

const EXIT_FORBIDDEN = 77
const EXIT_UNANSWERED = 1
const EXIT_SOFTWARE = 70
/** After an error that nobody expected, nothing of this process is to be relied on: only for what is as good as done. */
const BROKEN_DRAIN_MS = 5_000

/** Serves the configured backend until a signal ends it. Returns the exit code. */
export async function start(env: NodeJS.ProcessEnv): Promise<number> {
  const setup = readSetup(env, { backend: true })
  const { config } = setup
  const { backend } = config
  if (backend === null) throw new Error('the configuration has no backend')
  const log = createLog({ level: config.logLevel, pretty: process.stdout.isTTY === true, secrets: secretsOf(backend) })
  log.info({ version: readVersion(), service: config.serviceName, backend: backend.baseUrl }, 'worker is starting')
  for (const warning of config.warnings) log.warn({ warning }, 'configuration warning')
  watchForStalls(log)

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
  const cancelStart = new AbortController()
  let signals = 0
  const onSignal = (signal: NodeJS.Signals) => {
    signals++
    log.info({ signal, times: signals }, 'signal received')
    if (signals === 1) {
      end({ code: 0, reason: signal })
      cancelStart.abort()
    } else if (signals === 2 && running !== null) running.interruptAll('the worker was told to stop at once')
    else process.exit(128 + constants.signals[signal])
  }
  // Before the sandbox is up: a signal that comes meanwhile must not leave half of it behind.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  let illJournal: string | null = null
  const started = await openJournal(setup, log, reason => {
    illJournal = reason
    running?.setImpaired('journal', reason)
  })
    .then(journal =>
      startWorker(setup, backend, log, {
        journal,
        signal: cancelStart.signal,
        onForbidden: reason => {
          if (config.exitOnForbidden) end({ code: EXIT_FORBIDDEN, reason: `forbidden: ${reason}` })
        },
      }),
    )
    .catch((error: unknown) => {
      if (error instanceof StartCancelled) return null
      // Whoever watches only the log has to see it too; the error goes on to stderr and sets the exit code.
      log.fatal({ reason: error instanceof Error ? error.message : String(error) }, 'worker can not start')
      throw error
    })
  if (started === null) {
    const { code, reason } = await ended
    log.info({ answered: true, reason }, 'worker has stopped')
    return code
  }
  const { worker, tools } = started
  running = worker
  worker.setImpaired('journal', illJournal)

  const { code, reason } = await ended
  const answered = await worker.stop(
    reason,
    code === EXIT_SOFTWARE ? Math.min(BROKEN_DRAIN_MS, config.drainMs) : config.drainMs,
  )
  await tools.pool.close()
  log.info({ answered, reason }, 'worker has stopped')
  return code !== 0 ? code : answered ? 0 : EXIT_UNANSWERED
}

/** The journal in STATE_DIR, which is held until the process ends. Errors: StateDirError, InterpreterError. */
async function openJournal(
  { config }: Setup,
  log: ReturnType<typeof createLog>,
  onHealth: (reason: string | null) => void,
): Promise<Journal> {
  const { path } = await findInterpreter(config.sandbox.python, process.env)
  const { stateDir } = config
  await holdStateDir(stateDir, path)
  try {
    return await DiskJournal.open({ stateDir, log, onHealth })
  } catch (error) {
    throw new StateDirError(
      `STATE_DIR: ${stateDir} can not be used (${(error as Error).message}); give a folder that only this worker's uid writes to`,
    )
  }
}

/** A worker against the given backend, with its sandbox up. Errors: those of openTools. */
export async function startWorker(
  setup: Setup,
  backend: BackendConfig,
  log: ReturnType<typeof createLog>,
  options: {
    /** Default: one that lasts as long as the process. */
    readonly journal?: Journal
    readonly signal?: AbortSignal
    readonly onForbidden?: (reason: string) => void
  } = {},
): Promise<{ worker: Worker; tools: Toolset }> {
  const { journal = new MemoryJournal(), signal, onForbidden } = options
  let worker: Worker | null = null
  let ill: string | null = null
  const tools = await openTools(setup, log, {
    onHealth: (healthy, reason) => {
      ill = healthy ? null : reason
      worker?.setImpaired('sandbox', ill)
    },
    ...(signal === undefined ? {} : { signal }),
  })
  worker = new Worker({
    config: { ...setup.config, backend },
    backend,
    tools: [tools.python],
    journal,
    outcomes: tools.outcomes,
    log,
    ...(onForbidden === undefined ? {} : { onForbidden }),
  })
  worker.setImpaired('sandbox', ill) // which it may have become before there was a worker to tell
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
