import { editDistance } from '../edit-distance.js'
import type { Environment } from './report.js'

const OUR_PREFIXES = ['SANDBOX_', 'FLEXUS_']
/** Kubernetes sets these for each service of the namespace, so for one called "flexus-…" too: nobody misspelt them. */
const SERVICE_LINK = /_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$/
/** In a name shorter than this, two changed letters make any other word. */
const LONG_NAME_CHARS = 8

/**
 * A sentence for each variable that is set, is none of ours, and looks as if it was meant to be: it has one of our prefixes or
 * is one or two letters away from a known name. Names only: the value may be anybody's secret.
 */
export function misspeltVariables(env: Environment, known: readonly string[]): string[] {
  const sentences: string[] = []
  for (const name of Object.keys(env).sort()) {
    if (env[name] === undefined || known.includes(name) || SERVICE_LINK.test(name)) continue
    const prefixed = OUR_PREFIXES.some(prefix => name.startsWith(prefix))
    const near = nearest(name, known, prefixed)
    if (near !== null)
      sentences.push(`${name} is not a variable of this worker and has no effect; did you mean ${near}?`)
    else if (prefixed) sentences.push(`${name} is not a variable of this worker and has no effect`)
  }
  return sentences
}

function nearest(name: string, known: readonly string[], prefixed: boolean): string | null {
  let best: string | null = null
  let bestDistance = (name.length < LONG_NAME_CHARS ? 1 : prefixed ? 4 : 2) + 1
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= bestDistance) continue
    const distance = editDistance(name.toUpperCase(), candidate)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}
