import { setTimeout as sleep } from 'node:timers/promises'

/** What a worker holds after so many calls. */
export interface Sample {
  readonly calls: number
  readonly bytes: number
}

/** A leak of 50 KiB a call is over it; what is kept on purpose (a line for each answered call, the last answers) is far below. */
export const GROWTH_MOST_BYTES_A_CALL = 24 * 1024

/**
 * Bytes that each call adds: the median of what any two samples say of it (Theil and Sen), so that neither something that happens once, such
 * as code being compiled, nor one sample that is off makes a leak or hides one.
 */
export function growthPerCall(samples: readonly Sample[]): number {
  const slopes = samples.flatMap((from, index) =>
    samples.slice(index + 1).map(to => (to.bytes - from.bytes) / (to.calls - from.calls)),
  )
  if (slopes.length < 10) throw new Error('too few samples')
  const sorted = slopes.sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

/** Bytes that live in the heap and in buffers of a program with resources.mjs in it, all garbage collected. */
export async function heldBytes(program: { readonly pid: number; stderr(): string }): Promise<number> {
  const before = program.stderr().length
  process.kill(program.pid, 'SIGUSR2')
  for (;;) {
    const held = /^held (\d+)$/m.exec(program.stderr().slice(before))?.[1]
    if (held !== undefined) return Number(held)
    await sleep(10)
  }
}
