import { afterAll } from 'vitest'
import { PHASES, type Phase } from './cell.js'

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
  /** Before its assertions: what fails them is counted too. */
  begin(faults?: number): void
  /** Its answer has come; `doubled`: its code ran twice, or two answers were given. */
  answered(found: { readonly runs: number; readonly contradictions: readonly string[] }): void
}

/** Counts over a test file, and prints one line when it is over. */
export function tallyOf(family: string): Tally {
  const counts = { calls: 0, faults: 0, answered: 0, doubled: 0 }
  afterAll(() => {
    const { calls, faults, answered, doubled } = counts
    const grid = FULL ? 'full grid' : 'sample'
    process.stdout.write(
      `faults: ${family} (${grid}): ${calls} calls, ${faults} faults, lost = ${calls - answered}, doubled = ${doubled}\n`,
    )
  })
  return {
    begin(faults = 1) {
      counts.calls += 1
      counts.faults += faults
    },
    answered({ runs, contradictions }) {
      counts.answered += 1
      if (runs > 1 || contradictions.length > 0) counts.doubled += 1
    },
  }
}
