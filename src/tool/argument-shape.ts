import { editDistance } from '../edit-distance.js'
import { readJsonText } from './json-text.js'
import { quote } from './readable-text.js'
import type { JsonSchema } from './tool.js'

export type Shaped =
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly problem: string }

type Values = Map<string, unknown>
type Merged = { readonly ok: true; readonly values: Values } | { readonly ok: false; readonly problem: string }

/** What models call the object that should have been the arguments themselves. */
const WRAPPERS = ['args', 'arguments', 'parameters', 'params', 'input', 'kwargs']
const NAMED_AT_MOST = 5

/**
 * Brings what a model sent into the shape of a strict schema, as far as that takes no guessing (docs/protocol.md,
 * "Strict schemas"): null for all of it, an object written as a JSON string, a parameter one level too high or too low,
 * a nullable one left out, a whole number as a string. A parameter that the schema does not know and that holds
 * something is a problem, with the name that was probably meant. The result holds declared names only; whether the
 * values fit is for the schema to say afterwards.
 *
 * Names come from a model, `__proto__` too, so they are looked up in maps or among own properties only.
 */
export function shapeArguments(value: unknown, schema: JsonSchema, toolName: string): Shaped {
  const top = valuesOf(value)
  if (top === null) return { ok: false, problem: `the arguments must be a JSON object, not ${describeValue(value)}` }
  const unwrapped = unwrap(top, schema, toolName)
  if (!unwrapped.ok) return unwrapped
  const raised = raise(unwrapped.values, schema)
  if (!raised.ok) return raised
  return settle(raised.values, schema, '')
}

