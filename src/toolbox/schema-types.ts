import { aliasesOf } from './names.js'
import { isPlain, literal, oneLine } from './python-text.js'
import { isSchema, listOf, type ObjectShape, pointedTo, shapeOf } from './schema-shape.js'
import type { Json, ParameterSchema } from './tool-entry.js'

/** Python's types for JSON schemas. Bounded: what is larger or deeper than a reader follows becomes Any. */

const LEVELS_MOST = 7
const STEPS_MOST = 3_000
const CLASSES_MOST = 40
const SHAPES_MOST = 200
const MEMBERS_MOST = 100
const TYPE_CHARS_MOST = 2_000
const UNION_MOST = 8
const ENUM_MOST = 100
const DESCRIPTION_CHARS = 120

const SIMPLE: ReadonlyMap<unknown, string> = new Map([
  ['string', 'str'],
  ['integer', 'int'],
  ['number', 'float'],
  ['boolean', 'bool'],
  ['null', 'None'],
])

export interface TypeOptions {
  /** Whether objects get TypedDicts; else they are dicts. */
  readonly classes: boolean
  /** Results come out of JSON: a tuple in there is a list. */
  readonly tuples: boolean
}

/** Writes the types of one stub, and gathers the TypedDicts that they need. */
export class TypeWriter {
  readonly #options: TypeOptions
  /** Names that mean something else where the types are written. */
  readonly #taken: Set<string>
  readonly #names = new Map<object, string>()
  readonly #classes: string[] = []
  readonly #busy = new Set<object>()
  #steps = 0
  #shapes = 0

  constructor(options: TypeOptions, taken: readonly string[] = []) {
    this.#options = options
    this.#taken = new Set(['Any', 'Literal', 'NotRequired', 'TypedDict', ...taken])
  }

  /** Class definitions, each of several lines. */
  get classes(): readonly string[] {
    return this.#classes
  }

