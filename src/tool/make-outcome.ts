import type {
  CapturedText,
  FileRecord,
  Outcome,
  Part,
  SandboxReport,
  Status,
  ToolCallRecord,
  Usage,
} from '../outcome.js'
import { fileSize } from '../quantities.js'
import { dollarsOf } from './cost.js'
import { endLines, madeCalls } from './end-lines.js'
import { hints } from './hints.js'
import { maskedOutcome, maskedReport } from './masked.js'
import { type OutcomeContext, provenanceOf } from './provenance.js'
import type { PythonArgs } from './python-arguments.js'
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
  /** Tools that a person has to approve, where the code ended since it called them: named category.tool. */
  readonly blockedTools?: readonly string[]
}

const FILES_LISTED = 20
const FILE_NAME_UNITS = 120

/** Makes the outcome of a run from what the sandbox reports. Every text in it is well-formed, without U+0000, and masked. */
export function makeOutcome(input: OutcomeInput): Outcome {
  const { mask } = input
  if (mask === undefined) return composed(input)
  return maskedOutcome(composed({ ...input, report: maskedReport(input.report, mask) }), mask)
}

function composed(input: OutcomeInput): Outcome {
  const { report, args, wallMs, queueMs, toolCalls = [], toolDollars = 0, blockedTools = [] } = input
  const stdout = cleanCapture(report.stdout)
  const stderr = cleanCapture(report.stderr)
  const value = report.value === null ? null : cleanText(report.value)
  const value_text = report.valueText === null ? null : cleanText(report.valueText)
  const content = contentOf({ stdout, stderr, value, value_text }, bracketedLines(input, toolCalls), report.shown)
  const files = report.files.map(file => ({ ...file, path: cleanText(file.path) }))
  const usage: Usage = { queue_ms: queueMs, ...report.usage }
  const { started } = report
  const status: Status = blockedTools.length > 0 ? 'needs_confirmation' : report.status
  return {
    status,
    exit_code: report.exitCode,
    signal: report.signal,
    limit: report.limit,
    content,
    parts: partsOf(content, report.shown.parts),
    stdout,
    stderr,
    value,
    value_text,
    tool_calls: toolCalls,
    files,
    usage,
    provenance: {
      ...provenanceOf(input, {
        status,
        started,
        code: args.code,
        wallMs,
        usage,
        stdout,
        stderr,
        toolCalls,
      }),
      ...keptFiles(files),
    },
    dollars: started ? dollarsOf({ usage, prices: input.config.prices, toolDollars }) : 0,
  }
}

type Printed = Pick<Outcome, 'stdout' | 'stderr' | 'value' | 'value_text'>

/** What the code printed, then what the model must know. Never empty. */
function contentOf(printed: Printed, lines: readonly string[], { parts }: SandboxReport['shown']): string {
  const text = printedText(printed)
  return joined([
    text,
    ...[...(text === '' && parts.length === 0 ? ['no output'] : []), ...lines].map(line => `[${line}]`),
  ])
}

/** stdout, the last expression's value, stderr under its heading; "" where none of them shows anything. */
function printedText({ stdout, stderr, value, value_text }: Printed): string {
  const result = value_text ?? value ?? ''
  if (![stdout.text, result, stderr.text].some(text => text.trim() !== '')) return ''
  return joined([stdout.text, result, stderr.text.trim() === '' ? '' : `--- stderr ---\n${stderr.text}`])
}

/**
 * The lines of `content` that are ours: all that follows what the code printed, and so also where the code printed lines that
 * look the same.
 */
export function linesBelow(outcome: Printed & Pick<Outcome, 'content'>): string[] {
  const below = outcome.content.slice(printedText(outcome).length).replace(/^\n/, '')
  return below === '' ? [] : below.split('\n')
}

function joined(sections: readonly string[]): string {
  return sections
    .filter(section => section !== '')
    .reduce((content, section) => (content === '' || content.endsWith('\n') ? content : `${content}\n`) + section, '')
}

