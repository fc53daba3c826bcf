/** Names that Python code can write for what sources name as they like. */

const KEYWORDS = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if ' +
    'import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
)

/**
 * Letters that every Python from 3.10 on takes in a name, of the scripts that names are written in; the tables of node are newer
 * than Python's, so that \p{XID_Continue} alone would let through what Python calls a syntax error. All of them are BMP.
 */
const OTHER_LETTERS =
  /[\u00c0-\u024f\u0370-\u0481\u048a-\u0527\u05d0-\u05ea\u0620-\u064a\u0904-\u0939\u0e01-\u0e30\u3041-\u3096\u30a1-\u30fa\u4e00-\u9ffc\uac00-\ud7a3]/
const XID_CONTINUE = /\p{XID_Continue}/u

/**
 * What `tools` and its categories have besides tools and categories; attributes of these names are not looked up as tools.
 * python/toolbox/namespace.py is the other end.
 */
const OF_NAMESPACE = (
  'call call_tool ls read tree search aio query json_parse shell_quote retry ToolError UnknownTool ToolArgumentError ' +
  'ToolDenied ToolNeedsConfirmation ToolBudgetExceeded _catalog _made _make _members _own'
).split(' ')
const OF_CATEGORY = '_catalog _entry _made _make'.split(' ')

/** The valid Python name that is nearest to a text: list-calendars → list_calendars, class → class_, 2fa → _2fa. */
export function pythonName(text: string): string {
  const kept = /^\w*$/.test(text) ? text : spelled(text.normalize('NFKC'))
  // Dunder names are Python's own, and those that begin with two underscores are changed inside classes.
  const plain = /^__.*__$/.test(kept) ? kept.replace(/^_+|_+$/g, '') : kept.replace(/^__+/, '_')
  if (/^_*$/.test(plain)) return 'unnamed'
  if (/^\d/.test(plain)) return `_${plain}`
  return KEYWORDS.has(plain) ? `${plain}_` : plain
}

function spelled(text: string): string {
  return text.replace(/[^\w]/gu, char => (OTHER_LETTERS.test(char) && XID_CONTINUE.test(char) ? char : '_'))
}

export interface Aliases {
  /** Exact name → alias; each alias is there once, and no alias is another one's exact name. */
  readonly of: ReadonlyMap<string, string>
  /** Exact names whose plain alias was taken, as phrases: `"b-c" is called b_c_2, for b_c is "b c"`. */
  readonly collisions: readonly string[]
}

/** Aliases of the names of one place. The order in which the names come makes no difference. */
export function aliasesOf(names: Iterable<string>, place: 'categories' | 'tools' | 'parameters'): Aliases {
  const reserved = new Set(place === 'categories' ? OF_NAMESPACE : place === 'tools' ? OF_CATEGORY : [])
  const exact = [...new Set(names)].sort()
  const all = new Set(exact)
  const of = new Map<string, string>()
  const owners = new Map<string, string>()
  const collisions: string[] = []
  const give = (name: string, alias: string) => {
    of.set(name, alias)
    owners.set(alias, name)
  }

  const rest: string[] = []
  for (const name of exact) {
    if (pythonName(name) === name && !reserved.has(name)) give(name, name)
    else rest.push(name)
  }
  for (const name of rest) {
    const plain = pythonName(name)
    const wanted = reserved.has(plain) ? `${plain}_` : plain
    let alias = wanted
    // A name that is no alias itself, such as `class`, stays the exact name of what has it.
    for (let n = 2; owners.has(alias) || (all.has(alias) && alias !== name); n++) alias = `${wanted}_${n}`
    give(name, alias)
    if (alias !== wanted) {
      collisions.push(
        `"${oneLine(name)}" is called ${alias}, for ${wanted} is "${oneLine(owners.get(wanted) ?? wanted)}"`,
      )
    }
  }
  return { of, collisions }
}

function oneLine(name: string): string {
  return name
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .slice(0, 100)
    .toWellFormed()
}
