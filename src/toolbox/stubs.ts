import { cut, docstring, isPlain, literal, oneLine } from './python-text.js'
import { isSchema, type Parameter, parametersOf } from './schema-shape.js'
import { choicesOf, descriptionOf, type TypeOptions, TypeWriter, takesNone } from './schema-types.js'
import type { Json, ParameterSchema, ToolEntry } from './tool-entry.js'

/** Python stubs of tools: what a model reads before it calls one. */

const STUB_CHARS_MOST = 200_000
const SIGNATURE_CHARS_MOST = 600
const DESCRIPTION_CHARS = 16_384
const PARAMETER_CHARS = 1_000
const DEFAULT_CHARS = 200
const SUMMARY_CHARS = 160

/** Names that code calls a tool by. */
export interface Called {
  readonly category: string
  readonly tool: string
}

/** Why a tool's arguments are not checked before a call; null where they are. */
export type Unchecked = string | null

/** The file of a tool. The last `def` is the tool. */
export function stubOf(entry: ToolEntry, called: Called, unchecked: Unchecked): string {
  for (const options of [
    { classes: true, tuples: true, described: true },
    { classes: false, tuples: true, described: false },
  ]) {
    const stub = written(entry, called, unchecked, options)
    if (stub.length <= STUB_CHARS_MOST) return stub
  }
  const def = `def ${called.tool}(**kw: Any) -> Any:`
  const text = `${cut(entry.description, DESCRIPTION_CHARS)}\n\nIts parameters are too many to be listed.`
  return `from __future__ import annotations\n\nfrom typing import Any\n\n\n${def}\n    ${docstring(text, '    ')}\n    ...\n`
}

/** One line: tools.web.web_extract(urls: list[str], char_limit: int = 15000). Parameters are given by name or in the schema's order. */
export function signatureOf(entry: ToolEntry, called: Called): string {
  const types = new TypeWriter({ classes: false, tuples: true })
  const { list, open } = parametersOf(entry.parameters)
  const name = `tools.${called.category}.${called.tool}`
  const whole = [
    ...ordered(list).map(one => parameter(entry.parameters, one, types)),
    ...(open ? [`**${restOf(list)}`] : []),
  ]
  const text = `${name}(${whole.join(', ')})`
  if (text.length <= SIGNATURE_CHARS_MOST) return text
  const names = ordered(list).map(one => (one.required ? one.alias : `${one.alias}=…`))
  return oneLine(`${name}(${names.join(', ')}${open ? ', **…' : ''})`, SIGNATURE_CHARS_MOST)
}

/** The first line of what a source says of a tool. */
export function summaryOf(description: string, most = SUMMARY_CHARS): string {
  const first =
    description
      .slice(0, 4_096)
      .trimStart()
      .split(/[\r\n]/, 1)[0] ?? ''
  return oneLine(first, most)
}

/** Whether None, given for a parameter, says that it is not given: a stub has it as the default of those that have no other. */
export function noneIsAbsence(root: ParameterSchema, one: Parameter): boolean {
  if (one.required || defaultOf(one) !== undefined) return false
  return !takesNone(new TypeWriter({ classes: false, tuples: true }).typeOf(root, one.schema, ''))
}

function written(
  entry: ToolEntry,
  called: Called,
  unchecked: Unchecked,
  options: TypeOptions & { readonly described: boolean },
): string {
  const hint = called.tool.replace(/_+$/, '')
  const types = new TypeWriter(options, [called.tool])
  const { list, open } = parametersOf(entry.parameters)
  const all = ordered(list).map(one => parameter(entry.parameters, one, types, hint))
  const results = new TypeWriter({ ...options, tuples: false }, [called.tool, ...classNames(types)])
  const returns = entry.returns === undefined ? 'Any' : results.typeOf(entry.returns, entry.returns, `${hint} result`)

  const given = [...(all.length > 0 ? ['*', ...all] : []), ...(open ? [`**${restOf(list)}: Any`] : [])]
  const short = `def ${called.tool}(${given.join(', ')}) -> ${returns}:`
  const def =
    short.length <= 120 || given.length === 0
      ? short
      : `def ${called.tool}(\n    ${given.join(',\n    ')}${open ? '' : ','}\n) -> ${returns}:`
  const classes = [...types.classes, ...results.classes]
  const code = [...classes, def].join('\n')
  const imports = ['Any', 'Literal', 'NotRequired', 'TypedDict'].filter(name => new RegExp(`\\b${name}\\b`).test(code))
  const head = [
    // Types are read, not evaluated: some refer to themselves, and on 3.10 some have no name.
    'from __future__ import annotations',
    '',
    ...(imports.length > 0 ? [`from typing import ${imports.join(', ')}`, ''] : []),
  ]
  const body = [`    ${docstring(documentation(entry, called, list, unchecked, options.described), '    ')}`, '    ...']
  return [...head, ...classes.flatMap(one => ['', one, '']), '', def, ...body, ''].join('\n')
}

