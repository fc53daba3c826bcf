import type { CapturedText, FileRecord, Outcome, SandboxReport, ToolCallRecord, Usage } from '../outcome.js'
import { dollarsOf } from './cost.js'
import { endLines } from './end-lines.js'
import { type OutcomeContext, provenanceOf } from './provenance.js'
import type { PythonArgs } from './python-arguments.js'
import { fileSize } from './quantities.js'
import { cleanText, showOnOneLine } from './readable-text.js'

export interface OutcomeInput extends OutcomeContext {
  readonly report: SandboxReport
  readonly args: PythonArgs
  /** The wall time that the run was given. */
  readonly wallMs: number
  /** Milliseconds the call waited for its slot. */
  readonly queueMs: number
  /** What the model must know besides the report, without brackets, such as a shortened time limit. */
  readonly notes: readonly string[]
  readonly toolCalls?: readonly ToolCallRecord[]
  /** What the tools that the code called have charged. */
  readonly toolDollars?: number
}

const FILES_LISTED = 20
const FILE_NAME_UNITS = 120

/** Makes the outcome of a run from what the sandbox reports. Every text in it is well-formed and without U+0000. */
export function makeOutcome(input: OutcomeInput): Outcome {
  const { report, args, wallMs, queueMs, toolCalls = [], toolDollars = 0 } = input
  const stdout = cleanCapture(report.stdout)
  const stderr = cleanCapture(report.stderr)
  const value = report.value === null ? null : cleanText(report.value)
  const usage: Usage = { queue_ms: queueMs, ...report.usage }
  const { status, started } = report
  return {
    status,
    exit_code: report.exitCode,
    signal: report.signal,
    limit: report.limit,
    content: contentOf(stdout.text, value, stderr.text, bracketedLines(input, toolCalls)),
    parts: null,
    stdout,
    stderr,
    value,
    tool_calls: toolCalls,
    files: report.files.map(file => ({ ...file, path: cleanText(file.path) })),
    usage,
    provenance: provenanceOf(input, {
      status,
      started,
      code: args.code,
      wallMs,
      usage,
      stdout,
      stderr,
      toolCalls,
    }),
    dollars: started ? dollarsOf({ usage, prices: input.config.prices, toolDollars }) : 0,
  }
}

/** stdout, the last expression's value, stderr under its heading, then what the model must know. Never empty. */
function contentOf(stdout: string, value: string | null, stderr: string, lines: readonly string[]): string {
  const hasText = [stdout, value ?? '', stderr].some(text => text.trim() !== '')
  const sections = [stdout, value ?? '', stderr.trim() === '' ? '' : `--- stderr ---\n${stderr}`]
  const bracketed = [...(hasText ? [] : ['no output']), ...lines].map(line => `[${line}]`)
  return [...(hasText ? sections : []), ...bracketed]
    .filter(section => section !== '')
    .reduce((content, section) => (content === '' || content.endsWith('\n') ? content : `${content}\n`) + section, '')
}

function bracketedLines(input: OutcomeInput, toolCalls: readonly ToolCallRecord[]): string[] {
  const { report, notes, wallMs } = input
  return [
    ...endLines(report, wallMs, toolCalls),
    ...cutNote('stdout', report.stdout),
    ...cutNote('stderr', report.stderr),
    ...[...notes, ...report.notes].map(note => showOnOneLine(note, 500)),
    ...fileLine(report.files),
  ]
}

function cutNote(name: string, { truncated, bytes_kept, bytes_total }: CapturedText): string[] {
  return truncated ? [`${name}: showing ${bytes_kept} of ${bytes_total} bytes`] : []
}

function fileLine(files: readonly FileRecord[]): string[] {
  if (files.length === 0) return []
  const listed = files
    .slice(0, FILES_LISTED)
    .map(file => `${showOnOneLine(file.path, FILE_NAME_UNITS)} (${fileSize(file.bytes)})`)
  const more = files.length - listed.length
  return [`files: ${listed.join(', ')}${more > 0 ? ` and ${more} more` : ''}`]
}

function cleanCapture(captured: CapturedText): CapturedText {
  return { ...captured, text: cleanText(captured.text) }
}
