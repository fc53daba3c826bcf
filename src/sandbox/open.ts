import type { Logger } from 'pino'
import type { SandboxConfig } from '../config.js'
import { tooManyFiles } from '../open-files.js'
import type { Layer, SandboxFacts, TierName } from '../outcome.js'
import type { Redactor } from '../telemetry/redactor.js'
import { findInterpreter, type Interpreter } from './interpreter.js'
import { type LayerSwitch, layersOf } from './layers.js'
import { wireLimits } from './limits.js'
import { Machinery, type MachineryOptions } from './machinery.js'
import { Pool } from './pool.js'
import { restrictedLayer } from './restricted-python.js'
import { selfTest } from './self-test.js'
import { Template, TierUnavailable } from './template.js'
import { TemporaryFolderError } from './temporary-folder.js'

export interface OpenOptions {
  readonly config: SandboxConfig
  readonly streamMaxBytes: number
  readonly cpus: number
  readonly env: NodeJS.ProcessEnv
  readonly log: Logger
  readonly redactor?: Redactor
  readonly landlockAbiMost?: number
  /** Tests only, as landlockAbiMost: what is left out of the sandbox, and that no self-test then refuses to serve. */
  readonly layersOff?: readonly LayerSwitch[]
  readonly skipSelfTest?: boolean
  /** Tests only: how soon a zygote is replaced. */
  readonly runsPerZygote?: number
  /** Tests only: how long a preload may take to be imported. */
  readonly importTimeoutMs?: number
  onHealth?(healthy: boolean, reason: string): void
}

/** What was tried of one tier. */
export interface TierAttempt {
  readonly tier: TierName
  readonly ok: boolean
  readonly step?: string
  readonly errno?: number
  readonly message?: string
  readonly remedy?: string
}

/** A tier that can be set up here, and the variable, with its value, that refuses it. */
export interface RefusedTier {
  readonly tier: TierName
  readonly by: string
}

/** No tier that is allowed can be had; `attempts` say why and what to do, `refused` what could be had if it were allowed. */
export class SandboxUnavailable extends Error {
  override readonly name = 'SandboxUnavailable'
  readonly attempts: readonly TierAttempt[]
  readonly refused: RefusedTier | null

  constructor(attempts: readonly TierAttempt[], refused: RefusedTier | null = null) {
    const why = attempts.map(a => `${a.tier}: ${a.message}${a.remedy === undefined ? '' : ` (${a.remedy})`}`).join('; ')
    super(
      `no sandbox: ${why}${refused === null ? '' : `; ${refused.by} refuses the ${refused.tier} tier, which can be had here`}`,
    )
    this.attempts = attempts
    this.refused = refused
  }
}

/** Best first. */
const TIERS: readonly TierName[] = ['namespaces', 'landlock']

