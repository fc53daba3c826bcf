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
 * The sources of the tools that run inside the sandbox. `json`: built-in.json, parsed. `noShell`: why `shell` has no tools, a phrase for
 * the model; null: it has. Throws where the JSON is not as it has to be.
 */
export function builtInSources(json: unknown, { noShell }: { readonly noShell: string | null }): readonly ToolSource[] {
  return Object.entries(Catalog.parse(json)).map(([category, { description, tools }]) => {
    const problem = category === 'shell' ? noShell : null
    const entries: readonly ToolEntry[] = tools.map(({ returns, ...tool }) => ({
      category,
      ...tool,
      ...(returns === undefined ? {} : { returns }),
      consent: 'free',
    }))
    const offered = problem === null ? entries : []
    return {
      category,
      description,
      tools: async () => offered,
      problem,
      close: async () => {},
    }
  })
}
