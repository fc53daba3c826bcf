import picomatch from 'picomatch'
import { pythonName } from './names.js'
import type { Consent, ToolEntry } from './tool-entry.js'

/** TOOLS_ALLOW, TOOLS_ASK and TOOLS_DENY: globs over category.tool. */
export interface ToolGlobs {
  /** null: all. An empty list: none. */
  readonly allow: readonly string[] | null
  readonly ask: readonly string[]
  readonly deny: readonly string[]
}

export interface ConsentRules {
  /** How the tool may be called: deny goes before ask, ask before allow, and none of them weakens what the source says. */
  consentOf(entry: Pick<ToolEntry, 'category' | 'name' | 'consent'>): Consent
  /** Whether any tool of a category may be called, whatever its tools are. */
  mayHave(category: string): boolean
  /** Globs that fit none of the tools, as sentences. `unknownCategories`: those that may have more tools than are known now. */
  unmatched(names: readonly (readonly [string, string])[], unknownCategories: readonly string[]): readonly string[]
}

export function consentRules(globs: ToolGlobs): ConsentRules {
  const allow = globs.allow?.map(matcherOf) ?? null
  const ask = globs.ask.map(matcherOf)
  const deny = globs.deny.map(matcherOf)
  const fits = (matchers: readonly Matcher[], names: readonly string[]) =>
    matchers.some(({ match }) => names.some(name => match(name)))

  return {
    consentOf: ({ category, name, consent }) => {
      const exact = `${category}.${name}`
      // What restricts also fits the names that code uses; what allows is taken at its word.
      const either = [exact, `${pythonName(category)}.${pythonName(name)}`]
      if (consent === 'deny' || fits(deny, either)) return 'deny'
      if (allow !== null && !fits(allow, [exact])) return 'deny'
      return fits(ask, either) ? 'ask' : consent
    },
    mayHave: category => {
      // A name that only a star fits.
      const any = [category, pythonName(category)].map(name => `${name}.\u0001`)
      return !fits(deny, any) && (allow === null || allow.some(({ ofCategory }) => ofCategory(category)))
    },
    unmatched: (names, unknownCategories) => {
      const exact = names.map(([category, name]) => `${category}.${name}`)
      const either = [...exact, ...names.map(([category, name]) => `${pythonName(category)}.${pythonName(name)}`)]
      const lists = [
        ['TOOLS_ALLOW', allow ?? [], exact],
        ['TOOLS_ASK', ask, either],
        ['TOOLS_DENY', deny, either],
      ] as const
      return lists.flatMap(([variable, matchers, all]) =>
        matchers
          .filter(({ match, ofCategory }) => !all.some(name => match(name)) && !unknownCategories.some(ofCategory))
          .map(({ glob }) => `${variable}: "${glob}" fits no tool`),
      )
    },
  }
}

interface Matcher {
  readonly glob: string
  match(name: string): boolean
  /** Whether it may fit tools of the category. */
  ofCategory(category: string): boolean
}

function matcherOf(glob: string): Matcher {
  // bash: one star matches slashes and dots too, for names are no paths.
  const options = { bash: true, dot: true }
  const match = picomatch(glob, options)
  const before = glob.includes('.') ? glob.slice(0, glob.indexOf('.')) : glob
  const first = picomatch(before === '' ? '*' : before, options)
  return {
    glob,
    match: name => match(name),
    ofCategory: category => first(category) || first(pythonName(category)),
  }
}
