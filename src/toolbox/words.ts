const LETTER = /[\p{L}\p{N}\p{M}_]/u
const WORD = /[\p{L}\p{N}\p{M}_]+/gu
const ONE_WORD = /^[\p{L}\p{N}\p{M}_]+$/u

export interface Words {
  /** Whether the name stands in the text: as a word, or, with other characters in it, between characters of no word. */
  has(name: string): boolean
  /** Those of the names, in one pass over the text for all of them: what it costs does not hang on how many there are. */
  among(names: Iterable<string>): ReadonlySet<string>
}

/** The words of a text as it is, and as Python takes names of different spelling for the same. */
export function wordsOf(code: string): Words {
  const normal = code.normalize('NFKC')
  const text = normal === code ? code : `${code}\n${normal}`
  const words = new Set(text.match(WORD))
  const found = new Map<string, boolean>()
  return {
    has(name) {
      const known = found.get(name)
      if (known !== undefined) return known
      const is = ONE_WORD.test(name) ? words.has(name) : isInside(text, name)
      found.set(name, is)
      return is
    },
    among(names) {
      const here = new Set<string>()
      const others: string[] = []
      for (const name of new Set(names)) {
        if (!ONE_WORD.test(name)) others.push(name)
        else if (words.has(name)) here.add(name)
      }
      for (const name of allInside(text, words, others)) here.add(name)
      return here
    },
  }
}

/** Those of the names with other characters than letters that `isInside` finds. */
function* allInside(text: string, words: ReadonlySet<string>, names: readonly string[]): Generator<string> {
  /** The longest word of a name → "where it stands in the name, length of the name" → names. */
  const byWord = new Map<string, Map<string, { at: number; length: number; names: Set<string> }>>()
  for (const name of names) {
    let longest: { readonly word: string; readonly at: number } | null = null
    let isPossible = true
    for (const { 0: word, index } of name.matchAll(WORD)) {
      if (longest === null || word.length > longest.word.length) longest = { word, at: index }
      if (!words.has(word)) isPossible = false
    }
    if (longest === null) {
      if (isInside(text, name)) yield name
      continue
    }
    if (!isPossible) continue
    const places = byWord.get(longest.word) ?? new Map()
    byWord.set(longest.word, places)
    const key = `${longest.at} ${name.length}`
    const place = places.get(key) ?? { at: longest.at, length: name.length, names: new Set() }
    places.set(key, place)
    place.names.add(name)
  }
  if (byWord.size === 0) return
  for (const { 0: word, index } of text.matchAll(WORD)) {
    for (const place of byWord.get(word)?.values() ?? []) {
      const start = index - place.at
      const name = text.slice(Math.max(0, start), start + place.length)
      // The name's other words may go on beyond it.
      if (place.names.has(name) && !goesOn(text, start, name)) yield name
    }
  }
}

function isInside(text: string, name: string): boolean {
  for (let at = text.indexOf(name); at !== -1 && name !== ''; at = text.indexOf(name, at + 1)) {
    if (!goesOn(text, at, name)) return true
  }
  return false
}

/** Whether a word at either end of the name is part of a longer one in the text. */
function goesOn(text: string, at: number, name: string): boolean {
  const before = isLetter(text[at - 1]) && isLetter(name[0])
  return before || (isLetter(text[at + name.length]) && isLetter(name.at(-1)))
}

function isLetter(char: string | undefined): boolean {
  return char !== undefined && LETTER.test(char)
}