  /** The type of what a schema lets through. `hint`: words for the name of a class. */
  typeOf(root: ParameterSchema, schema: unknown, hint: string, level = 0): string {
    if (!isSchema(schema) || level > LEVELS_MOST || ++this.#steps > STEPS_MOST) return 'Any'
    const made = this.#names.get(schema)
    if (made !== undefined) return made
    if (this.#busy.has(schema)) return 'Any'
    this.#busy.add(schema)
    const type = this.#written(root, schema, hint, level)
    this.#busy.delete(schema)
    const whole = schema['nullable'] === true ? union([type, 'None']) : type
    return whole.length > TYPE_CHARS_MOST ? 'Any' : whole
  }

  #written(root: ParameterSchema, schema: ParameterSchema, hint: string, level: number): string {
    if (typeof schema['$ref'] === 'string') {
      const target = pointedTo(root, schema['$ref'])
      const name = /([^/]+)$/.exec(schema['$ref'])?.[1]
      return this.typeOf(root, target, name === undefined || name === '#' ? hint : name, level + 1)
    }
    if (schema['const'] !== undefined) return literals([schema['const']]) ?? base([schema['const']])
    if (Array.isArray(schema['enum']) && schema['enum'].length > 0)
      return literals(schema['enum']) ?? base(schema['enum'])
    for (const key of ['anyOf', 'oneOf']) {
      const branches = listOf(schema[key])
      // Branches that only say more of an object, such as which of its members go together.
      if (branches.length === 0 || schema['properties'] !== undefined) continue
      if (branches.length > UNION_MOST) return 'Any'
      const outer = schema['type']
      return union(
        branches.map((branch, n) => {
          const whole = isSchema(branch) && typeof outer === 'string' ? { type: outer, ...branch } : branch
          return this.typeOf(root, whole, branches.length > 1 ? `${hint} ${titleOf(branch) ?? n + 1}` : hint, level + 1)
        }),
      )
    }
    const parts = listOf(schema['allOf']).slice(0, UNION_MOST)
    if (parts.length > 0 && schema['properties'] === undefined) {
      const shape = this.#shapeOf(root, schema)
      if (shape !== null && shape.properties.size > 0) return this.#object(root, schema, shape, hint, level)
      const types = parts.map(part => this.typeOf(root, part, hint, level + 1))
      return types.find(type => type !== 'Any') ?? 'Any'
    }
    const types = Array.isArray(schema['type']) ? schema['type'] : [schema['type'] ?? implied(schema)]
    return union([...new Set(types)].slice(0, UNION_MOST).map(type => this.#ofType(root, schema, type, hint, level)))
  }

  #ofType(root: ParameterSchema, schema: ParameterSchema, type: unknown, hint: string, level: number): string {
    if (type === 'object') return this.#object(root, schema, this.#shapeOf(root, schema), hint, level)
    if (type === 'array') return this.#array(root, schema, hint, level)
    return SIMPLE.get(type) ?? 'Any'
  }

  #array(root: ParameterSchema, schema: ParameterSchema, hint: string, level: number): string {
    const first = Array.isArray(schema['prefixItems']) ? schema['prefixItems'] : listOf(schema['items'])
    const rest = Array.isArray(schema['prefixItems']) || Array.isArray(schema['items']) ? undefined : schema['items']
    if (first.length === 0)
      return rest === undefined ? 'list[Any]' : `list[${this.typeOf(root, rest, hint, level + 1)}]`
    const items = first.slice(0, UNION_MOST).map((item, n) => this.typeOf(root, item, `${hint} ${n + 1}`, level + 1))
    const after = Array.isArray(schema['prefixItems']) ? schema['items'] : schema['additionalItems']
    const closed = after === false || schema['maxItems'] === first.length
    if (!closed || first.length > UNION_MOST) return 'list[Any]'
    return this.#options.tuples ? `tuple[${items.join(', ')}]` : `list[${union(items)}]`
  }

  /** null where there is to be no class, so that it needs no looking at. */
  #shapeOf(root: ParameterSchema, schema: ParameterSchema): ObjectShape | null {
    if (!this.#options.classes || this.#names.size >= CLASSES_MOST || ++this.#shapes > SHAPES_MOST) return null
    return shapeOf(root, schema, MEMBERS_MOST + 1)
  }

  #object(
    root: ParameterSchema,
    schema: ParameterSchema,
    shape: ObjectShape | null,
    hint: string,
    level: number,
  ): string {
    const { properties, required } = shape ?? { properties: new Map(), required: new Set() }
    const hasMembers =
      properties.size > 0 || ['properties', 'allOf', 'anyOf', 'oneOf'].some(key => schema[key] !== undefined)
    if (properties.size === 0 || properties.size > MEMBERS_MOST) {
      const others = schema['additionalProperties']
      return hasMembers || !isSchema(others)
        ? 'dict[str, Any]'
        : `dict[str, ${this.typeOf(root, others, hint, level + 1)}]`
    }
    const name = this.#className(hint)
    this.#names.set(schema, name)
    const members = [...properties].map(([key, inner]) => {
      const type = this.typeOf(root, inner, `${hint} ${key}`, level + 1)
      return { key, type: required.has(key) ? type : `NotRequired[${type}]`, about: descriptionOf(root, inner) }
    })
    const { of } = aliasesOf(properties.keys(), 'parameters')
    if (members.every(({ key }) => of.get(key) === key)) {
      const lines = members.map(({ key, type, about }) => `    ${key}: ${type}${comment(about)}`)
      this.#classes.push([`class ${name}(TypedDict):`, ...lines].join('\n'))
    } else {
      // Keys that are no names of Python's.
      const lines = members.map(({ key, type, about }) => `    ${literal(key)}: ${literal(type)},${comment(about)}`)
      this.#classes.push([`${name} = TypedDict("${name}", {`, ...lines, '})'].join('\n'))
    }
    return name
  }

