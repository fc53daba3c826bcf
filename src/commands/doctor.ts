import { InterpreterError } from '../sandbox/interpreter.js'
import { SandboxUnavailable, type TierAttempt } from '../sandbox/open.js'
import { createLog } from '../telemetry/log.js'
import { openTools, readSetup } from './setup.js'

const EXIT_UNAVAILABLE = 69

/** Says which sandbox can be had here, why not a better one, and what to do. Returns the exit code: 0, or 69 for none. */
export async function doctor(env: NodeJS.ProcessEnv, out: (line: string) => void): Promise<number> {
  const setup = readSetup(env, { backend: false })
  for (const warning of setup.config.warnings) out(`warning: ${warning}`)
  try {
    const tools = await openTools(setup, createLog({ level: 'silent', pretty: false, destination: 'stderr' }))
    const { facts } = tools.pool
    tellFailed(tools.attempts, out)
    out(`tier ${facts.tier}: in use, escape self-test passed`)
    for (const layer of facts.layers) {
      out(`  ${layer.inForce ? '✓' : '✗'} ${layer.name}${layer.why === undefined ? '' : ` (${layer.why})`}`)
    }
    out(`interpreter: ${facts.interpreter.path}, Python ${facts.interpreter.version}`)
    const installed = Object.entries(facts.installed).map(([name, version]) => `${name} ${version}`.trim())
    out(`preloaded: ${installed.join(', ') || 'nothing'}`)
    if (facts.missing.length > 0) out(`  not preloaded, not installed or broken: ${facts.missing.join(', ')}`)
    const { notShown = [] } = facts
    if (notShown.length > 0) out(`  on its path, but not shown to sandboxes: ${notShown.join(', ')}`)
    const { slots, memoryBytes } = setup.config.sandbox
    out(`slots: ${slots} calls at once, ${memoryBytes / 1024 ** 2} MiB each`)
    out(
      'memory: held by a watch that looks every 20 ms, not by a cgroup: a call can exceed its limit between two looks',
    )
    await tools.pool.close()
    return 0
  } catch (error) {
    if (error instanceof InterpreterError) {
      out(error.message)
      return EXIT_UNAVAILABLE
    }
    if (!(error instanceof SandboxUnavailable)) throw error
    tellFailed(error.attempts, out)
    out('no sandbox can be had: the worker would not start')
    return EXIT_UNAVAILABLE
  }
}

function tellFailed(attempts: readonly TierAttempt[], out: (line: string) => void): void {
  for (const attempt of attempts.filter(one => !one.ok)) {
    out(`tier ${attempt.tier}: not available: ${attempt.message}`)
    if (attempt.remedy !== undefined) out(`  to get it: ${attempt.remedy}`)
  }
}
