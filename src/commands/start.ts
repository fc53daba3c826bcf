import { constants } from 'node:os'
import type { Logger } from 'pino'
import type { BackendConfig, Config } from '../config.js'
import { DiskJournal } from '../journal/disk-journal.js'
import type { Journal } from '../journal/journal.js'
import { MemoryJournal } from '../journal/memory-journal.js'
import { holdStateDir, StateDirError, stateDirError } from '../journal/state-dir.js'
import { findInterpreter } from '../sandbox/interpreter.js'
import { type HealthServer, startHealthServer } from '../telemetry/health-server.js'
import { createLog } from '../telemetry/log.js'
import { Recorder } from '../telemetry/recorder.js'
import { Redactor } from '../telemetry/redactor.js'
import { watchForStalls } from '../telemetry/stall.js'
import type { Telemetry } from '../telemetry/status.js'
import { readVersion } from '../version.js'
import { Worker } from '../worker.js'
import { exitNow, threadsAreFree } from './exit.js'
import type { FilesPlace } from './files.js'
import { openTools, readSetup, type Setup, StartCancelled, type Toolset } from './setup.js'

const EXIT_FORBIDDEN = 77
const EXIT_UNANSWERED = 1
const EXIT_SOFTWARE = 70
const EXIT_CONFIG = 78
/** After an error that nobody expected, nothing of this process is to be relied on: only for what is as good as done. */
const BROKEN_DRAIN_MS = 5_000
/** For all that comes after a drain, or takes its place while the worker starts. */
const LEAVE_WITHIN_MS = 5_000

/** Why the worker is to end, and with which exit code where that is not its answers' to decide. */
interface End {
  readonly code: number
  readonly reason: string
}

/** What is up once the worker is. */
interface Running {
  readonly worker: Worker
  readonly tools: Toolset
  readonly recorder: Recorder
}

/** Serves the configured backend until a signal ends it. Returns the exit code. */
export async function start(env: NodeJS.ProcessEnv): Promise<number> {
  const setup = readSetup(env, { backend: true })
  const { config } = setup
  const { backend } = config
  if (backend === null) throw new Error('the configuration has no backend')
  const cancelStart = new AbortController()
  const drainMsOf = ({ code }: End) =>
    code === EXIT_SOFTWARE ? Math.min(BROKEN_DRAIN_MS, config.drainMs) : config.drainMs
  let watchdog: NodeJS.Timeout | undefined
  let end: (how: End) => void = () => {}
  const ended = new Promise<End>(resolve => {
    end = how => {
      resolve(how)
      if (cancelStart.signal.aborted) return
      cancelStart.abort()
      const withinMs = drainMsOf(how) + LEAVE_WITHIN_MS
      const exit = async () => {
        log.error({ reason: how.reason, withinMs }, 'the worker did not come to its end, and exits as it is')
        await threadsAreFree()
        exitNow(process.exitCode === undefined ? how.code || EXIT_UNANSWERED : undefined)
      }
      watchdog = setTimeout(exit, withinMs)
    }
  })
  const redactor = new Redactor(secretsOf(backend))
  const log = createLog({
    level: config.logLevel,
    pretty: process.stdout.isTTY === true,
    redactor,
    // Whoever started it has gone, or is broken, and nobody would see what becomes of it.
    onBroken: () => end({ code: 0, reason: 'nobody reads the log' }),
  })
  log.info({ version: readVersion(), service: config.serviceName, backend: backend.baseUrl }, 'worker is starting')
  for (const warning of config.warnings) log.warn({ warning }, 'configuration warning')
  watchForStalls(log)

  let running: Running | null = null
  const fatal = (err: unknown) => {
    log.fatal({ err }, 'uncaught error')
    end({ code: EXIT_SOFTWARE, reason: 'uncaught error' })
  }
  process.on('uncaughtException', fatal)
  process.on('unhandledRejection', fatal)
  let signals = 0
  let isOver = false
  const onSignal = (signal: NodeJS.Signals) => {
    if (isOver) return
    signals++
    log.info({ signal, times: signals }, 'signal received')
    if (signals === 1) end({ code: 0, reason: signal })
    else if (signals === 2 && running !== null) {
      running.worker.interruptAll('the worker was told to stop at once')
    } else void threadsAreFree().then(() => exitNow(128 + constants.signals[signal]))
  }
  // Before the sandbox is up: a signal that comes meanwhile must not leave half of it behind.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)

  let health: HealthServer | null = null
  try {
    // Before the port: of two workers with one environment the second is to hear that the folder is held, not that the port is taken.
    await holdFolder(config)
    health = await serveHealth(config.health, () => running, log)
    running = await bringUp(setup, backend, { log, redactor }, end, cancelStart.signal)
  } catch (error) {
    await health?.close()
    if (!(error instanceof StartCancelled)) {
      // Whoever watches only the log has to see it too; the error goes on to stderr and sets the exit code.
      log.fatal({ reason: error instanceof Error ? error.message : String(error) }, 'worker can not start')
      // Whatever is left of the start keeps nobody; where nothing is, neither does this.
      end({ code: EXIT_SOFTWARE, reason: 'worker can not start' })
      watchdog?.unref()
      if (error instanceof StateDirError && error.isStuck) {
        process.stderr.write(`${error.message}\n`)
        exitNow(EXIT_CONFIG)
      }
      throw error
    }
    const { code, reason } = await ended
    await threadsAreFree()
    log.info({ answered: true, reason }, 'worker has stopped')
    return code
  }

  const { worker, tools, recorder } = running
  const how = await ended
  const { code, reason } = how
  const drainMs = drainMsOf(how)
  const untilMs = performance.now() + drainMs
  const answered = await worker.stop(reason, drainMs)
  await tools.close()
  recorder.close()
  await health?.close()
  await threadsAreFree(untilMs)
  isOver = true
  log.info({ answered, reason }, 'worker has stopped')
  return code !== 0 ? code : answered ? 0 : EXIT_UNANSWERED
}

