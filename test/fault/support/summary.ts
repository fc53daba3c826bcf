import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** What a test file of the fault suite has counted. */
export interface Counts {
  readonly cells: number
  readonly faults: number
  readonly calls: number
  readonly lost: number
  readonly doubled: number
}

/** Where test files, which are processes of their own, leave their counts, a line of JSON each. */
export const COUNTS_FILE = 'FAULT_COUNTS_FILE'

/** Around a whole run of vitest: adds up what its files have counted, and says so in one line. */
export function setup(): () => void {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'fault-counts-'))
  const file = path.join(folder, 'counts')
  process.env[COUNTS_FILE] = file
  return () => {
    const all = readLines(file).map(line => JSON.parse(line) as Counts)
    const sum = (name: keyof Counts) => all.reduce((total, counts) => total + counts[name], 0)
    if (all.length > 0) {
      process.stdout.write(
        `faults: all together: ${sum('cells')} cells, ${sum('faults')} faults, ${sum('calls')} calls, lost = ${sum('lost')}, doubled = ${sum('doubled')}\n`,
      )
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n')
  } catch {
    return [] // no test of faults ran
  }
}
