import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { afterEach } from 'vitest'
import { McpSource, type McpSourceOptions } from '../../../../src/toolbox/mcp/mcp-source.js'
import { parseToolServers } from '../../../../src/toolbox/mcp/parse-config.js'
import type { Json, ToolEntry } from '../../../../src/toolbox/tool-entry.js'

const MISBEHAVING = fileURLToPath(new URL('misbehaving-server.mjs', import.meta.url))

export const misbehaving = (mode: string, ...args: string[]) => ({
  command: process.execPath,
  args: [MISBEHAVING, mode, ...args],
})

const require = createRequire(import.meta.url)
export const EVERYTHING = require.resolve('@modelcontextprotocol/server-everything/dist/index.js')
export const FILESYSTEM = require.resolve('@modelcontextprotocol/server-filesystem/dist/index.js')

interface LogLine {
  readonly msg: string
  readonly level: number
  readonly [field: string]: unknown
}

export interface Opened {
  readonly source: McpSource
  readonly lines: LogLine[]
  entries(): Promise<readonly ToolEntry[]>
  names(): Promise<string[]>
  call(tool: string, args?: { readonly [name: string]: Json }, signal?: AbortSignal): Promise<Json>
}

const opened: McpSource[] = []

afterEach(async () => {
  await Promise.all(opened.splice(0).map(source => source.close()))
})

/** A source of one server, as TOOLS_CONFIG has it; closed after the test. */
export function open(
  server: object,
  environment: Record<string, string | undefined> = process.env,
  more: Partial<McpSourceOptions> = {},
): Opened {
  const parsed = parseToolServers(JSON.stringify({ mcpServers: { srv: server } }), environment)
  const [config] = parsed.servers
  if (config === undefined) throw new Error(parsed.faults.join('\n'))
  const lines: LogLine[] = []
  const log = pino({ level: 'debug', base: null }, { write: line => void lines.push(JSON.parse(line)) })
  const source = new McpSource({ config, log, secrets: parsed.secrets, environment, version: '1.2.3', ...more })
  opened.push(source)
  const entries = () => source.tools(new AbortController().signal)
  return {
    source,
    lines,
    entries,
    names: async () => (await entries()).map(entry => entry.name),
    async call(tool, args = {}, signal = new AbortController().signal) {
      const entry = (await entries()).find(one => one.name === tool)
      if (entry?.call === undefined) throw new Error(`no tool ${tool}: ${source.problem}`)
      return (await entry.call(args, { signal })).value
    },
  }
}

/** What a promise is rejected with; fails where it isn't. */
export async function failure(work: Promise<unknown>): Promise<Error> {
  try {
    await work
  } catch (error) {
    return error as Error
  }
  throw new Error('did not fail')
}
