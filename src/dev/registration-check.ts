import { z } from 'zod'
import { type Checked, parseJson } from './answer-format.js'

const schemaNode = z.looseObject({
  properties: z.record(z.string(), z.unknown()).optional(),
  items: z.unknown().optional(),
  anyOf: z.array(z.unknown()).optional(),
  additionalProperties: z.unknown().optional(),
  required: z.array(z.string()).optional(),
  order: z.unknown().optional(),
})

/**
 * The parameter schema of a registration, parsed, or the first fault with its path. A second opinion on purpose: it shares no code with
 * the worker's own check. docs/protocol.md, "Registering the tool" and "Strict schemas".
 */
export function checkParameters(text: string, strict: boolean): Checked<Readonly<Record<string, unknown>>> {
  const top = z.record(z.string(), z.unknown()).safeParse(parseJson(text))
  if (!top.success) return { fault: 'ctool_parameters: not the JSON of an object' }
  const fault = faultOf(top.data, 'parameters', strict)
  return fault === null ? { value: top.data } : { fault: `ctool_parameters: ${fault}` }
}

function faultOf(value: unknown, path: string, strict: boolean): string | null {
  const parsed = schemaNode.safeParse(value)
  if (!parsed.success) return `${path}: not a schema`
  const node = parsed.data
  const names = Object.keys(node.properties ?? {})
  if (node.properties !== undefined && strict) {
    if (node.additionalProperties !== false) return `${path}: additionalProperties is not false`
    const missing = names.filter(name => node.required?.includes(name) !== true)
    if (missing.length > 0) return `${path}: not in required: ${missing.join(', ')}`
  }
  for (const [name, property] of Object.entries(node.properties ?? {})) {
    const order = schemaNode.safeParse(property).data?.order
    if (!Number.isInteger(order)) return `${path}.${name}: no order`
    const fault = faultOf(property, `${path}.${name}`, strict)
    if (fault !== null) return fault
  }
  if (node.items !== undefined) {
    const fault = faultOf(node.items, `${path}[]`, strict)
    if (fault !== null) return fault
  }
  for (const [index, branch] of (node.anyOf ?? []).entries()) {
    const fault = faultOf(branch, `${path}.anyOf[${index}]`, strict)
    if (fault !== null) return fault
  }
  return null
}
