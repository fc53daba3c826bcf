import type { ErrorObject } from 'ajv'
import { instead, nearest } from './did-you-mean.js'
import { describe, literal, oneLine } from './python-text.js'
import { isSchema, type Parameter, parametersOf } from './schema-shape.js'
import { type Called, noneIsAbsence, signatureOf } from './stubs.js'
import { TookTooLong } from './time-bound.js'
import type { Json, ToolEntry } from './tool-entry.js'
import { checkerOf } from './validation.js'

/** From what code passes to a tool to the tool's own arguments. */

export type Bound = { readonly args: { readonly [name: string]: Json } } | { readonly problem: string }

/**
 * Arguments by exact names. Positional ones are taken in the schema's order; a name may be exact or an alias, and exact ones go
 * first. None for a parameter that may be left out and takes no None is as good as not given. Nothing else is converted. A
 * problem is told in the words of Python, with the signature: whoever wrote the call can correct it.
 */
export function bindArguments(
  entry: ToolEntry,
  called: Called,
  positional: readonly Json[],
  named: { readonly [name: string]: Json },
): Bound {
  const problem = (what: string): Bound => ({
    problem: `tools.${called.category}.${called.tool}: ${what}. Signature: ${signatureOf(entry, called)}`,
  })
  const { list, open } = parametersOf(entry.parameters)
  const given = new Map<string, Json>()

  if (positional.length > list.length) {
    return problem(
      `it takes ${list.length} arguments, and ${positional.length} are given by position; give them by name`,
    )
  }
  for (const [n, value] of positional.entries()) {
    const one = list[n]
    if (one !== undefined) given.set(one.name, value)
  }
  for (const [name, value] of Object.entries(named)) {
    const one = parameterOf(list, name)
    if (one === undefined && !open) {
      const names = list.map(({ alias }) => alias)
      const known = names.length === 0 ? 'it takes none' : hint(nearest(name, both(list)), list, names)
      return problem(`there is no parameter ${quoted(name)}; ${known}`)
    }
    const exact = one?.name ?? name
    if (given.has(exact)) return problem(`${one?.alias ?? name} is given twice`)
    given.set(exact, value)
  }
  for (const one of list) {
    if (given.get(one.name) === null && noneIsAbsence(entry.parameters, one)) given.delete(one.name)
  }
  const missing = list.filter(one => one.required && !given.has(one.name)).map(({ alias }) => alias)
  const meant = isDictOfArguments(positional, named, list) ? DICT_OF_ARGUMENTS : ''
  if (missing.length > 0) return problem(`${missing.slice(0, 20).join(', ')} must be given${meant}`)

  // Not by assignment: a parameter may be called __proto__.
  const args: { readonly [name: string]: Json } = Object.fromEntries(given)
  const checker = checkerOf(entry.parameters)
  if ('unchecked' in checker) return { args }
  try {
    const faults = checker.check(args)
    return faults === null ? { args } : problem(`${mismatch(faults, list)}${meant}`)
  } catch (error) {
    if (error instanceof TookTooLong) return problem('its arguments take too long to check; give it less at once')
    if (error instanceof RangeError) return problem('its arguments nest too deep')
    throw error
  }
}

const DICT_OF_ARGUMENTS = '; one dict is given by position: give what is in it by name, as **{…}'

/** call_tool("web", "web_search", {"query": "x"}): what is there is right, and how it is given is not. */
function isDictOfArguments(positional: readonly Json[], named: object, list: readonly Parameter[]): boolean {
  const [only] = positional
  if (positional.length !== 1 || Object.keys(named).length > 0) return false
  if (typeof only !== 'object' || only === null || Array.isArray(only)) return false
  const keys = Object.keys(only)
  return keys.length > 0 && keys.length <= list.length && keys.every(key => parameterOf(list, key) !== undefined)
}

function parameterOf(list: readonly Parameter[], name: string): Parameter | undefined {
  return list.find(one => one.name === name) ?? list.find(one => one.alias === name)
}

function both(list: readonly Parameter[]): readonly string[] {
  return list.flatMap(({ name, alias }) => [name, alias])
}

