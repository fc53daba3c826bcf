import { ExactNumber } from '../../exact-json.js'

/**
 * Whether lists and objects lie in each other deeper than `levels`. JSON of a few hundred kilobytes can nest so deep that
 * whoever walks it by recursion, JSON.stringify and Python's json among them, fails; this one does not recurse.
 */
export function nestsDeeperThan(levels: number, value: unknown): boolean {
  let layer = [value].filter(isContainer)
  for (let level = 1; layer.length > 0; level++) {
    if (level > levels) return true
    const next: object[] = []
    for (const container of layer) {
      for (const inner of Object.values(container)) if (isContainer(inner)) next.push(inner)
    }
    layer = next
  }
  return false
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !(value instanceof ExactNumber)
}