  #className(hint: string): string {
    const words = hint.match(/[A-Za-z0-9]+/g) ?? []
    const camel = words.map(word => word.charAt(0).toUpperCase() + word.slice(1)).join('')
    const plain = camel.length > 60 ? camel.slice(-60) : camel
    const start = /^[A-Za-z]/.test(plain) ? plain : `Object${plain}`
    let name = start
    for (let n = 2; this.#taken.has(name) || /^(None|True|False)$/.test(name); n++) name = `${start}${n}`
    this.#taken.add(name)
    return name
  }
}

function titleOf(schema: unknown): string | undefined {
  return isSchema(schema) && typeof schema['title'] === 'string' ? schema['title'].slice(0, 40) : undefined
}

/** A schema that names no type often shows it by what else it says. */
function implied(schema: ParameterSchema): string | undefined {
  if (isSchema(schema['properties']) || isSchema(schema['additionalProperties'])) return 'object'
  return schema['items'] !== undefined || schema['prefixItems'] !== undefined ? 'array' : undefined
}

/** null where not each of the values can be in a Literal. */
function literals(values: readonly unknown[]): string | null {
  const fit = values.every(
    value => value === null || typeof value === 'boolean' || typeof value === 'string' || Number.isInteger(value),
  )
  if (!fit || values.length > ENUM_MOST) return null
  const written = [...new Set(values.map(value => literal(value as Json)))]
  const text = written.join(', ')
  return text.length > TYPE_CHARS_MOST - 20 ? null : `Literal[${text}]`
}

/** The types of values, without the values. */
function base(values: readonly unknown[]): string {
  const types = values.map(value => {
    if (value === null) return 'None'
    if (Array.isArray(value)) return 'list[Any]'
    if (typeof value === 'object') return 'dict[str, Any]'
    return { string: 'str', boolean: 'bool' }[typeof value as string] ?? (Number.isInteger(value) ? 'int' : 'float')
  })
  return union(types)
}

/** Each once, None last; whatever is together with Any is Any. */
function union(types: readonly string[]): string {
  const all = [...new Set(types.flatMap(alternatives))]
  if (all.length === 0 || all.includes('Any')) return 'Any'
  return [...all.filter(type => type !== 'None'), ...all.filter(type => type === 'None')].join(' | ')
}

/** The types between the outermost bars. */
function alternatives(type: string): readonly string[] {
  const found: string[] = []
  let from = 0
  let depth = 0
  for (const { 0: piece, index } of type.matchAll(/"(?:[^"\\]|\\.)*"|[[\]]| \| /g)) {
    if (piece === '[') depth++
    else if (piece === ']') depth--
    else if (piece === ' | ' && depth === 0) {
      found.push(type.slice(from, index))
      from = index + piece.length
    }
  }
  return [...found, type.slice(from)]
}

/** Whether a type, as it is written here, lets None through. */
export function takesNone(type: string): boolean {
  return type === 'Any' || type === 'None' || type.endsWith(' | None') || /^Literal\[(.*, )?None[,\]]/.test(type)
}

/** What a schema says of itself, or the schema that it refers to. */
export function descriptionOf(root: ParameterSchema, schema: unknown): string {
  for (let part = schema, n = 0; isSchema(part) && n < 10; n++) {
    if (typeof part['description'] === 'string') return part['description']
    part = pointedTo(root, part['$ref'])
  }
  return ''
}

/** Values of an enum that are too many, or no literals of Python's. */
export function choicesOf(schema: unknown): string {
  if (!isSchema(schema) || !Array.isArray(schema['enum']) || literals(schema['enum']) !== null) return ''
  const shown = schema['enum'].filter(value => isPlain(value)).slice(0, 20)
  const more = schema['enum'].length - shown.length
  return oneLine(`one of ${shown.map(literal).join(', ')}${more > 0 ? ` and ${more} more` : ''}`, 1_000)
}

function comment(text: string): string {
  const line = oneLine(text, DESCRIPTION_CHARS)
  return line === '' ? '' : `  # ${line}`
}