function hint(near: readonly string[], list: readonly Parameter[], names: readonly string[]): string {
  const aliases = [...new Set(near.map(name => parameterOf(list, name)?.alias ?? name))]
  const all = instead([], names, 'parameters')
  return aliases.length > 0 ? `${instead(aliases, names, 'parameters')} ${all.replace('there', 'There')}` : all
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'float',
  boolean: 'bool',
  null: 'None',
  array: 'list',
  object: 'dict',
}

/** Of all that a validator says, what helps most. */
function mismatch(faults: readonly ErrorObject[], list: readonly Parameter[]): string {
  const last = faults.at(-1)
  if (last === undefined) return 'the arguments do not fit'
  if (!['anyOf', 'oneOf', 'if'].includes(last.keyword) || faults.length === 1) return sentence(last, list)
  // Of the alternatives, the one that went furthest is the one that was meant.
  const inner = faults.slice(0, -1).filter(({ keyword }) => !['anyOf', 'oneOf', 'if'].includes(keyword))
  const depth = Math.max(...inner.map(depthOf))
  const deepest = inner.filter(fault => depthOf(fault) === depth)
  const other = deepest.find(({ keyword }) => keyword !== 'type') ?? deepest[0]
  if (other === undefined) return sentence(last, list)
  const types = deepest.filter(({ keyword }) => keyword === 'type').flatMap(({ params }) => [params['type']].flat())
  if (other.keyword !== 'type') return sentence(other, list)
  return `${pathOf(other, list)} must be ${typeNames(types)}, not ${describe(other.data)}`
}

function depthOf(fault: ErrorObject): number {
  return fault.instancePath.split('/').length
}

function sentence(fault: ErrorObject, list: readonly Parameter[]): string {
  const path = pathOf(fault, list)
  const params = fault.params as Readonly<Record<string, unknown>>
  const value = describe(fault.data)
  switch (fault.keyword) {
    case 'type':
      return `${path} must be ${typeNames([params['type']].flat())}, not ${value}`
    case 'enum':
      return `${path} must be one of ${shown(params['allowedValues'])}, not ${value}`
    case 'const':
      return `${path} must be ${shown([params['allowedValue']])}, not ${value}`
    case 'required':
      return `${path} needs ${quoted(String(params['missingProperty']))}, and is ${value} without it`
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const key = String(params['additionalProperty'] ?? params['unevaluatedProperty'])
      const known = isSchema(fault.parentSchema?.['properties']) ? Object.keys(fault.parentSchema['properties']) : []
      return `${path} takes no key ${quoted(key)}; ${instead(nearest(key, known), known, 'keys')}`
    }
    case 'false schema':
      return `${path} must not be given`
    default:
      return `${path} ${oneLine(fault.message ?? 'does not fit', 300)}; it is ${value}`
  }
}

function shown(values: unknown): string {
  const all = Array.isArray(values) ? values : []
  const texts = all
    .slice(0, 20)
    .map(value => (typeof value === 'object' && value !== null ? JSON.stringify(value) : literal(value)))
  return oneLine(`${texts.join(', ')}${all.length > 20 ? ` and ${all.length - 20} more` : ''}`, 600)
}

function typeNames(types: readonly unknown[]): string {
  return [...new Set(types.map(type => TYPES[String(type)] ?? String(type)))].join(' or ')
}

/** As code writes it: options.filters[2].name */
function pathOf(fault: ErrorObject, list: readonly Parameter[]): string {
  const [first, ...rest] = fault.instancePath
    .split('/')
    .slice(1)
    .map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  if (first === undefined) return 'what it is called with'
  const steps = rest.map(step =>
    /^\d+$/.test(step) ? `[${step}]` : /^\w+$/.test(step) ? `.${step}` : `[${literal(step)}]`,
  )
  return oneLine(`${parameterOf(list, first)?.alias ?? first}${steps.join('')}`, 200)
}

function quoted(name: string): string {
  return literal(name.length > 100 ? `${name.slice(0, 100)}…` : name)
}
