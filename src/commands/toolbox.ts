import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { Logger } from 'pino'
import type { Fault } from '../config/report.js'
import type { Config, ToolsConfig } from '../config.js'
import type { SandboxFacts } from '../outcome.js'
import { builtInSources } from '../toolbox/built-in.js'
import { ToolCatalog } from '../toolbox/catalog.js'
import { maskedSource } from '../toolbox/masked-source.js'
import type { McpSourceOptions } from '../toolbox/mcp/mcp-source.js'
import { parseToolServers, type ToolServers } from '../toolbox/mcp/parse-config.js'
import { mayUseTools } from '../toolbox/mentions.js'
import type { ToolSource } from '../toolbox/tool-entry.js'
import { Toolbox } from '../toolbox/toolbox.js'
import { parseWebConfig, type WebConfig } from '../toolbox/web/web-config.js'
import { readVersion } from '../version.js'

const BUILT_IN = new URL('../toolbox/built-in.json', import.meta.url)

export interface OpenToolbox {
  readonly toolbox: Toolbox
  close(): Promise<void>
}

/** What the configuration says of tools that come from outside of the sandbox. */
export interface ToolSettings {
  readonly servers: ToolServers | null
  readonly web: WebConfig
  /** To be masked wherever they could show. */
  readonly secrets: readonly string[]
}

export interface ReadToolSettings {
  readonly settings: ToolSettings
  readonly faults: readonly Fault[]
  /** What may explain the faults. */
  readonly hints: readonly string[]
}

/** Reads what TOOLS_CONFIG and TOOLS_WEB_* say. With any fault, the settings must not be used. */
export function readToolSettings(tools: ToolsConfig, env: NodeJS.ProcessEnv): ReadToolSettings {
  const { config: web, faults: webFaults, secrets } = parseWebConfig(env)
  const servers = tools.callsMax === 0 || tools.config === null ? null : readToolServers(tools.config, env)
  const serverFaults = (servers?.faults ?? []).map(right => ({ variable: 'TOOLS_CONFIG', right, isWhole: true }))
  return {
    settings: { servers, web, secrets: [...secrets, ...(servers?.secrets ?? [])] },
    faults: [...webFaults, ...serverFaults],
    hints: (servers?.warnings ?? []).map(warning => `TOOLS_CONFIG: ${warning}`),
  }
}

const READ_FAULTS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'permission denied',
}

function readToolServers(given: string, env: NodeJS.ProcessEnv): ToolServers {
  // Nor is JSON of the wrong kind, or in quotes, taken for a path: secrets may stand in it, and a path is quoted.
  if (/^[{["']/.test(given)) return parseToolServers(given, env)
  const file = path.resolve(given)
  try {
    return parseToolServers(readFileSync(file, 'utf8'), env)
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    const shown = JSON.stringify(file.length > 200 ? `${file.slice(0, 200).toWellFormed()}…` : file)
    const right = 'give the path of a JSON file with mcpServers, or the JSON itself, which begins with "{"'
    return {
      servers: [],
      secrets: [],
      warnings: [],
      faults: [`${shown} can not be read (${READ_FAULTS[code] ?? (code || message)}); ${right}`],
    }
  }
}

/** The protocol's library takes 10 MB of memory: nothing of it is there without servers. */
async function mcpSources(
  servers: ToolServers['servers'],
  options: Omit<McpSourceOptions, 'config'>,
): Promise<ToolSource[]> {
  if (servers.length === 0) return []
  const { McpSource } = await import('../toolbox/mcp/mcp-source.js')
  return servers.map(config => new McpSource({ ...options, config }))
}

/** As above: what reads pages takes 3 MB, and is off unless it is asked for. */
async function webSources(web: WebConfig, log: Logger): Promise<ToolSource[]> {
  if (web.mode === 'off') return []
  const { createWebSource } = await import('../toolbox/web/web-source.js')
  return [createWebSource({ config: { ...web, mode: web.mode }, log })]
}

/** null: there is one. */
function whyNoShell(facts: SandboxFacts, isRestricted: boolean): string | null {
  if (isRestricted) return 'under the restricted policy there is none, as it could start a Python without the policy'
  return facts.subprocesses ? null : 'code in this sandbox may not start processes'
}

/** The tools that code may call; null where the configuration gives it none. */
export async function openToolbox(
  config: Config,
  facts: SandboxFacts,
  { servers, web, secrets }: ToolSettings,
  { log, env, mask }: { readonly log: Logger; readonly env: NodeJS.ProcessEnv; mask(text: string): string },
): Promise<OpenToolbox | null> {
  const { tools } = config
  const isRestricted = config.sandbox.policy === 'restricted'
  if (tools.callsMax === 0 || tools.allow?.length === 0) return null
  for (const warning of servers?.warnings ?? []) log.warn({ warning }, 'configuration warning')
  const sources: ToolSource[] = [
    ...builtInSources(JSON.parse(readFileSync(BUILT_IN, 'utf8')), { noShell: whyNoShell(facts, isRestricted) }),
    ...(await webSources(web, log)),
    ...(await mcpSources(servers?.servers ?? [], { log, secrets, environment: env, version: readVersion() })),
  ]
  const catalog = new ToolCatalog({
    sources: sources.map(source => maskedSource(source, mask)),
    globs: tools,
    onNotes: notes => log.warn({ notes }, 'the tools of the configuration are not all as it says'),
  })
  return {
    toolbox: new Toolbox({
      catalog: (signal, wanted) => catalog.snapshot(signal, wanted),
      categoriesIn: code => catalog.categoriesIn(code),
      mentioned: (code, entries) => catalog.mentioned(code, entries),
      mayUseTools,
      description: catalog.describe({ callsMax: tools.callsMax, isRestricted }),
      callsMax: tools.callsMax,
      progress: tools.progress,
      mask,
      log,
    }),
    close: async () => {
      await Promise.all(sources.map(source => source.close()))
    },
  }
}
