import type { JsonSchema, Tool } from './tool.js'

/** One place where a schema breaks the strict rules; `missing` names the properties that `required` leaves out. */
export interface StrictFault {
  /** Such as parameters.args.anyOf[1] or parameters.list[]. */
  readonly path: string
  readonly problem: string
  readonly missing: readonly string[]
}

type Described = Pick<Tool, 'name' | 'description' | 'parameters'>

/**
 * Finds every breach of the strict subset, at every depth, through `properties`, `items` and `anyOf`: an object with
 * `properties` must say `additionalProperties: false` and list every property in `required`. Whether `type` is a
 * string, a list or absent makes no difference. An empty list means the schema is strict. docs/protocol.md, "Strict
 * schemas".
 */
export function checkStrict(parameters: JsonSchema): StrictFault[] {
  return faultsAt(parameters, 'parameters')
}

function faultsAt(schema: unknown, path: string): StrictFault[] {
  if (!isSchema(schema)) return []
  const faults: StrictFault[] = []
  const properties = schema['properties']
  if (isSchema(properties)) {
    if (schema['additionalProperties'] !== false) {
      faults.push({ path, problem: 'additionalProperties must be false', missing: [] })
    }
    const required = Array.isArray(schema['required']) ? schema['required'] : []
    const missing = Object.keys(properties).filter(name => !required.includes(name))
    if (missing.length > 0) faults.push({ path, problem: `required must list ${missing.join(', ')}`, missing })
    for (const [name, property] of Object.entries(properties)) faults.push(...faultsAt(property, `${path}.${name}`))
  }
  faults.push(...faultsAt(schema['items'], `${path}[]`))
  const branches = schema['anyOf']
  if (Array.isArray(branches)) {
    branches.forEach((branch, index) => {
      faults.push(...faultsAt(branch, `${path}.anyOf[${index}]`))
    })
  }
  return faults
}

/** Throws an Error that names every fault. A tool that is not strict is a programming error: the worker must not start. */
export function assertStrict(tool: Described): void {
  const faults = checkStrict(tool.parameters)
  if (faults.length === 0) return
  const lines = faults.map(fault => `  ${fault.path}: ${fault.problem}`)
  throw new Error(`The parameters of the tool "${tool.name}" are not a strict schema:\n${lines.join('\n')}`)
}

/**
 * The schema as it is registered: every property at every depth carries `order`, its position among its siblings from
 * 0, unless it has one already. Returns a copy.
 */
export function withOrder(parameters: JsonSchema): JsonSchema {
  const ordered: Record<string, unknown> = { ...parameters }
  const { properties, items, anyOf } = parameters as { properties?: unknown; items?: unknown; anyOf?: unknown }
  if (isSchema(properties)) {
    const entries = Object.entries(properties).map(([name, property], index) => {
      if (!isSchema(property)) return [name, property]
      const inner = withOrder(property)
      return [name, Object.hasOwn(inner, 'order') ? inner : { ...inner, order: index }]
    })
    ordered['properties'] = Object.fromEntries(entries)
  }
  if (isSchema(items)) ordered['items'] = withOrder(items)
  if (Array.isArray(anyOf)) ordered['anyOf'] = anyOf.map(branch => (isSchema(branch) ? withOrder(branch) : branch))
  return ordered
}

/** The tool as OpenAI-style APIs take it. */
export function openaiDefinition(tool: Described) {
  const { name, description, parameters } = tool
  return { type: 'function', function: { name, description, parameters }, strict: true } as const
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
