import { Ajv, type ErrorObject } from 'ajv'
import { describeValue, shapeArguments } from './argument-shape.js'
import { readJsonText } from './json-text.js'
import type { JsonSchema } from './tool.js'

export type Parsed<Args> = { readonly ok: true; readonly args: Args } | { readonly ok: false; readonly message: string }

export interface ArgumentRules {
  readonly toolName: string
  /** A strict schema; `Args` of the parser is the type of what it lets through. */
  readonly parameters: JsonSchema
  /** A right call's arguments, as JSON text: shown in every message. */
  readonly example: string
  readonly maxBytes: number
}

/**
 * Makes the parser of one tool's arguments: JSON text written by a model, possibly garbage, to arguments that the schema
 * has accepted, or a message that lets the model correct itself. Never throws. What is forgiven on the way is in
 * json-text.ts and argument-shape.ts. The time is linear in the size, which is checked before anything else.
 */
export function argumentParser<Args>(rules: ArgumentRules): (text: string) => Parsed<Args> {
  const fits = new Ajv({ strict: false, strictNumbers: true, verbose: true }).compile<Args>(rules.parameters)
  const refuse = (problem: string): Parsed<Args> => ({ ok: false, message: refusal(rules, problem) })

  return text => {
    const bytes = Buffer.byteLength(text, 'utf8')
    if (bytes > rules.maxBytes) {
      return refuse(`the arguments are too large: ${bytes} bytes, and at most ${rules.maxBytes} bytes are accepted`)
    }
    const read = text.trim() === '' ? ({ ok: true, value: null } as const) : readJsonText(text)
    if (!read.ok) return refuse(read.problem)
    const shaped = shapeArguments(read.value, rules.parameters, rules.toolName)
    if (!shaped.ok) return refuse(shaped.problem)
    if (fits(shaped.value)) return { ok: true, args: shaped.value }
    return refuse(fits.errors?.[0] === undefined ? 'the arguments do not fit the schema' : mismatch(fits.errors[0]))
  }
}

/** The message to a model whose call was refused: what was wrong, that nothing ran, and what a right call looks like. */
export function refusal(rules: Pick<ArgumentRules, 'toolName' | 'example'>, problem: string): string {
  return `${rules.toolName} did not run: ${problem}. Call it with a JSON object such as ${rules.example}`
}

function mismatch(error: ErrorObject): string {
  const path = error.instancePath.slice(1).replaceAll('/', '.')
  const params = error.params as Readonly<Record<string, unknown>>
  if (error.keyword === 'required') {
    const name = String(params['missingProperty'])
    return `the parameter "${path === '' ? name : `${path}.${name}`}" is missing`
  }
  const what = path === '' ? 'the arguments' : `"${path}"`
  if (error.keyword === 'type') {
    const types = [params['type']].flat().map(type => TYPE_NAMES.get(String(type)) ?? String(type))
    return `${what} must be ${types.join(' or ')}, not ${describeValue(error.data)}`
  }
  return `${what} ${error.message ?? 'does not fit the schema'}, and it is ${describeValue(error.data)}`
}

const TYPE_NAMES = new Map([
  ['string', 'a string'],
  ['integer', 'a whole number'],
  ['number', 'a number'],
  ['boolean', 'true or false'],
  ['array', 'a list'],
  ['object', 'an object'],
])
