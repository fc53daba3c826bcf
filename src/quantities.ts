/** Quantities as the model and people read them. */

/** 1500 → "1.5 s", 60000 → "60 s". */
export function seconds(ms: number): string {
  return `${trimmed(ms / 1000)} s`
}

/** Memory and disk limits, which are configured in MiB: 536870912 → "512 MiB". */
export function mebibytes(bytes: number): string {
  return `${trimmed(bytes / (1024 * 1024))} MiB`
}

/** Size of a file: 8 → "8 bytes", 12345 → "12 KB", 1250000 → "1.3 MB". */
export function fileSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} ${bytes === 1 ? 'byte' : 'bytes'}`
  for (const [unit, size] of [
    ['KB', 1e3],
    ['MB', 1e6],
  ] as const) {
    const count = bytes / size
    if (count < 999.5) return `${count < 9.95 ? trimmed(count) : Math.round(count)} ${unit}`
  }
  return `${trimmed(bytes / 1e9)} GB`
}

function trimmed(value: number): string {
  return String(Math.round(value * 10) / 10)
}
