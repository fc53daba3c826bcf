/** "12 ms", "2.04 s". */
export function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`
}

/** "$0", "$0.000012": down to a millionth, without zeros at the end. */
export function dollars(amount: number): string {
  return amount === 0 ? '$0' : `$${amount.toFixed(6).replace(/\.?0+$/, '')}`
}