function bracketedLines(input: OutcomeInput, toolCalls: readonly ToolCallRecord[]): string[] {
  const { report, notes, wallMs, facts, blockedTools = [] } = input
  return [
    // Cancelled with a tool blocked, it was ended for that: the next line says so.
    ...(blockedTools.length > 0 && report.status === 'cancelled'
      ? madeCalls(toolCalls)
      : endLines(report, wallMs, toolCalls)),
    ...confirmationLine(blockedTools),
    ...hints(report, facts),
    ...cutNote('stdout', report.stdout),
    ...cutNote('stderr', report.stderr),
    ...[...notes, ...report.notes].map(note => withoutBrackets(showOnOneLine(note, 500))),
    ...shownLine(report.shown),
    ...fileLine(report.files),
    ...keptLine(report.files),
  ]
}

function confirmationLine(tools: readonly string[]): string[] {
  if (tools.length === 0) return []
  const names = tools.map(name => showOnOneLine(name, 100)).join(', ')
  const how = 'call it by its plain name in the code, so that it is in the request for approval'
  return [`needs confirmation: ${names} may only be called when a person has approved it; ${how}`]
}

function cutNote(name: string, { truncated, bytes_kept, bytes_total }: CapturedText): string[] {
  return truncated ? [`${name}: showing ${bytes_kept} of ${bytes_total} bytes`] : []
}

function fileLine(files: readonly FileRecord[]): string[] {
  if (files.length === 0) return []
  const listed = files
    .slice(0, FILES_LISTED)
    .map(file => `${withoutBrackets(showOnOneLine(file.path, FILE_NAME_UNITS))} (${fileSize(file.bytes)})`)
  const more = files.length - listed.length
  return [`files: ${listed.join(', ')}${more > 0 ? ` and ${more} more` : ''}`]
}

/** For the provenance: where the files are that later calls find. */
function keptFiles(files: readonly FileRecord[]): { files?: readonly FileRecord[] } {
  const kept = files.filter(file => file.kept !== undefined)
  return kept.length === 0 ? {} : { files: kept }
}

/** Which of them later calls find again: of all that are listed, or named where it is some. */
function keptLine(files: readonly FileRecord[]): string[] {
  const kept = files.filter(file => file.kept !== undefined)
  if (kept.length === 0) return []
  if (kept.length === files.length)
    return ['kept: later calls of this chat find these files again in their working directory']
  const names = kept.slice(0, FILES_LISTED).map(file => withoutBrackets(showOnOneLine(file.path, FILE_NAME_UNITS)))
  const more = kept.length - names.length
  return [`kept for later calls of this chat: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`]
}

/** The text that `content` is, then what was shown; null where nothing was. */
function partsOf(content: string, shown: readonly Part[]): Part[] | null {
  if (shown.length === 0) return null
  const parts = shown.map(part => (part.m_type === 'text' ? { ...part, m_content: cleanText(part.m_content) } : part))
  return [{ m_type: 'text', m_content: content }, ...parts]
}

/** "shown below: 2 images, 1 text; left out: figure 9, figure 10 beyond the 8 images that are shown" */
function shownLine({ parts, images, leftOut }: SandboxReport['shown']): string[] {
  const texts = parts.length - images
  const counts = [...(images > 0 ? [counted(images, 'image')] : []), ...(texts > 0 ? [counted(texts, 'text')] : [])]
  const namesOf = new Map<string, string[]>()
  for (const { name, reason } of leftOut) namesOf.set(reason, [...(namesOf.get(reason) ?? []), name])
  const refusals = [...namesOf].map(([reason, names]) => {
    const shown = names.slice(0, 3).map(name => withoutBrackets(showOnOneLine(name, FILE_NAME_UNITS)))
    const more = names.length > shown.length ? ` and ${names.length - shown.length} more` : ''
    return `${shown.join(', ')}${more} ${withoutBrackets(showOnOneLine(reason, 300))}`
  })
  const halves = [
    ...(counts.length > 0 ? [`shown below: ${counts.join(', ')}`] : []),
    ...(refusals.length > 0 ? [`left out: ${refusals.join('; ')}`] : []),
  ]
  return halves.length === 0 ? [] : [halves.join('; ')]
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

/** A name could else close the line and open one that looks like ours. Shown as other characters are that mislead. */
function withoutBrackets(name: string): string {
  return name.replaceAll('[', '\\u{5b}').replaceAll(']', '\\u{5d}')
}

function cleanCapture(captured: CapturedText): CapturedText {
  return { ...captured, text: cleanText(captured.text) }
}
