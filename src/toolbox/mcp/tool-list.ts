import { z } from 'zod'
import type { ParameterSchema } from '../tool-entry.js'
import type { Annotations } from './consent.js'
import { nestsDeeperThan } from './nesting.js'

const TOOLS_MAX = 1_000
const BYTES_MAX = 4 * 1024 * 1024
const PAGES_MAX = 100
/** Of a tool with its schemas: whoever makes stubs of them may walk them by recursion. */
const LEVELS_MAX = 100
const NAME_CHARS_MAX = 256

export interface ListedTool {
  readonly name: string
  readonly description: string
  readonly parameters: ParameterSchema
  readonly returns: ParameterSchema | null
  readonly annotations: Annotations
}

export interface ToolList {
  /** In the server's order, each name once. */
  readonly tools: readonly ListedTool[]
  /** What is left out and why, as phrases. */
  readonly leftOut: readonly string[]
}

/** A page of `tools/list`; its tools are looked at one by one, so that a bad one costs only itself. */
export const PAGE = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional() })

const TOOL = z.looseObject({
  name: z.string().min(1).max(NAME_CHARS_MAX),
  title: z.string().optional().catch(undefined),
  description: z.string().optional().catch(undefined),
  inputSchema: z.record(z.string(), z.unknown()),
  outputSchema: z.record(z.string(), z.unknown()).optional().catch(undefined),
  annotations: z.record(z.string(), z.unknown()).optional().catch(undefined),
  execution: z.looseObject({ taskSupport: z.unknown() }).optional().catch(undefined),
})

/** Collects a server's tools page by page, at most 1 000 of them in 4 MiB. Rejects as `page` does. */
export async function listTools(
  page: (cursor: string | undefined) => Promise<z.output<typeof PAGE>>,
): Promise<ToolList> {
  const tools = new Map<string, ListedTool>()
  const malformed: string[] = []
  const needTasks: string[] = []
  const leftOut: string[] = []
  const cursors = new Set<string>()
  let bytes = 0
  let cursor: string | undefined
  const finish = () => {
    if (malformed.length > 0) leftOut.push(`not as the protocol wants them: ${named(malformed)}`)
    if (needTasks.length > 0) leftOut.push(`callable only as tasks, which are not supported: ${named(needTasks)}`)
    return { tools: [...tools.values()], leftOut }
  }

  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const { tools: listed, nextCursor } = await page(cursor)
    for (const one of listed) {
      // Written and read again: what reads schemas takes numbers as JavaScript has them.
      const json = nestsDeeperThan(LEVELS_MAX, one) ? 'null' : JSON.stringify(one)
      const parsed = TOOL.safeParse(JSON.parse(json))
      if (!parsed.success || tools.has(parsed.data.name)) {
        malformed.push(parsed.success ? `${parsed.data.name} (a second time)` : nameOf(one))
        continue
      }
      if (parsed.data.execution?.taskSupport === 'required') {
        needTasks.push(parsed.data.name)
        continue
      }
      bytes += Buffer.byteLength(json)
      if (tools.size >= TOOLS_MAX || bytes > BYTES_MAX) {
        leftOut.push(`those after the first ${tools.size}: more than ${TOOLS_MAX} tools or 4 MiB are not taken`)
        return finish()
      }
      tools.set(parsed.data.name, described(parsed.data))
    }
    if (nextCursor === undefined) return finish()
    if (cursors.has(nextCursor)) {
      leftOut.push('what may come after a page that the server gave twice')
      return finish()
    }
    cursors.add(nextCursor)
    cursor = nextCursor
  }
  leftOut.push(`those after ${PAGES_MAX} pages`)
  return finish()
}

function described(tool: z.output<typeof TOOL>): ListedTool {
  return {
    name: tool.name,
    description: tool.description?.trim() || tool.title?.trim() || '',
    parameters: tool.inputSchema,
    returns: tool.outputSchema ?? null,
    annotations: tool.annotations ?? {},
  }
}

function nameOf(tool: unknown): string {
  const name = typeof tool === 'object' && tool !== null && 'name' in tool ? tool.name : undefined
  return typeof name === 'string' && name !== '' ? name.slice(0, 64).toWellFormed() : 'one without a name'
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(', ')
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown
}
