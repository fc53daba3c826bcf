import type { Prices } from '../config.js'
import type { Usage } from '../outcome.js'

const GIB = 1024 ** 3

export interface CostInput {
  readonly usage: Pick<Usage, 'cpu_ms' | 'run_ms' | 'max_rss_bytes'>
  readonly prices: Prices
  /** What tools that the code called have charged. */
  readonly toolDollars: number
}

/**
 * Dollars for a call whose code has started: CPU-seconds of the tree, GiB-seconds (highest resident memory × run time),
 * the price of a call, and what tools charged; rounded to a millionth. A call that never ran costs nothing: its outcome
 * is made by outcome-without-run.ts.
 */
export function dollarsOf({ usage, prices, toolDollars }: CostInput): number {
  const cpuSeconds = usage.cpu_ms / 1000
  const gibSeconds = (usage.max_rss_bytes / GIB) * (usage.run_ms / 1000)
  const dollars =
    cpuSeconds * prices.cpuSecondDollars + gibSeconds * prices.gibSecondDollars + prices.callDollars + toolDollars
  return Math.round(dollars * 1e6) / 1e6
}
