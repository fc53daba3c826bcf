import type { ParameterSchema, ToolEntry, ToolSource } from '../../../../src/toolbox/tool-entry.js'

export function entryOf(name: string, changes: Partial<ToolEntry> = {}): ToolEntry {
  return {
    category: 'web',
    name,
    description: `Does ${name}.`,
    parameters: { type: 'object', properties: {} },
    consent: 'free',
    call: async () => ({ value: name }),
    ...changes,
  }
}

export function withParameters(properties: Record<string, unknown>, required: readonly string[] = []): ParameterSchema {
  return { type: 'object', properties, required }
}

export function sourceOf(category: string, tools: readonly ToolEntry[], changes: Partial<ToolSource> = {}): ToolSource {
  const own = tools.map(tool => ({ ...tool, category }))
  return {
    category,
    description: `Tools of ${category}`,
    tools: async () => own,
    problem: null,
    close: async () => {},
    ...changes,
  }
}
