import { z } from 'zod'
import type { ToolEntry, ToolSource } from './tool-entry.js'

const Tool = z.object({
  name: z.string().min(1),
  description: z.string(),
  parameters: z.record(z.string(), z.unknown()),
  returns: z.record(z.string(), z.unknown()).optional(),
})
const Catalog = z.record(z.string(), z.object({ description: z.string(), tools: z.array(Tool) }))

/**
 * The sources of the tools that run inside the sandbox. `json`: built-in.json, parsed. `subprocesses`: whether code in the sandbox
 * may start processes; where it may not, `shell` has no tools and says why. Throws where the JSON is not as it has to be.
 */
export function builtInSources(json: unknown, options: { readonly subprocesses: boolean }): readonly ToolSource[] {
  return Object.entries(Catalog.parse(json)).map(([category, { description, tools }]) => {
    const isDenied = category === 'shell' && !options.subprocesses
    const entries: readonly ToolEntry[] = tools.map(({ returns, ...tool }) => ({
      category,
      ...tool,
      ...(returns === undefined ? {} : { returns }),
      consent: 'free',
    }))
    const offered = isDenied ? [] : entries
    return {
      category,
      description,
      tools: async () => offered,
      problem: isDenied ? 'code in this sandbox may not start processes' : null,
      close: async () => {},
    }
  })
}
