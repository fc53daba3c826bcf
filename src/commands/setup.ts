import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { CallContext } from '../call.js'
import { type Config, loadConfig } from '../config.js'
import type { FilesOfThreads } from '../files/thread-files.js'
import { type HostFacts, readHostFacts } from '../host.js'
import type { CollectedFiles, Outcome } from '../outcome.js'
import type { WantedContents } from '../sandbox/collected.js'
import { openSandbox, type TierAttempt } from '../sandbox/open.js'
import type { Pool } from '../sandbox/pool.js'
import type { Redactor } from '../telemetry/redactor.js'
import type { WorkerIdentity } from '../telemetry/status.js'
import { broken, busy, notRun, outcomeWithoutRun, rejected } from '../tool/outcome-without-run.js'
import type { OutcomeContext } from '../tool/provenance.js'
import { createPythonExecute } from '../tool/python-execute.js'
import { readVersion } from '../version.js'
import { type FilesPlace, openFiles } from './files.js'
import { openToolbox, readToolSettings, type ToolSettings } from './toolbox.js'

export interface Setup {
  readonly config: Config
  readonly host: HostFacts
  readonly toolSettings: ToolSettings
}

/** Configuration from the environment. Errors: ConfigError with a report of everything that is wrong. */
export function readSetup(env: NodeJS.ProcessEnv, needs: { readonly backend: boolean }): Setup {
  const host = readHostFacts()
  let toolSettings: ToolSettings | null = null
  const config = loadConfig(env, host, {
    ...needs,
    toolFaults: tools => {
      const read = readToolSettings(tools, env)
      toolSettings = read.settings
      return read
    },
  })
  if (toolSettings === null) throw new Error('a configuration is read with its tools')
  return { config, host, toolSettings }
}

/** The tool with its sandbox running behind it. */
export interface Toolset {
  readonly python: ReturnType<typeof createPythonExecute>
  readonly pool: Pool
  readonly attempts: readonly TierAttempt[]
  readonly outcomes: CallContext['outcomes'] & { needsConfirmation(code: string, question: string): Outcome }
  /** What is kept for later calls; null: nothing. */
  readonly files: FilesOfThreads | null
  readonly identity: WorkerIdentity
  /** Ends sandboxes and tools, and the processes that serve them. */
  close(): Promise<void>
  /** One line for a person. */
  describe(): string
}

/** The process was told to stop before it was up. Nothing is left behind. */
export class StartCancelled extends Error {
  override readonly name = 'StartCancelled'
}

export interface OpenToolsOptions {
  /** What is masked in output and outcomes; left out: nothing. */
  readonly redactor?: Redactor
  /** Sandboxes can be had or not, after they were up. */
  readonly onHealth?: (healthy: boolean, reason: string) => void
  /** Aborted meanwhile, the sandbox is closed as soon as it is up, since its start has no way out, and StartCancelled is thrown. */
  readonly signal?: AbortSignal
  /** Where files are kept for later calls; left out: nowhere, whatever the configuration says. */
  readonly files?: FilesPlace
  /** Gets what each run made, with these contents; left out: contents are taken as the tool asks for them. */
  readonly saving?: { readonly contents: WantedContents; onFiles(files: CollectedFiles): void }
}

/** Errors: SandboxUnavailable, InterpreterError, StartCancelled. */
export async function openTools(
  { config, host, toolSettings }: Setup,
  log: Logger,
  { redactor, onHealth, signal, files: filesPlace, saving }: OpenToolsOptions = {},
): Promise<Toolset> {
  redactor?.know('tools', ...toolSettings.secrets)
  const { pool, attempts } = await openSandbox({
    config: config.sandbox,
    streamMaxBytes: config.streamMaxBytes,
    cpus: host.cpus,
    env: process.env,
    log,
    ...(redactor === undefined ? {} : { redactor }),
    ...(onHealth === undefined ? {} : { onHealth }),
  })
  if (signal?.aborted === true) {
    await pool.close()
    throw new StartCancelled('told to stop before the sandbox was up')
  }
  const { facts } = pool
  for (const attempt of attempts.filter(one => !one.ok)) {
    log.warn({ ...attempt }, 'a better sandbox tier can not be had here')
  }
  if (Object.keys(facts.missing).length > 0) log.warn({ modules: facts.missing }, 'not preloaded')
  const layers = Object.fromEntries(
    facts.layers.map(layer => [layer.name, layer.inForce ? (layer.why ?? true) : layer.why]),
  )
  log.info({ tier: facts.tier, layers, interpreter: facts.interpreter, installed: facts.installed }, 'sandbox is up')
  const context: OutcomeContext = {
    config,
    facts,
    version: readVersion(),
    workerId: randomBytes(6).toString('hex'),
    ...(redactor === undefined ? {} : { mask: (text: string) => redactor.mask(text) }),
  }
  const tools = await openToolbox(config, facts, toolSettings, {
    log,
    env: process.env,
    mask: text => redactor?.mask(text) ?? text,
  })
  const kept = filesPlace === undefined ? null : await openFiles(config, filesPlace, log, redactor)
  const python = createPythonExecute({
    ...context,
    files: kept?.files ?? null,
    run: async request => {
      if (saving === undefined) return await pool.run(request)
      const report = await pool.run({ ...request, files: { ...request.files, contents: saving.contents } })
      if (report.collected !== undefined) saving.onFiles(report.collected)
      return report
    },
    toolbox: tools?.toolbox ?? null,
  })
  return {
    python,
    pool,
    attempts,
    files: kept?.files ?? null,
    identity: {
      service: config.serviceName,
      version: context.version,
      workerId: context.workerId,
      tier: facts.tier,
      layers: facts.layers,
      python: facts.interpreter.version,
      node: process.versions.node,
    },
    outcomes: {
      rejected: (message, called) => rejected(context, message, called),
      busy: called => busy(context, called),
      notRun: (status, reason, called) => notRun(context, status, reason, called),
      broken: (reason, started, called) => broken(context, reason, started, called),
      needsConfirmation: (code, question) => {
        const text = `[not run: a person has to confirm this code first, and nobody can be asked here: ${question}]`
        return outcomeWithoutRun(context, 'needs_confirmation', text, { code })
      },
    },
    close: async () => {
      await Promise.all([pool.close(), tools?.close()])
      await kept?.close()
    },
    describe: () => {
      const absent = facts.layers.filter(layer => !layer.inForce).map(layer => layer.name)
      const libraries = Object.entries(facts.installed).map(([name, version]) => `${name} ${version}`.trim())
      return [
        `${facts.tier} tier${absent.length > 0 ? ` (without: ${absent.join(', ')})` : ''}`,
        `Python ${facts.interpreter.version}`,
        ...(libraries.length > 0 ? [libraries.join(', ')] : []),
      ].join(' · ')
    },
  }
}
