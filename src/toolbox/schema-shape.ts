import { aliasesOf } from './names.js'
import type { ParameterSchema } from './tool-entry.js'

/** What JSON schemas say of an object's members, as far as that can be written as a signature. */

export interface ObjectShape {
  readonly properties: ReadonlyMap<string, unknown>
  readonly required: ReadonlySet<string>
  /** Whether other members are let through. */
  readonly open: boolean
}

export interface Parameter {
  /** Exactly as in the schema, and as Python code can write it. */
  readonly name: string
  readonly alias: string
  readonly schema: unknown
  readonly required: boolean
}

export interface Parameters {
  /** In the schema's order. */
  readonly list: readonly Parameter[]
  readonly open: boolean
}

/** Of references and parts in each other. */
const DEPTH_MOST = 200

export function isSchema(value: unknown): value is ParameterSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The part of the schema that `#/…` points to; undefined for what is elsewhere or not there. */
export function pointedTo(root: ParameterSchema, ref: unknown): unknown {
  if (typeof ref !== 'string' || !(ref === '#' || ref.startsWith('#/'))) return undefined
  let found: unknown = root
  for (const step of ref.split('/').slice(1, 50)) {
    const key = unescaped(step)
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as Record<string, unknown>)[key]
  }
  return found
}

function unescaped(step: string): string {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return step
  }
}

/**
 * Members of an object by all that its schema is put together from: $ref, allOf, and what anyOf and oneOf have between them.
 * `most`: of a part's members no more are looked at once there are so many.
 */
export function shapeOf(root: ParameterSchema, schema: ParameterSchema, most = Number.POSITIVE_INFINITY): ObjectShape {
  // Each part is looked at once, so that references in rings and in fans end.
  const seen = new Set<unknown>()
  const properties = new Map<string, unknown>()
  let listed = false
  let closed = false
  let opened = false

  function visit(part: unknown, depth: number): Set<string> {
    const required = new Set<string>()
    if (!isSchema(part) || seen.has(part) || depth > DEPTH_MOST) return required
    seen.add(part)
    if (isSchema(part['properties'])) {
      listed = true
      for (const name of Object.keys(part['properties'])) {
        if (properties.size >= most) break
        if (!properties.has(name)) properties.set(name, part['properties'][name])
      }
    }
    for (const name of listOf(part['required'])) if (typeof name === 'string') required.add(name)
    const others = part['additionalProperties'] ?? part['unevaluatedProperties']
    if (others === false) closed = true
    if (others === true || isSchema(others) || isSchema(part['patternProperties'])) opened = true
    for (const inner of [pointedTo(root, part['$ref']), ...listOf(part['allOf'])]) {
      for (const name of visit(inner, depth + 1)) required.add(name)
    }
    for (const branches of [listOf(part['anyOf']), listOf(part['oneOf'])]) {
      const [first, ...rest] = branches.map(branch => visit(branch, depth + 1))
      for (const name of first ?? []) if (rest.every(one => one.has(name))) required.add(name)
    }
    return required
  }

  const required = visit(schema, 0)
  for (const name of required) if (!properties.has(name)) properties.set(name, true)
  return { properties, required, open: opened || (!closed && !listed) }
}

const KNOWN = new WeakMap<ParameterSchema, Parameters>()

/** The parameters of a tool. A schema without a list of properties lets through any that are given. */
export function parametersOf(schema: ParameterSchema): Parameters {
  const known = KNOWN.get(schema)
  if (known !== undefined) return known
  const { properties, required, open } = shapeOf(schema, schema)
  const aliases = aliasesOf(properties.keys(), 'parameters')
  const list = [...properties].map(([name, inner]) => ({
    name,
    alias: aliases.of.get(name) ?? name,
    schema: inner,
    required: required.has(name),
  }))
  const parameters = { list, open }
  KNOWN.set(schema, parameters)
  return parameters
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
