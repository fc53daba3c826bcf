import type { Outcome, SandboxReport } from '../outcome.js'

/** Masks the secrets in a text. */
export type Mask = (text: string) => string

/** A report with its texts masked, before anything is cut from them or composed of them. */
export function maskedReport(report: SandboxReport, mask: Mask): SandboxReport {
  return {
    ...report,
    stdout: { ...report.stdout, text: mask(report.stdout.text) },
    stderr: { ...report.stderr, text: mask(report.stderr.text) },
    value: report.value === null ? null : mask(report.value),
    files: report.files.map(file => ({ ...file, path: mask(file.path) })),
    notes: report.notes.map(mask),
    reason: report.reason === null ? null : mask(report.reason),
  }
}

/** An outcome with all texts masked that are not ours: the second line, also for those of calls that never ran. */
export function maskedOutcome(outcome: Outcome, mask: Mask): Outcome {
  const { content, parts, stdout, stderr, value, tool_calls, files, provenance } = outcome
  return { ...outcome, ...deep({ content, parts, stdout, stderr, value, tool_calls, files, provenance }, mask) }
}

/** Values only: the names of fields are ours. */
function deep<T>(value: T, mask: Mask): T {
  if (typeof value === 'string') return mask(value) as T
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(one => deep(one as unknown, mask)) as T
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, deep(inner as unknown, mask)])) as T
}
