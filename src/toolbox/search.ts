/** Finds tools by words. */

export interface Searchable {
  readonly name: string
  readonly category: string
  readonly summary: string
  readonly description: string
  readonly parameters: string
}

const WEIGHTS = { name: 8, category: 5, summary: 4, description: 2, parameters: 1 } as const
const WORDS_MOST = 12
const TEXT_CHARS_MOST = 4_096
const PREFIX = 0.6
const INSIDE = 0.4

/** An index of words: what one search costs hangs on how many places the words it finds are in, not on how much text there is. */
export class ToolIndex {
  /** Word → [number of the tool, weight of the best place it is in]. */
  readonly #words = new Map<string, Map<number, number>>()
  /** All words in order, so that those with one beginning stand together. */
  readonly #inOrder: readonly string[]
  /** Names as one word, for what is written together. */
  readonly #names: readonly string[]

  constructor(tools: readonly Searchable[]) {
    this.#names = tools.map(({ name }) => name.toLowerCase())
    const stems = new Map<string, string>()
    for (const [n, tool] of tools.entries()) {
      for (const [place, weight] of Object.entries(WEIGHTS)) {
        for (const word of wordsOf(tool[place as keyof typeof WEIGHTS].slice(0, TEXT_CHARS_MOST), stems)) {
          const found = this.#words.get(word) ?? new Map<number, number>()
          if ((found.get(n) ?? 0) < weight) found.set(n, weight)
          this.#words.set(word, found)
        }
      }
    }
    this.#inOrder = [...this.#words.keys()].sort()
  }

  /** Best first: places in the list of tools, and a score. Tools that have all of the words come before those that have some. */
  search(words: string, limit: number): readonly { readonly n: number; readonly score: number }[] {
    const wanted = [...wordsOf(words.slice(0, 1_000))].slice(0, WORDS_MOST)
    const total = new Map<number, { sum: number; matched: number }>()
    for (const word of wanted) {
      for (const [n, weight] of this.#matches(word)) {
        const { sum, matched } = total.get(n) ?? { sum: 0, matched: 0 }
        total.set(n, { sum: sum + weight, matched: matched + 1 })
      }
    }
    return [...total]
      .map(([n, { sum, matched }]) => ({ n, score: rounded(sum * (matched / wanted.length) ** 2) }))
      .sort((a, b) => b.score - a.score || a.n - b.n)
      .slice(0, Math.max(0, limit))
  }

  #matches(word: string): Map<number, number> {
    const best = new Map<number, number>()
    const add = (n: number, weight: number) => {
      if ((best.get(n) ?? 0) < weight) best.set(n, weight)
    }
    for (const [n, weight] of this.#words.get(word) ?? []) add(n, weight)
    if (word.length < 2) return best
    for (const other of this.#related(word)) {
      for (const [n, weight] of this.#words.get(other) ?? []) add(n, weight * PREFIX)
    }
    if (word.length > 2) {
      for (const [n, name] of this.#names.entries()) if (name.includes(word)) add(n, WEIGHTS.name * INSIDE)
    }
    return best
  }

  /** Words that begin with a word, and those of more than three letters that it begins with. */
  *#related(word: string): Generator<string> {
    let from = 0
    for (let to = this.#inOrder.length; from < to; ) {
      const middle = (from + to) >> 1
      if ((this.#inOrder[middle] ?? '') <= word) from = middle + 1
      else to = middle
    }
    for (let at = from; this.#inOrder[at]?.startsWith(word); at++) yield this.#inOrder[at] ?? ''
    for (let length = 4; length < word.length; length++) yield word.slice(0, length)
  }
}

/** In lower case and in the singular: listCalendars and list-calendars are list and calendar. */
function wordsOf(text: string, stems = new Map<string, string>()): ReadonlySet<string> {
  const apart = text
    .normalize('NFKC')
    .replace(/(\p{Ll}|\d)(\p{Lu})/gu, '$1 $2')
    .toLowerCase()
  const words = new Set<string>()
  for (const word of new Set(apart.match(/[\p{L}\p{N}]+/gu))) {
    const stem = stems.get(word) ?? singular(word)
    stems.set(word, stem)
    words.add(stem)
  }
  return words
}

function singular(word: string): string {
  if (word.length > 4 && word.endsWith('ies')) return `${word.slice(0, -3)}y`
  if (word.length > 4 && /(?:s|x|z|ch|sh)es$/.test(word)) return word.slice(0, -2)
  return word.length > 3 && /[^s]s$/.test(word) && !/[ui]s$/.test(word) ? word.slice(0, -1) : word
}

function rounded(score: number): number {
  return Math.round(score * 100) / 100
}
