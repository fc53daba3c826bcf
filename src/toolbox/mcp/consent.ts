import picomatch from 'picomatch'
import { pythonName } from '../names.js'
import type { Consent } from '../tool-entry.js'
import type { ConsentGlobs } from './server-config.js'

/** What a server says of one of its tools; hints only, all of them optional. */
export interface Annotations {
  readonly readOnlyHint?: unknown
  readonly destructiveHint?: unknown
}

/**
 * How a server's tools may be called. What the configuration says goes before what the server says, and of the former the
 * stricter goes first: `deny`, or not in `allow`; then `ask`; then `free`.
 *
 * Then the annotations, with the defaults of the protocol (a tool that is not read-only is destructive unless it says
 * otherwise): ask for a tool that gives either hint and is destructive by them. A tool that gives neither is free: most
 * servers annotate nothing, and a person who is asked about everything approves everything. `"ask": ["*"]` is the other choice.
 *
 * What restricts also fits the name that code uses (get_sum of get-sum), which is the one that people see in listings; what
 * allows, and a glob that negates, is taken at its word.
 */
export function consentOf(globs: ConsentGlobs): (name: string, annotations: Annotations) => Consent {
  const allowed = globs.allow === null ? () => true : matching(globs.allow)
  const denied = matching(globs.deny, 'either name')
  const asks = matching(globs.ask, 'either name')
  const frees = matching(globs.free)
  return (name, annotations) => {
    if (denied(name) || !allowed(name)) return 'deny'
    if (asks(name)) return 'ask'
    if (frees(name)) return 'free'
    const { readOnlyHint, destructiveHint } = annotations
    if (typeof readOnlyHint !== 'boolean' && typeof destructiveHint !== 'boolean') return 'free'
    return readOnlyHint !== true && destructiveHint !== false ? 'ask' : 'free'
  }
}

/** The globs that fit none of a server's tools, so that a misspelt one is heard of: `deny: "x" fits no tool`. */
export function unmatchedGlobs(globs: ConsentGlobs, names: readonly string[]): readonly string[] {
  const lists = [
    ['allow', globs.allow ?? [], 'exact name'],
    ['deny', globs.deny, 'either name'],
    ['ask', globs.ask, 'either name'],
    ['free', globs.free, 'exact name'],
  ] as const
  return lists.flatMap(([list, patterns, which]) =>
    patterns
      .filter(pattern => !names.some(matching([pattern], which)))
      .map(pattern => {
        const exact = names.find(matching([pattern], 'either name'))
        return `${list}: "${pattern}" fits no tool${exact === undefined ? '' : `; the exact name is "${exact}"`}`
      }),
  )
}

type Which = 'exact name' | 'either name'

function matching(patterns: readonly string[], which: Which = 'exact name'): (name: string) => boolean {
  if (patterns.length === 0) return () => false
  // bash: one star matches slashes and dots too, for names are no paths.
  const options = { bash: true, dot: true }
  const exact = picomatch([...patterns], options)
  // What "all but read-x" leaves out has to stay out under its other name too.
  const positive = which === 'exact name' ? [] : patterns.filter(pattern => !pattern.includes('!'))
  const used = positive.length === 0 ? () => false : picomatch(positive, options)
  return name => exact(name) || used(pythonName(name))
}