/** A value in a message: strings quoted and cut, objects and lists only described, however large or deep. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return `the string ${quote(value)}`
  if (Array.isArray(value)) return `a list of ${value.length}`
  if (typeof value === 'object' && value !== null) {
    const names = Object.keys(value)
    return names.length === 0 ? 'an empty object' : `an object with ${listed(names)}`
  }
  return String(value)
}

/** A plain object's entries; null and nothing count as no arguments; a string that holds a JSON object is read once. */
function valuesOf(value: unknown): Values | null {
  if (value === null || value === undefined) return new Map()
  let object: unknown = value
  if (typeof value === 'string') {
    const read = /^[\s\ufeff]*[{`~]/.test(value) ? readJsonText(value) : null
    if (!read?.ok) return null
    object = read.value
  }
  if (!isObject(object)) return null
  return new Map(Object.entries(object))
}

/** {"args": {…}}, {"arguments": "{…}"}, {"name": "the tool", "arguments": {…}}: one level too low. */
function unwrap(outer: Values, schema: JsonSchema, toolName: string): Merged {
  const wrapper = [...WRAPPERS, toolName].filter(name => holds(outer.get(name)) && !declares(schema, name))
  const [name] = wrapper
  if (name === undefined || wrapper.length > 1) return { ok: true, values: outer }
  const inner = valuesOf(outer.get(name))
  if (inner === null) return { ok: true, values: outer }
  const around = new Map(outer)
  around.delete(name)
  if (around.get('name') === toolName && !declares(schema, 'name')) around.delete('name')
  return merge(around, inner)
}

/** {"code": {"code": …}}: an object in the place of a parameter that takes none, holding that parameter itself. */
function raise(values: Values, schema: JsonSchema): Merged {
  for (const [name, property] of propertiesOf(schema)) {
    const inner = values.get(name)
    if (!isObject(inner) || takes(property, 'object') || !Object.hasOwn(inner, name)) continue
    if (!Object.keys(inner).every(key => declares(schema, key))) continue
    const around = new Map(values)
    around.delete(name)
    return merge(around, new Map(Object.entries(inner)))
  }
  return { ok: true, values }
}

/** Two levels in one. A name that holds something else on each of them can't be understood without guessing. */
function merge(outer: Values, inner: Values): Merged {
  const values = new Map(outer)
  for (const [name, value] of inner) {
    const other = values.get(name)
    if (holds(other) && holds(value) && other !== value) {
      return { ok: false, problem: `${quote(name)} is given twice, on two levels, with different values` }
    }
    if (holds(value) || !values.has(name)) values.set(name, value)
  }
  return { ok: true, values }
}

function settle(given: Values, schema: JsonSchema, path: string): Shaped {
  const lowered = lower(given, schema)
  if (!lowered.ok) return lowered
  const values = lowered.values
  const unknown = [...values]
    .filter(([name, value]) => !declares(schema, name) && !isEmpty(value))
    .map(([name]) => name)
  if (unknown.length > 0) return { ok: false, problem: unknownProblem(unknown, values, schema, path) }
  const settled: [string, unknown][] = []
  for (const [name, property] of propertiesOf(schema)) {
    const value = values.get(name)
    if (isObject(property['properties']) && !(takes(property, 'null') && !holds(value))) {
      const inner = valuesOf(value)
      if (inner !== null) {
        const innerShape = settle(inner, property, `${path}${name}.`)
        if (!innerShape.ok) return innerShape
        settled.push([name, innerShape.value])
        continue
      }
    }
    const simple = settleSimple(value, property)
    if (simple !== undefined) settled.push([name, simple])
  }
  return { ok: true, value: Object.fromEntries(settled) }
}

/** A parameter one level too high goes into the one object parameter that declares it. */
function lower(given: Values, schema: JsonSchema): Merged {
  const values = new Map(given)
  const objects = propertiesOf(schema).filter(([, property]) => isObject(property['properties']))
  if (objects.length === 0) return { ok: true, values }
  for (const [name, value] of given) {
    if (declares(schema, name)) continue
    const homes = objects.filter(([, property]) => declares(property, name))
    const home = homes[0]?.[0]
    if (home === undefined || homes.length > 1) continue
    const inner = valuesOf(values.get(home))
    if (inner === null) continue
    const merged = merge(inner, new Map([[name, value]]))
    if (!merged.ok) return merged
    values.delete(name)
    values.set(home, Object.fromEntries(merged.values))
  }
  return { ok: true, values }
}

/** undefined: left out, and the schema is to complain. */
function settleSimple(value: unknown, property: JsonSchema): unknown {
  if (value === undefined) return takes(property, 'null') ? null : undefined
  if (typeof value !== 'string' || takes(property, 'string')) return value
  const text = value.trim()
  if (takes(property, 'null') && (text === '' || text === 'null')) return null
  if (takes(property, 'integer') && /^[+-]?\d{1,15}(?:\.0{0,15})?$/.test(text)) return Number(text)
  return value
}

function unknownProblem(unknown: readonly string[], values: Values, schema: JsonSchema, path: string): string {
  const declared = propertiesOf(schema).map(([name]) => name)
  const absent = declared.filter(name => !holds(values.get(name)) && !takes(propertyOf(schema, name), 'null'))
  const first = unknown[0] ?? ''
  const meant =
    declared.find(name => isNear(first.toLowerCase(), name.toLowerCase())) ??
    (unknown.length === 1 && absent.length === 1 ? absent[0] : undefined)
  const hint = meant === undefined ? '' : ` (did you mean ${quote(path + meant)}?)`
  const noun = unknown.length === 1 ? 'parameter' : 'parameters'
  const names = listed(unknown.map(name => path + name))
  return `unknown ${noun} ${names}${hint}; there ${declared.length === 1 ? 'is' : 'are'} only ${listed(declared)}`
}

function isNear(given: string, name: string): boolean {
  if (given.length < 3 || given.length > 40) return false
  return name.startsWith(given) || given.startsWith(name) || given.endsWith(name) || editDistance(given, name) <= 2
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMED_AT_MOST).map(name => quote(name, 40))
  const more = names.length - shown.length
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ')
}

function propertiesOf(schema: JsonSchema): [string, JsonSchema][] {
  const properties = schema['properties']
  return isObject(properties)
    ? Object.entries(properties).map(([name, value]) => [name, isObject(value) ? value : {}])
    : []
}

function propertyOf(schema: JsonSchema, name: string): JsonSchema {
  const properties = schema['properties']
  const property = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : null
  return isObject(property) ? property : {}
}

function declares(schema: JsonSchema, name: string): boolean {
  const properties = schema['properties']
  return isObject(properties) && Object.hasOwn(properties, name)
}

/** Whether a schema takes values of a type; `anyOf` counts where one of its branches does. */
function takes(schema: JsonSchema, type: string): boolean {
  const { type: own, anyOf } = schema as { type?: unknown; anyOf?: unknown }
  if (Array.isArray(anyOf)) return anyOf.some(branch => isObject(branch) && takes(branch, type))
  if (own === undefined) return true
  return Array.isArray(own) ? own.includes(type) : own === type
}

function holds(value: unknown): boolean {
  return value !== undefined && value !== null
}

function isEmpty(value: unknown): boolean {
  if (!holds(value) || value === '') return true
  if (Array.isArray(value)) return value.length === 0
  return isObject(value) && Object.keys(value).length === 0
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
