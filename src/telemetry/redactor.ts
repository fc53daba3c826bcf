/** What stands in the place of a secret. */
export const MASK = '[redacted]'
/** A shorter value is a word like any other: masked, it would garble what has nothing to do with it. */
const LEAST_CHARS = 12
/** Values that a secret had before it was renewed and that still count, for each name. */
const FORMER_VALUES = 8
/** Half a secret that is shorter tells nothing: where a text was cut by others, so much may be chance. */
const HALF_LEAST_BYTES = 4

/**
 * Places of one secret in one text. Who writes it more often does so to cost memory and time, for each of them takes many times its
 * letters: from there on nothing of the text is shown.
 */
const PLACES_MOST = 20_000

/** Where secrets stand: [start, end), ascending, none overlapping another. */
export type Spans = readonly (readonly [start: number, end: number])[]

/**
 * The secrets that the worker knows, masked by value wherever they occur: as they are, and as JSON writes them (also where it
 * escapes all that is not ASCII, as Python's does). Other forms (base64, percent encoding, reversed) are not looked for: who wants
 * to get a value past this can, it is there for what happens by accident.
 */
export class Redactor {
  readonly #named = new Map<string, string[]>()
  #matcher = new Matcher([])

  constructor(secrets: readonly string[] = []) {
    this.know('configured', ...secrets)
  }

  /**
   * Masks these from now on as well, beside the last few that came under the same name: all at once, they do not push one another out.
   * Values of less than 12 characters are passed over.
   */
  know(name: string, ...values: readonly string[]): void {
    const known = this.#named.get(name) ?? []
    const fresh = [...new Set(values)].filter(value => value.length >= LEAST_CHARS && !known.includes(value))
    if (fresh.length === 0) return
    this.#named.set(name, [...fresh, ...known].slice(0, Math.max(FORMER_VALUES, fresh.length)))
    this.#matcher = new Matcher([...this.#named.values()].flat())
  }

  /** Those that are known now: what is read in pieces is to be looked through with the same ones from beginning to end. */
  get matcher(): Matcher {
    return this.#matcher
  }

  mask(text: string): string {
    return this.#matcher.mask(text)
  }
}

/** A set of secrets that does not change. */
export class Matcher {
  readonly #forms: readonly { readonly text: string; readonly bytes: Buffer }[]

  constructor(secrets: readonly string[]) {
    const forms = [...new Set(secrets.flatMap(formsOf))]
    this.#forms = forms.map(text => ({ text, bytes: Buffer.from(text, 'utf8') }))
  }

  get isEmpty(): boolean {
    return this.#forms.length === 0
  }

  /** The text with each secret replaced; secrets that overlap become one mask. */
  mask(text: string): string {
    return replaced(text, this.spans(text))
  }

  spans(text: string): Spans {
    return merged(this.#forms.flatMap(form => found(form.text, text.length, from => text.indexOf(form.text, from))))
  }

  /** The same in UTF-8. */
  byteSpans(bytes: Buffer): Spans {
    return merged(this.#forms.flatMap(form => found(form.bytes, bytes.length, from => bytes.indexOf(form.bytes, from))))
  }

  /** Where the end of the text may be the beginning of a secret, of which the rest has not come; its length where it is none. */
  heldFrom(text: string): number {
    let from = text.length
    for (const form of this.#forms) {
      const initial = form.text.charAt(0)
      const first = Math.max(0, text.length - form.text.length + 1)
      for (let at = text.indexOf(initial, first); at !== -1 && at < from; at = text.indexOf(initial, at + 1)) {
        if (form.text.startsWith(text.slice(at))) from = at
      }
    }
    return from
  }

  /** How many bytes at the end may be the beginning of a secret that was cut off here. */
  cutOffBytes(bytes: Buffer): number {
    return Math.max(
      0,
      ...this.#forms.map(form =>
        overlap(form.bytes.length, bytes.length, n => endsWith(bytes, form.bytes.subarray(0, n))),
      ),
    )
  }

  /** How many bytes at the start may be the end of a secret whose beginning was cut off. */
  cutIntoBytes(bytes: Buffer): number {
    return Math.max(
      0,
      ...this.#forms.map(form =>
        overlap(form.bytes.length, bytes.length, n =>
          bytes.subarray(0, n).equals(form.bytes.subarray(form.bytes.length - n)),
        ),
      ),
    )
  }

  /** A piece of a text that somebody else has cut, masked: also what is left of a secret through which a cut goes. */
  maskPiece(text: string, cut: { readonly before: boolean; readonly after: boolean }): string {
    const bytes = Buffer.from(text, 'utf8')
    const end = cut.after ? chanceless(this.cutOffBytes(bytes)) : 0
    const start = cut.before ? Math.min(chanceless(this.cutIntoBytes(bytes)), bytes.length - end) : 0
    const rest = start + end === 0 ? text : bytes.subarray(start, bytes.length - end).toString('utf8')
    return (start > 0 ? MASK : '') + this.mask(rest) + (end > 0 ? MASK : '')
  }

