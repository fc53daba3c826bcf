import type { Outcome, Part, SandboxReport } from '../outcome.js'

/** Masks the secrets in a text. */
export type Mask = (text: string) => string

/** A report with its texts masked, before anything is cut from them or composed of them. */
export function maskedReport(report: SandboxReport, mask: Mask): SandboxReport {
  return {
    ...report,
    stdout: { ...report.stdout, text: mask(report.stdout.text) },
    stderr: { ...report.stderr, text: mask(report.stderr.text) },
    value: report.value === null ? null : mask(report.value),
    valueText: report.valueText === null ? null : mask(report.valueText),
    shown: {
      ...report.shown,
      parts: report.shown.parts.map(part => maskedPart(part, mask)),
      leftOut: report.shown.leftOut.map(({ name, reason }) => ({ name: mask(name), reason: mask(reason) })),
    },
    files: report.files.map(file => ({ ...file, path: mask(file.path) })),
    notes: report.notes.map(mask),
    reason: report.reason === null ? null : mask(report.reason),
  }
}

/** An outcome with all texts masked that are not ours: the second line, also for those of calls that never ran. */
export function maskedOutcome(outcome: Outcome, mask: Mask): Outcome {
  const { content, stdout, stderr, value, value_text, tool_calls, files, provenance } = outcome
  return {
    ...outcome,
    ...deep({ content, stdout, stderr, value, value_text, tool_calls, files, provenance }, mask),
    parts: outcome.parts?.map(part => maskedPart(part, mask)) ?? null,
  }
}

/** The base64 of an image has no secret in it, only what looks like one by chance, and would be none any more. */
function maskedPart(part: Part, mask: Mask): Part {
  return part.m_type === 'text' ? { ...part, m_content: mask(part.m_content) } : part
}

/** Values only: the names of fields are ours. */
function deep<T>(value: T, mask: Mask): T {
  if (typeof value === 'string') return mask(value) as T
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(one => deep(one as unknown, mask)) as T
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, deep(inner as unknown, mask)])) as T
}
