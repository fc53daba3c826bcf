import { randomUUID } from 'node:crypto'

/** JSON whose numbers stay as they are written where JavaScript's would become others. */

/** While `exactJson` writes: what the numbers are marked with, for there is no other way to tell JSON.stringify their digits. */
let writing: { readonly mark: string; isUsed: boolean } | null = null

/** A number beyond 2 ** 53: JavaScript would round it, or make null of it. */
export class ExactNumber {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** The nearest that JavaScript has, but for `exactJson`. */
  toJSON(): number | string {
    if (writing === null) return Number(this.text)
    writing.isUsed = true
    return `${writing.mark}${this.text}`
  }
}

/** As JSON.stringify, with each ExactNumber as it was written. */
export function exactJson(value: unknown): string {
  const marks = { mark: randomUUID(), isUsed: false }
  writing = marks
  try {
    const json = JSON.stringify(value)
    return marks.isUsed ? json.replaceAll(new RegExp(`"${marks.mark}([^"]+)"`, 'g'), '$1') : json
  } finally {
    writing = null
  }
}

const MAY_BE_LARGE = /\d{16}|\d[eE]\+?\d/
const TOKEN = /[-+.\w]+/g
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/
const END_OF_VALUE = /[ \t\r\n]*(?:[,\]}]|$)/y

/** As JSON.parse, with an ExactNumber for each number that is beyond JavaScript's integers. Errors: SyntaxError. */
export function parseExactly(text: string): unknown {
  if (!MAY_BE_LARGE.test(text)) return JSON.parse(text)
  // Made after the text, which can not have it.
  const mark = randomUUID()
  const marked = withMarks(text, mark)
  const value: unknown = JSON.parse(marked)
  return marked === text ? value : withExactNumbers(value, mark)
}

/** The text with large numbers as strings that begin with the mark. What is no JSON stays none. */
function withMarks(text: string, mark: string): string {
  const parts: string[] = []
  let taken = 0
  for (let at = 0; at < text.length; ) {
    const quote = text.indexOf('"', at)
    const end = quote === -1 ? text.length : quote
    const between = text.slice(at, end)
    if (MAY_BE_LARGE.test(between)) {
      const marked = between.replace(TOKEN, (token, offset: number) => {
        if (!NUMBER.test(token) || Math.abs(Number(token)) <= Number.MAX_SAFE_INTEGER) return token
        END_OF_VALUE.lastIndex = offset + token.length
        return END_OF_VALUE.test(between) ? `"${mark}${token}"` : token
      })
      parts.push(text.slice(taken, at), marked)
      taken = end
    }
    at = endOfString(text, end + 1)
  }
  return taken === 0 ? text : parts.join('') + text.slice(taken)
}

/** What follows the string that begins at `from`. */
function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0
    while (text[quote - 1 - backslashes] === '\\') backslashes++
    if (backslashes % 2 === 0) return quote + 1
  }
  return text.length
}

/** Not by recursion: it may nest deeper than the stack. */
function withExactNumbers(value: unknown, mark: string): unknown {
  const whole: { [key: string]: unknown } = { value }
  const left = [whole]
  for (let container = left.pop(); container !== undefined; container = left.pop()) {
    for (const key of Object.keys(container)) {
      const inner = container[key]
      if (typeof inner === 'string') {
        if (inner.startsWith(mark)) container[key] = new ExactNumber(inner.slice(mark.length))
      } else if (typeof inner === 'object' && inner !== null) left.push(inner as { [key: string]: unknown })
    }
  }
  return whole['value']
}