  /** The bytes at the end that are masked where whoever wrote them was stopped meanwhile, see MaskedStream.end. */
  halfAtEnd(bytes: Buffer): number {
    return chanceless(this.cutOffBytes(bytes))
  }

  /** For a text that comes in pieces. */
  stream(): MaskedStream {
    return new MaskedStream(this)
  }
}

/**
 * Masks a text that comes in pieces: what comes out, joined together, is the whole text masked. Only what may be the beginning of a
 * secret waits for the next piece, or for the end: given out after some time it would be half a secret.
 */
export class MaskedStream {
  readonly #matcher: Matcher
  #held = ''
  /** Units at the beginning of `held` that the last mask that was given out stands for. */
  #covered = 0

  constructor(matcher: Matcher) {
    this.#matcher = matcher
  }

  /** What can be shown now. */
  push(piece: string): string {
    if (this.#matcher.isEmpty) return piece
    const text = this.#held + piece
    const spans = this.#spansOf(text)
    const from = this.#matcher.heldFrom(text)
    // A mask that is out already stands for the beginning of what waits, also where that has only grown.
    const isOut = (start: number) => start < from || (start === 0 && this.#covered > 0)
    const inside = spans.find(([start, end]) => isOut(start) && end > from)
    const shown = this.#show(text, spans, from)
    this.#held = text.slice(from)
    this.#covered = inside === undefined ? 0 : inside[1] - from
    return shown
  }

  /**
   * The rest, at the end of the text. isCutOff: whoever wrote it was stopped meanwhile, so that what waits, where it is more than a
   * few letters, is masked as half a secret.
   */
  end(isCutOff = false): string {
    const text = this.#held
    const isHalf = isCutOff && text.length >= HALF_LEAST_BYTES
    const shown = isHalf ? (this.#covered > 0 ? '' : MASK) : this.#show(text, this.#spansOf(text), text.length)
    this.#held = ''
    this.#covered = 0
    return shown
  }

  #spansOf(text: string): Spans {
    const spans = this.#matcher.spans(text)
    return this.#covered === 0 ? spans : merged([[0, this.#covered], ...spans])
  }

  /** The first `to` units. A mask that was given out before is not given out again. */
  #show(text: string, spans: Spans, to: number): string {
    const before = spans.filter(([start]) => start < to)
    const [first, ...others] = before
    if (this.#covered === 0 || first === undefined) return replaced(text.slice(0, to), before)
    const at = Math.min(first[1], to)
    return replaced(
      text.slice(at, to),
      others.map(([start, end]) => [start - at, end - at]),
    )
  }
}

/** A value as it may stand in a text. */
function formsOf(secret: string): string[] {
  const json = JSON.stringify(secret).slice(1, -1)
  const ascii = json.replace(/[\u007f-\uffff]/g, unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  return [secret, json, ascii]
}

function found(
  form: { readonly length: number },
  length: number,
  indexFrom: (from: number) => number,
): [number, number][] {
  const spans: [number, number][] = []
  for (let at = indexFrom(0); at !== -1; at = indexFrom(at + 1)) {
    if (spans.length === PLACES_MOST) {
      spans.push([at, length])
      break
    }
    spans.push([at, at + form.length])
  }
  return spans
}

/** Those that overlap become one; those that only touch stay two. */
function merged(spans: Spans): Spans {
  const result: [number, number][] = []
  for (const [start, end] of spans.toSorted((a, b) => a[0] - b[0])) {
    const last = result.at(-1)
    if (last !== undefined && start < last[1]) last[1] = Math.max(last[1], end)
    else result.push([start, end])
  }
  return result
}

function replaced(text: string, spans: Spans): string {
  let result = ''
  let at = 0
  for (const [start, end] of spans) {
    result += text.slice(at, start) + MASK
    at = end
  }
  return result + text.slice(at)
}

/** So few characters may be there by chance, and tell nothing. */
function chanceless(bytes: number): number {
  return bytes < HALF_LEAST_BYTES ? 0 : bytes
}

/** The largest number of bytes, less than a whole form, for which it holds; 0 where there is none. */
function overlap(formBytes: number, bytes: number, holds: (n: number) => boolean): number {
  for (let n = Math.min(formBytes - 1, bytes); n > 0; n--) if (holds(n)) return n
  return 0
}

function endsWith(bytes: Buffer, end: Buffer): boolean {
  return bytes.subarray(bytes.length - end.length).equals(end)
}
