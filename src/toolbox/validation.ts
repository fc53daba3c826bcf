import { Ajv, type ErrorObject, type FuncKeywordDefinition, type Options, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { TookTooLong, withinTime } from './time-bound.js'
import type { Json, ParameterSchema } from './tool-entry.js'

/** Checks arguments against the schemas that sources send, which may be of several drafts, wrong, or made to take long. */

const COMPILE_MOST_MS = 2_000
const CHECK_MOST_MS = 500
const SCHEMA_MOST_CHARS = 512 * 1024

export type Checker =
  /** null: they fit. `faults`: what the validator says, of which the last is the outermost. Throws TookTooLong. */
  | { readonly check: (args: { readonly [name: string]: Json }) => readonly ErrorObject[] | null }
  /** Nothing can be checked by this schema: why. */
  | { readonly unchecked: string }

const CHECKERS = new WeakMap<ParameterSchema, Checker>()

/** The checker of a schema; made at the first use. */
export function checkerOf(schema: ParameterSchema): Checker {
  const known = CHECKERS.get(schema)
  if (known !== undefined) return known
  const checker = made(schema)
  CHECKERS.set(schema, checker)
  return checker
}

const OPTIONS: Options = {
  strict: false,
  strictNumbers: true,
  verbose: true,
  ownProperties: true,
  // Formats are many, and no two libraries agree on them: that is the tool's to check.
  validateFormats: false,
  // What is wrong with a schema shows when it is compiled.
  validateSchema: false,
  meta: false,
  logger: false,
  code: { regExp: lenientRegExp },
}

/** Objects with the same members in another order pass: the tool can still say no. */
const UNIQUE_ITEMS: FuncKeywordDefinition = {
  keyword: 'uniqueItems',
  type: 'array',
  schemaType: 'boolean',
  error: { message: 'must NOT have duplicate items' },
  validate: (isWanted: boolean, items: readonly unknown[]) =>
    !isWanted || new Set(items.map(item => JSON.stringify(item))).size === items.length,
}

function made(schema: ParameterSchema): Checker {
  // Of its own draft and of no other: an unknown one has to be taken for one of the two.
  const { $schema: _draft, $async: _async, ...rest } = schema
  try {
    const text = JSON.stringify(rest)
    if (text.length > SCHEMA_MOST_CHARS) return { unchecked: 'its schema is too large' }
    const hasPatterns = text.includes('"pattern')
    const validate = withinTime(COMPILE_MOST_MS, () => {
      // One for each schema: the $id of one tool's schema is often that of another's.
      const ajv = isOfOldDraft(schema) ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS)
      // Its own compares each item with each other one.
      ajv.removeKeyword('uniqueItems').addKeyword(UNIQUE_ITEMS)
      return ajv.compile(rest)
    })
    return { check: args => checked(validate, args, hasPatterns) }
  } catch (error) {
    const why = error instanceof TookTooLong ? 'it takes too long to read' : String((error as Error)?.message ?? error)
    return { unchecked: `its schema can not be used: ${why.slice(0, 200).toWellFormed()}` }
  }
}

function checked(
  validate: ValidateFunction,
  args: { readonly [name: string]: Json },
  hasPatterns: boolean,
): readonly ErrorObject[] | null {
  const work = () => (validate(args) ? null : (validate.errors ?? []))
  const values = Object.values(args)
  // Nothing in a few values that nothing nests in takes time, but for patterns.
  const isQuick =
    !hasPatterns && values.length < 50 && values.every(value => value === null || typeof value !== 'object')
  return isQuick ? work() : withinTime(CHECK_MOST_MS, work)
}

/** Before 2020-12 a list in `items` is a tuple. */
function isOfOldDraft(schema: ParameterSchema): boolean {
  const draft = schema['$schema']
  if (typeof draft === 'string') return /draft-0[3-7]/.test(draft)
  return /"items":\[/.test(JSON.stringify(schema))
}

/** With the u flag as the specification wants it, else without: many patterns in use are only right without. */
function lenientRegExp(pattern: string, flags: string): RegExp {
  try {
    return new RegExp(pattern, flags)
  } catch {
    return new RegExp(pattern)
  }
}
lenientRegExp.code = 'lenientRegExp'
