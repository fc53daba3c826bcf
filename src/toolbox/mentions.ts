import { pythonName } from './names.js'
import type { ToolEntry } from './tool-entry.js'
import { wordsOf } from './words.js'

/** What code says of tools by its plain text. Code that puts names together as it runs is met when it calls. */

/** hermes_tools has functions of these names; `search_files` is its other name for `search`. */
const OF_HERMES: ReadonlyMap<string, string> = new Map([
  ['web.web_search', 'web_search'],
  ['web.web_extract', 'web_extract'],
  ['files.read_file', 'read_file'],
  ['files.write_file', 'write_file'],
  ['files.search', 'search|search_files'],
  ['files.patch', 'patch'],
  ['shell.terminal', 'terminal'],
])

/**
 * The tools whose name is in the code as a word, in code or in a string, and whose category is too, or hermes_tools if it has the
 * tool. Rather one too many than one too few. `calledOf`: the names that code has to use, where they are others than the plain ones.
 */
export function mentionedTools(
  code: string,
  entries: readonly ToolEntry[],
  calledOf: (entry: ToolEntry) => { readonly category: string; readonly tool: string } | undefined = () => undefined,
): readonly ToolEntry[] {
  if (entries.length === 0) return []
  const words = wordsOf(code)
  const namesOf = new Map<ToolEntry, Names>()
  for (const entry of entries) namesOf.set(entry, namesOfEntry(entry, calledOf(entry)))
  const all = [...namesOf.values()]
  // Of other tools than those of categories that are named, nothing has to be looked for.
  const categories = words.among(all.flatMap(({ categories }) => categories))
  const isHermes = words.has('hermes_tools')
  const possible = all.filter(one => isHermes || one.categories.some(name => categories.has(name)))
  const tools = words.among(possible.flatMap(({ tools }) => tools))
  return entries.filter(entry => {
    const names = namesOf.get(entry)
    if (names === undefined) return false
    const ofHermes = isHermes ? OF_HERMES.get(`${entry.category}.${entry.name}`)?.split('|') : undefined
    if (ofHermes?.some(name => words.has(name))) return true
    return names.tools.some(name => tools.has(name)) && names.categories.some(name => categories.has(name))
  })
}

interface Names {
  readonly categories: readonly string[]
  readonly tools: readonly string[]
}

function namesOfEntry(
  { category, name }: ToolEntry,
  called: { readonly category: string; readonly tool: string } | undefined,
): Names {
  return {
    categories: [...new Set([category, pythonName(category), ...(called === undefined ? [] : [called.category])])],
    tools: [...new Set([name, pythonName(name), ...(called === undefined ? [] : [called.tool])])],
  }
}

/**
 * Whether code can come to the toolbox, as far as its text tells: it names `tools`, call_tool or hermes_tools, or calls `ls` or
 * `read` that are no methods. False only where none of it is there, so that no server has to be started for it.
 */
export function mayUseTools(code: string): boolean {
  const text = code.normalize('NFKC')
  return (
    /(?<![\p{L}\p{N}_])(?:tools|call_tool|hermes_tools|builtins|__builtins__)(?![\p{L}\p{N}_])/u.test(text) ||
    /(?<![\p{L}\p{N}_.])(?:ls|read)(?![\p{L}\p{N}_])/u.test(text)
  )
}