function classNames(types: TypeWriter): readonly string[] {
  return types.classes.map(one => /^(?:class )?(\w+)/.exec(one)?.[1] ?? '')
}

function documentation(
  entry: ToolEntry,
  called: Called,
  list: readonly Parameter[],
  unchecked: Unchecked,
  described: boolean,
): string {
  const text = cut(entry.description.trim(), DESCRIPTION_CHARS) || `The tool ${oneLine(entry.name, 200)}.`
  const notes: string[] = []
  if (entry.category !== called.category || entry.name !== called.tool) {
    notes.push(`By exact names: tools.call(${literal(entry.category)}, ${literal(entry.name)}, {…})`)
  }
  if (entry.consent === 'ask') notes.push('A person has to approve the code that calls it.')
  if (unchecked !== null) notes.push(`Its arguments are not checked before it is called: ${oneLine(unchecked, 200)}`)
  const lines = described ? ordered(list).map(one => `    ${one.alias}: ${about(entry.parameters, one)}`) : []
  return [text, ...(notes.length > 0 ? ['', ...notes] : []), ...(lines.length > 0 ? ['', 'Args:', ...lines] : [])].join(
    '\n',
  )
}

function about(root: ParameterSchema, one: Parameter): string {
  const said = cut(descriptionOf(root, one.schema).trim(), PARAMETER_CHARS).replace(/\s*[\r\n]+\s*/g, '\n        ')
  const value = defaultOf(one)
  const facts = [
    ...(one.alias === one.name ? [] : [`exact name ${literal(one.name)}`]),
    choicesOf(one.schema),
    limitsOf(one.schema),
    value !== undefined && !isShown(value) ? 'has a long default' : '',
  ].filter(fact => fact !== '')
  return [said, facts.length > 0 ? `(${facts.join('; ')})` : ''].filter(part => part !== '').join(' ') || '-'
}

const LIMITS: readonly (readonly [string, string])[] = [
  ['minimum', '≥'],
  ['exclusiveMinimum', '>'],
  ['maximum', '≤'],
  ['exclusiveMaximum', '<'],
  ['multipleOf', 'a multiple of'],
  ['minLength', 'characters ≥'],
  ['maxLength', 'characters ≤'],
  ['minItems', 'items ≥'],
  ['maxItems', 'items ≤'],
  ['format', 'format'],
  ['pattern', 'matches'],
]

function limitsOf(schema: unknown): string {
  if (!isSchema(schema)) return ''
  return LIMITS.flatMap(([key, words]) => {
    const value = schema[key]
    if (typeof value === 'number') return [`${words} ${literal(value)}`]
    return typeof value === 'string' ? [`${words} ${oneLine(value, 100)}`] : []
  }).join(', ')
}

/** Required ones first, each kind in the schema's order. */
function ordered(list: readonly Parameter[]): readonly Parameter[] {
  return [...list.filter(one => one.required), ...list.filter(one => !one.required)]
}

function parameter(root: ParameterSchema, one: Parameter, types: TypeWriter, hint = ''): string {
  const type = types.typeOf(root, one.schema, `${hint} ${one.alias}`)
  if (one.required) return `${one.alias}: ${type}`
  const value = defaultOf(one)
  if (value === undefined || value === null) return `${one.alias}: ${takesNone(type) ? type : `${type} | None`} = None`
  return `${one.alias}: ${type} = ${isShown(value) ? literal(value) : '...'}`
}

/** The name for all other parameters. */
function restOf(list: readonly Parameter[]): string {
  let name = 'kw'
  while (list.some(one => one.alias === name)) name = `other_${name}`
  return name
}

function defaultOf(one: Parameter): Json | undefined {
  const value = isSchema(one.schema) ? one.schema['default'] : undefined
  return value === undefined || !isPlain(value) ? undefined : value
}

function isShown(value: Json): boolean {
  return typeof value !== 'object' || value === null
    ? literal(value).length <= DEFAULT_CHARS
    : JSON.stringify(value).length <= DEFAULT_CHARS
}
