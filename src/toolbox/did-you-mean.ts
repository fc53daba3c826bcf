import { editDistance } from '../edit-distance.js'

/** Names are asked for by code, any number of times: what one look costs is bounded by their length. */
const CHARS = 40
const SHOWN = 15

/** The candidates that a misspelt name may stand for, nearest first, at most three. */
export function nearest(name: string, candidates: Iterable<string>): readonly string[] {
  const wanted = folded(name)
  const most = Math.max(1, Math.floor(wanted.length / 3))
  const near: { candidate: string; distance: number }[] = []
  const seen = new Set<string>()
  for (const candidate of candidates) {
    const other = folded(candidate)
    if (seen.has(other)) continue
    seen.add(other)
    const holds = wanted.length >= 3 && (other.includes(wanted) || (other.length >= 3 && wanted.includes(other)))
    if (!holds && lettersApart(wanted, other) > most) continue
    const distance = editDistance(wanted, other)
    if (distance <= most) near.push({ candidate, distance })
    else if (holds) near.push({ candidate, distance: most + 1 })
  }
  return near
    .sort((a, b) => a.distance - b.distance || (a.candidate < b.candidate ? -1 : 1))
    .slice(0, 3)
    .map(one => one.candidate)
}

/** What the edit distance is at least, at a small part of its cost. */
function lettersApart(a: string, b: string): number {
  const counts = new Map<string, number>()
  for (const char of a) counts.set(char, (counts.get(char) ?? 0) + 1)
  let extra = 0
  for (const char of b) {
    const left = counts.get(char) ?? 0
    if (left > 0) counts.set(char, left - 1)
    else extra++
  }
  return Math.max(extra, extra + a.length - b.length)
}

/** "did you mean a or b?", or what there is instead: "there are: a, b, c". */
export function instead(near: readonly string[], all: readonly string[], what: string): string {
  if (near.length > 0) return `did you mean ${near.join(' or ')}?`
  if (all.length === 0) return `there are no ${what}`
  const more = all.length > SHOWN ? ` and ${all.length - SHOWN} more` : ''
  return `there are: ${all.slice(0, SHOWN).join(', ')}${more}`
}

function folded(name: string): string {
  return name
    .slice(0, CHARS)
    .toLowerCase()
    .replace(/[-_ ]+/g, '_')
}