/** Opens the best tier that the configuration allows, by really doing it, and proves it with an escape test. */
export async function openSandbox(options: OpenOptions): Promise<{ pool: Pool; attempts: readonly TierAttempt[] }> {
  const { config, log } = options
  const interpreter = await findInterpreter(config.python, options.env)
  if (interpreter.notShown.length > 0) {
    log.warn({ folders: interpreter.notShown }, 'folders on the path of the interpreter are not shown to sandboxes')
  }
  const policyLayer = config.policy === 'restricted' ? [await restrictedLayer(interpreter)] : []
  const attempts: TierAttempt[] = []
  if (options.layersOff !== undefined && options.layersOff.length > 0)
    log.error({ layers: options.layersOff }, 'sandbox layers are switched off')
  for (const tier of candidates(config)) {
    const machineryOptions: MachineryOptions = {
      tier,
      interpreter,
      policy: config.policy,
      // Code that imports nothing has no use for libraries.
      preload: config.policy === 'restricted' ? [] : config.preload,
      limits: wireLimits(config, options.streamMaxBytes),
      log,
      ...(options.landlockAbiMost === undefined ? {} : { landlockAbiMost: options.landlockAbiMost }),
      ...(options.layersOff === undefined ? {} : { layersOff: options.layersOff }),
      ...(options.runsPerZygote === undefined ? {} : { runsPerZygote: options.runsPerZygote }),
      ...(options.importTimeoutMs === undefined ? {} : { importTimeoutMs: options.importTimeoutMs }),
    }
    let machinery: Machinery
    try {
      machinery = await Machinery.begin(machineryOptions)
    } catch (error) {
      // Which no tier can do without.
      if (error instanceof TemporaryFolderError || tooManyFiles(error) !== null) throw error
      attempts.push(attemptFailed(tier, error as Error))
      continue
    }
    const layers = [...layersOf(tier, machinery.up, options.layersOff, attempts[0]), ...policyLayer]
    const facts = () => factsOf(tier, layers, interpreter, machinery)
    // Of a tier that is tried nobody is told: where it does not come to be used, its ills are not the worker's.
    let ill: string | null = null
    let inUse = false
    const onHealth = (healthy: boolean, reason: string) => {
      ill = healthy ? null : reason
      if (inUse) options.onHealth?.(healthy, reason)
    }
    const pool = new Pool(machinery, {
      config,
      machinery: machineryOptions,
      facts: facts(),
      log,
      cpus: options.cpus,
      onHealth,
      ...(options.redactor === undefined ? {} : { redactor: options.redactor }),
    })
    // The test needs no library: it runs while they are being imported.
    const test = options.skipSelfTest ? Promise.resolve([]) : selfTest(pool, config)
    const [tested, imported] = await Promise.allSettled([test, machinery.whole])
    if (tested.status === 'rejected' || imported.status === 'rejected') {
      await pool.close()
      if (tested.status === 'rejected') throw tested.reason
      if (imported.status === 'rejected') attempts.push(attemptFailed(tier, imported.reason as Error))
      continue
    }
    pool.complete(facts())
    const escapes = tested.value
    if (escapes.length > 0) {
      await pool.close()
      const all = ill === null ? escapes : [...escapes, ill]
      attempts.push({ tier, ok: false, step: 'self-test', message: `the self-test got through: ${all.join(', ')}` })
      continue
    }
    attempts.push({ tier, ok: true })
    inUse = true
    if (ill !== null) options.onHealth?.(false, ill)
    return { pool, attempts }
  }
  throw new SandboxUnavailable(attempts, await refusedTier(options, interpreter))
}

/** Set up and taken down again, without the escape test that it would have to pass. */
async function refusedTier({ config }: OpenOptions, interpreter: Interpreter): Promise<RefusedTier | null> {
  const by = config.tier === 'auto' ? `SANDBOX_MIN_TIER=${config.minTier}` : `SANDBOX_TIER=${config.tier}`
  for (const tier of TIERS.filter(one => !candidates(config).includes(one))) {
    const template = await Template.start({ tier, interpreter, policy: config.policy }).catch(() => null)
    if (template === null) continue
    await template.stop()
    return { tier, by }
  }
  return null
}

function candidates(config: SandboxConfig): TierName[] {
  if (config.tier !== 'auto') return [config.tier]
  return TIERS.slice(0, TIERS.indexOf(config.minTier) + 1)
}

function factsOf(
  tier: TierName,
  layers: readonly Layer[],
  interpreter: Interpreter,
  machinery: Machinery,
): SandboxFacts {
  return {
    tier,
    layers,
    interpreter: { path: interpreter.path, version: interpreter.version },
    installed: machinery.preloaded.installed,
    missing: { ...machinery.preloaded.missing, ...machinery.preloaded.unfit },
    ...(interpreter.notShown.length > 0 ? { notShown: interpreter.notShown } : {}),
    subprocesses: tier === 'namespaces',
  }
}

function attemptFailed(tier: TierName, error: Error): TierAttempt {
  if (!(error instanceof TierUnavailable)) return { tier, ok: false, step: 'zygote', message: error.message }
  const remedy = remedyFor(error)
  return {
    tier,
    ok: false,
    step: error.step,
    errno: error.errno,
    message: error.message,
    ...(remedy === null ? {} : { remedy }),
  }
}

function remedyFor(error: TierUnavailable): string | null {
  if (error.step === 'interpreter') {
    return 'name an interpreter that every user can read, for example SANDBOX_PYTHON=/usr/bin/python3, or allow the namespaces tier'
  }
  if (error.tier === 'landlock')
    return 'a kernel with Landlock ABI 3 is needed: Linux 6.2 or later with landlock in its lsm= list'
  switch (error.step) {
    case 'user namespace':
      return 'allow user namespaces: in Docker use the seccomp profile of docker/; on the host check sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns; in Kubernetes set hostUsers: false'
    case 'mount and pid namespaces':
    case 'file tree':
      return 'allow mounting: in Docker use the seccomp profile of docker/ and --security-opt apparmor=unconfined'
    default:
      return null
  }
}
