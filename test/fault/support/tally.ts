import { appendFileSync } from 'node:fs'
import { afterAll } from 'vitest'
import { type Findings, PHASES, type Phase } from './cell.js'
import { COUNTS_FILE } from './summary.js'

/** With FAULT_GRID=full every phase meets every fault; else each of both is met once. */
export const FULL = process.env['FAULT_GRID'] === 'full'

export interface Cell<Fault> {
  readonly phase: Phase
  readonly fault: Fault
}

/** The cells to run, each with a title: all, or each fault at one phase, in turn through the phases and so through all of them. */
export function cellsOf<Fault extends { readonly name: string }>(
  faults: readonly Fault[],
  phases: readonly Phase[] = PHASES,
): [title: string, cell: Cell<Fault>][] {
  const cell = (fault: Fault, phase: Phase): [string, Cell<Fault>] => [`${fault.name}, ${phase}`, { fault, phase }]
  if (FULL) return faults.flatMap(fault => phases.map(phase => cell(fault, phase)))
  const count = Math.max(faults.length, phases.length)
  return Array.from({ length: count }, (_, n) => {
    const [fault, phase] = [faults[n % faults.length], phases[n % phases.length]]
    if (fault === undefined || phase === undefined) throw new Error('nothing to run')
    return cell(fault, phase)
  })
}

export interface Tally {
  /** Calls whose story is over, and how many faults they have met together. */
  count(faults: number, calls: readonly Findings[]): void
}

/** Counts over a test file, failed tests included, and prints one line when it is over. */
export function tallyOf(family: string): Tally {
  const counts = { cells: 0, faults: 0, calls: 0, lost: 0, doubled: 0 }
  afterAll(() => {
    const { cells, faults, calls, lost, doubled } = counts
    const grid = FULL ? 'full grid' : 'sample'
    process.stdout.write(
      `faults: ${family} (${grid}): ${cells} cells, ${faults} faults, ${calls} calls, lost = ${lost}, doubled = ${doubled}\n`,
    )
    const file = process.env[COUNTS_FILE]
    if (file !== undefined) appendFileSync(file, `${JSON.stringify(counts)}\n`)
  })
  return {
    count(faults, calls) {
      counts.cells += 1
      counts.faults += faults
      counts.calls += calls.length
      for (const { status, runs, contradictions } of calls) {
        if (status === null) counts.lost += 1
        if (runs > 1 || contradictions.length > 0) counts.doubled += 1
      }
    },
  }
}
