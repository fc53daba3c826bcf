import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import { type Config, loadConfig } from '../config.js'
import { type HostFacts, readHostFacts } from '../host.js'
import type { Outcome } from '../outcome.js'
import { openSandbox, type TierAttempt } from '../sandbox/open.js'
import type { Pool } from '../sandbox/pool.js'
import type { WorkerIdentity } from '../telemetry/status.js'
import { broken, busy, notRun, outcomeWithoutRun, rejected } from '../tool/outcome-without-run.js'
import type { OutcomeContext } from '../tool/provenance.js'
import { createPythonExecute } from '../tool/python-execute.js'
import { readVersion } from '../version.js'

export interface Setup {
  readonly config: Config
  readonly host: HostFacts
}

/** Configuration from the environment. Errors: ConfigError with a report of everything that is wrong. */
export function readSetup(env: NodeJS.ProcessEnv, needs: { readonly backend: boolean }): Setup {
  const host = readHostFacts()
  return { config: loadConfig(env, host, needs), host }
}

/** The tool with its sandbox running behind it. */
export interface Toolset {
  readonly python: ReturnType<typeof createPythonExecute>
  readonly pool: Pool
  readonly attempts: readonly TierAttempt[]
  readonly outcomes: {
    rejected(message: string): Outcome
    busy(): Outcome
    notRun(status: 'cancelled' | 'interrupted', reason: string): Outcome
    /** `started`: the code may have run in part. */
    broken(reason: string, started: boolean): Outcome
    needsConfirmation(code: string): Outcome
  }
  readonly identity: WorkerIdentity
  /** One line for a person. */
  describe(): string
}

/** The process was told to stop before it was up. Nothing is left behind. */
export class StartCancelled extends Error {
  override readonly name = 'StartCancelled'
}

export interface OpenToolsOptions {
  /** Sandboxes can be had or not, after they were up. */
  readonly onHealth?: (healthy: boolean, reason: string) => void
  /** Aborted meanwhile, the sandbox is closed as soon as it is up, since its start has no way out, and StartCancelled is thrown. */
  readonly signal?: AbortSignal
}

/** Errors: SandboxUnavailable, InterpreterError, StartCancelled. */
export async function openTools(
  { config, host }: Setup,
  log: Logger,
  { onHealth, signal }: OpenToolsOptions = {},
): Promise<Toolset> {
  const { pool, attempts } = await openSandbox({
    config: config.sandbox,
    streamMaxBytes: config.streamMaxBytes,
    cpus: host.cpus,
    env: process.env,
    log,
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
  }
  const python = createPythonExecute({ ...context, run: request => pool.run(request) })
  return {
    python,
    pool,
    attempts,
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
      rejected: message => rejected(context, message),
      busy: () => busy(context),
      notRun: (status, reason) => notRun(context, status, reason),
      broken: (reason, started) => broken(context, reason, started),
      needsConfirmation: code =>
        outcomeWithoutRun(context, 'needs_confirmation', '[not run: a person has to confirm this code first]', {
          code,
        }),
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
