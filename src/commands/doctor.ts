import { layerRemedy } from '../sandbox/layers.js'
import { createLog } from '../telemetry/log.js'
import { openTools, readSetup } from './setup.js'
import { EXIT_UNAVAILABLE, failedTiers, unavailableLines } from './unavailable.js'

/** Says which sandbox can be had here, why not a better one, and what to do. Returns the exit code: 0, or 69 for none. */
export async function doctor(env: NodeJS.ProcessEnv, out: (line: string) => void): Promise<number> {
  const setup = readSetup(env, { backend: false })
  for (const warning of setup.config.warnings) out(`warning: ${warning}`)
  for (const warning of setup.toolSettings.servers?.warnings ?? []) out(`warning: TOOLS_CONFIG: ${warning}`)
  try {
    const tools = await openTools(setup, createLog({ level: 'silent', pretty: false, destination: 'stderr' }))
    const { facts } = tools.pool
    const failed = failedTiers(tools.attempts)
    for (const line of failed) out(line)
    out(`tier ${facts.tier}: in use, escape self-test passed`)
    for (const layer of facts.layers) {
      out(`  ${layer.inForce ? '✓' : '✗'} ${layer.name}${layer.why === undefined ? '' : ` (${layer.why})`}`)
      const remedy = layerRemedy(layer, failed.length > 0)
      if (remedy !== null) out(`      to ${layer.inForce ? 'strengthen' : 'get'} it: ${remedy}`)
    }
    const { policy } = setup.config.sandbox
    out(`policy: ${policy}${policy === 'full' ? '' : ' (SANDBOX_POLICY): no imports, built-ins and tools only'}`)
    out(`interpreter: ${facts.interpreter.path}, Python ${facts.interpreter.version}`)
    const installed = Object.entries(facts.installed).map(([name, version]) => `${name} ${version}`.trim())
    out(`preloaded: ${installed.join(', ') || 'nothing'}`)
    for (const [name, why] of Object.entries(facts.missing)) out(`  not preloaded: ${name} (${why})`)
    const { notShown = [] } = facts
    if (notShown.length > 0) out(`  on its path, but not shown to sandboxes: ${notShown.join(', ')}`)
    const { slots, memoryBytes } = setup.config.sandbox
    out(`slots: ${slots} calls at once, ${memoryBytes / 1024 ** 2} MiB each`)
    out(
      facts.layers.some(layer => layer.name === 'cgroup' && layer.inForce)
        ? 'memory: held by a cgroup for each sandbox, and by a watch that looks every 20 ms while code runs'
        : 'memory: held by a watch that looks every 20 ms while code runs, not by a cgroup: a call can exceed its limit between two looks',
    )
    await tools.close()
    return 0
  } catch (error) {
    const lines = unavailableLines(error)
    if (lines === null) throw error
    for (const line of lines) out(line)
    return EXIT_UNAVAILABLE
  }
}
