import type { Json } from './tool-entry.js'

/** Text of Python's: literals, docstrings and comments that are valid whatever is put into them. */

/** Python's words for a JSON value's type and a short look at it: `str "abc"`, `list of 3`. */
export function describe(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value.length > 60 ? `str of ${value.length} characters` : `str ${literal(value)}`
    case 'boolean':
      return `bool ${literal(value)}`
    case 'number':
      return `${Number.isInteger(value) ? 'int' : 'float'} ${literal(value)}`
    default:
      if (value === null || value === undefined) return 'None'
      if (Array.isArray(value)) return `list of ${value.length}`
      return `dict of ${Object.keys(value).length}`
  }
}

/** A JSON value as Python writes it. Nested values must not nest deeper than the stack: see `isPlain`. */
export function literal(value: Json): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'number') return numberLiteral(value)
  if (typeof value === 'string') return stringLiteral(value)
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  const pairs = Object.entries(value).map(([key, inner]) => `${stringLiteral(key)}: ${literal(inner)}`)
  return `{${pairs.join(', ')}}`
}

/** Whether a value is JSON that nests at most `levels` deep. */
export function isPlain(value: unknown, levels = 6): value is Json {
  if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return true
  if (typeof value !== 'object' || levels === 0) return false
  return Object.values(value).every(inner => isPlain(inner, levels - 1))
}

function numberLiteral(value: number): string {
  if (Number.isNaN(value)) return 'float("nan")'
  if (!Number.isFinite(value)) return value > 0 ? 'float("inf")' : 'float("-inf")'
  // JSON doesn't tell 1e21 from a long integer, and JavaScript would write it with an exponent, as a float.
  return Number.isInteger(value) ? BigInt(value).toString() : String(value)
}

/** Characters that end a line, can't be in a source, or change how one looks to a reader. */
const AWKWARD = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\ufffe\uffff]/gu

function stringLiteral(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&').replace(AWKWARD, escaped)}"`
}

function escaped(char: string): string {
  const named = ({ '\n': '\\n', '\t': '\\t' } as Record<string, string>)[char]
  if (named !== undefined) return named
  const code = char.codePointAt(0) ?? 0
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`
}

/** A docstring, its quotes included, of which each line but the first begins with the indentation. */
export function docstring(text: string, indentation: string): string {
  const lines = text
    .replace(/\r\n?/g, '\n')
    .replaceAll('\\', '\\\\')
    .replace(AWKWARD, char => (char === '\n' || char === '\t' ? char : escaped(char)))
    .split('\n')
    .map(line => line.trimEnd())
  const body = lines.map((line, n) => (n === 0 || line === '' ? line : indentation + line)).join('\n')
  // Those in words stay as they are, to be read.
  const safe = body.replace(/"(?="|$)/g, '\\"')
  return lines.length > 1 ? `"""${safe}\n${indentation}"""` : `"""${safe}"""`
}

/** A text on one line, without control characters; longer ones are cut. */
export function oneLine(text: string, most: number): string {
  const head = text.slice(0, most * 4)
  const line = head.replace(AWKWARD, ' ').replace(/\s+/g, ' ').trim()
  return line.length > most
    ? `${line
        .slice(0, most - 1)
        .toWellFormed()
        .trimEnd()}…`
    : line
}

/** The first `most` characters of a text, with a note where it was cut. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text.toWellFormed()
  return `${text
    .slice(0, most)
    .replace(/[\ud800-\udbff]$/, '')
    .toWellFormed()} … (cut: ${text.length} characters)`
}
