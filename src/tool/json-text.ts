import { stripCodeFences } from './code-fences.js'
import { cleanText, quote } from './readable-text.js'

export type JsonRead = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly problem: string }

const QUOTE = 0x22
const BACKSLASH = 0x5c
const DEPTH_AT_MOST = 100
const NAMES_AT_MOST = 10_000

/**
 * Reads JSON text as models write it: a byte order mark, blanks and a ```json fence around it are no part of it, and raw
 * line feeds, carriage returns and tabs inside strings stand for themselves (JSON wants \n, \r, \t). Everything else
 * must be JSON by the standard. `problem` quotes the place; it is a phrase without a full stop.
 */
export function readJsonText(text: string): JsonRead {
  const body = stripCodeFences(text.trim()).trim()
  if (body === '') return { ok: false, problem: 'the arguments are empty' }
  const excess = excessOf(body)
  if (excess !== null) return { ok: false, problem: `the arguments have ${excess}` }
  const asIs = parse(body)
  if (asIs.ok) return asIs
  const repaired = escapeRawBreaks(body)
  // If it still fails, the complaint is about what remains once the raw breaks are understood.
  return repaired === body ? asIs : parse(repaired)
}

/** A megabyte of brackets or of names takes JSON.parse 0.1 s and more, and no tool has a use for it. */
function excessOf(text: string): string | null {
  let depth = 0
  let names = 0
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i)
    if (unit === QUOTE) i = endOfString(text, i)
    else if (unit === 0x5b || unit === 0x7b) depth += 1
    else if (unit === 0x5d || unit === 0x7d) depth -= 1
    else if (unit === 0x3a) names += 1
    if (depth > DEPTH_AT_MOST) return `more than ${DEPTH_AT_MOST} levels`
    if (names > NAMES_AT_MOST) return `more than ${NAMES_AT_MOST} names`
  }
  return null
}

/** Index of the quote that closes the string opened at `start`, or of the text's end. */
function endOfString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i += 1) {
    const unit = text.charCodeAt(i)
    if (unit === BACKSLASH) i += 1
    else if (unit === QUOTE) return i
  }
  return text.length
}

function parse(text: string): JsonRead {
  try {
    return { ok: true, value: JSON.parse(text) as unknown }
  } catch (error) {
    return { ok: false, problem: problemWith(text, error instanceof Error ? error.message : '') }
  }
}

function problemWith(text: string, complaint: string): string {
  if (complaint.includes('end of JSON input') || complaint.startsWith('Unterminated string')) {
    return `the arguments are not valid JSON: they end too early, at ${quote(text.slice(-30))}`
  }
  const found = /^(.{1,80}?)(?: in| after)? JSON at position (\d+)/s.exec(complaint)
  if (found === null) return `the arguments are not valid JSON: ${quote(text)}`
  const position = Number(found[2])
  const around = text.slice(Math.max(0, position - 15), position + 30)
  return `the arguments are not valid JSON: ${cleanText(found[1] ?? '')}, at ${quote(around)}`
}

/** Writes raw line feeds, carriage returns and tabs inside string literals as escapes; nothing else changes. */
function escapeRawBreaks(text: string): string {
  if (!/[\n\r\t]/.test(text)) return text
  const units = new Uint16Array(text.length * 2)
  let length = 0
  let inString = false
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i)
    const escaped = inString ? escapeOf(unit) : 0
    if (escaped !== 0) units[length++] = BACKSLASH
    units[length++] = escaped === 0 ? unit : escaped
    if (unit === QUOTE) inString = !inString
    // A raw break after a backslash stays as it is, and stays invalid: was it meant as \n or as a continued line?
    else if (inString && unit === BACKSLASH && i + 1 < text.length) units[length++] = text.charCodeAt(++i)
  }
  return length === text.length ? text : Buffer.from(units.buffer, 0, length * 2).toString('utf16le')
}

function escapeOf(unit: number): number {
  if (unit === 0x0a) return 0x6e
  if (unit === 0x0d) return 0x72
  return unit === 0x09 ? 0x74 : 0
}