/** Errors: StateDirError, and those of openTools. */
async function bringUp(
  setup: Setup,
  backend: BackendConfig,
  { log, redactor }: { readonly log: Logger; readonly redactor: Redactor },
  end: (how: End) => void,
  signal: AbortSignal,
): Promise<Running> {
  let worker: Worker | null = null
  const recorder = new Recorder({ status: () => worker?.status ?? null, log })
  let illJournal: string | null = null
  const journal = await openJournal(setup, log, reason => {
    illJournal = reason
    worker?.setImpaired('journal', reason)
  })
  const started = await startWorker(setup, backend, log, {
    journal,
    redactor,
    signal,
    telemetry: recorder,
    files: 'state',
    onForbidden: reason => {
      if (setup.config.exitOnForbidden) end({ code: EXIT_FORBIDDEN, reason: `forbidden: ${reason}` })
    },
  })
  worker = started.worker
  worker.setImpaired('journal', illJournal)
  recorder.identify(started.tools.identity)
  return { ...started, recorder }
}

/** null where the configuration wants none. Errors: HealthPortUnavailable. */
async function serveHealth(
  { host, port }: Config['health'],
  running: () => Running | null,
  log: Logger,
): Promise<HealthServer | null> {
  if (port === null) return null
  const server = await startHealthServer({
    host,
    port,
    view: () => {
      const up = running()
      if (up === null) return null
      const { worker, tools, recorder } = up
      return { identity: tools.identity, status: worker.status, recorder }
    },
  })
  log.info({ url: server.url }, 'health can be looked at')
  return server
}

/** STATE_DIR is this process's until that ends. Errors: StateDirError, InterpreterError. */
async function holdFolder({ sandbox, stateDir }: Config): Promise<void> {
  const { path } = await findInterpreter(sandbox.python, process.env)
  await holdStateDir(stateDir, path)
}

/** The journal in STATE_DIR. Errors: StateDirError. */
async function openJournal(
  { config: { stateDir } }: Setup,
  log: Logger,
  onHealth: (reason: string | null) => void,
): Promise<DiskJournal> {
  try {
    return await DiskJournal.open({ stateDir, log, onHealth })
  } catch (error) {
    throw stateDirError(stateDir, error, "give a folder that only this worker's uid writes to")
  }
}

/** A worker against the given backend, with its sandbox up. Errors: those of openTools. */
export async function startWorker(
  setup: Setup,
  backend: BackendConfig,
  log: Logger,
  options: {
    /** Default: one that lasts as long as the process. */
    readonly journal?: Journal
    /** What is masked in all that leaves the worker; default: the configured secrets. */
    readonly redactor?: Redactor
    readonly telemetry?: Telemetry
    readonly signal?: AbortSignal
    /** Default: for as long as the process lives. */
    readonly files?: FilesPlace
    readonly onForbidden?: (reason: string) => void
  } = {},
): Promise<{ worker: Worker; tools: Toolset }> {
  const { journal = new MemoryJournal(), telemetry, signal, files = 'temporary', onForbidden } = options
  const { redactor = new Redactor(secretsOf(backend)) } = options
  let worker: Worker | null = null
  let ill: string | null = null
  const tools = await openTools(setup, log, {
    redactor,
    files,
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
    redactor,
    ...(telemetry === undefined ? {} : { telemetry }),
    ...(onForbidden === undefined ? {} : { onForbidden }),
  })
  worker.setImpaired('sandbox', ill) // which it may have become before there was a worker to tell
  return { worker, tools }
}

export function secretsOf(backend: BackendConfig | null): string[] {
  switch (backend?.credentials.mode) {
    case 'key':
      return [backend.credentials.apiKey]
    case 'ticket':
      return [backend.credentials.ticket]
    case 'superuser':
    case undefined:
      return []
  }
}
