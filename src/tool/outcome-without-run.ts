import type { CalledTools, CapturedText, Outcome, Status, ToolCallRecord, Usage } from '../outcome.js'
import { cutOff, madeCalls } from './end-lines.js'
import { maskedOutcome } from './masked.js'
import { type OutcomeContext, provenanceOf } from './provenance.js'
import { cleanText } from './readable-text.js'
import type { Reply } from './tool.js'

const NOTHING: CapturedText = { text: '', bytes_total: 0, bytes_kept: 0, truncated: false }

interface Details {
  /** The code that was to run, where the arguments yielded it. */
  readonly code?: string
  /** Milliseconds the call waited for a slot. */
  readonly queueMs?: number
  /** Code may have run of which nothing is known; default false. */
  readonly started?: boolean
  /** Tools that the code has called, as far as it is known. */
  readonly toolCalls?: readonly ToolCallRecord[]
}

/**
 * The outcome of a call that has no report of a run, and which therefore costs nothing but what tools have charged. `content` is for the model and
 * must say what happened.
 */
export function outcomeWithoutRun(
  context: OutcomeContext,
  status: Status,
  content: string,
  { code, queueMs = 0, started = false, toolCalls = [] }: Details = {},
): Outcome {
  const usage: Usage = { queue_ms: queueMs, start_ms: 0, run_ms: 0, cpu_ms: 0, max_rss_bytes: 0 }
  const outcome: Outcome = {
    status,
    exit_code: null,
    signal: null,
    limit: null,
    content: content.trim() === '' ? `[${status}: not run]` : cleanText(content),
    parts: null,
    stdout: NOTHING,
    stderr: NOTHING,
    value: null,
    value_text: null,
    tool_calls: toolCalls,
    files: [],
    usage,
    provenance: provenanceOf(context, {
      status,
      started,
      code: code ?? null,
      wallMs: null,
      usage,
      stdout: NOTHING,
      stderr: NOTHING,
      toolCalls,
    }),
    dollars: toolCalls.reduce((sum, call) => sum + call.dollars, 0),
  }
  return context.mask === undefined ? outcome : maskedOutcome(outcome, text => context.mask?.(text) ?? text)
}

/** Code that has called nothing. */
export const CALLED_NOTHING: CalledTools = { calls: [], isWhole: true }

export function hasCalled({ calls, isWhole }: CalledTools): boolean {
  return calls.length > 0 || !isWhole
}

/**
 * Cut off, or kept from starting. The one place that decides whether a call may be said not to have run: not where its code may have
 * run in part (`started`), and not where it has called tools before a person was asked.
 */
function ended(
  context: OutcomeContext,
  status: 'cancelled' | 'interrupted',
  reason: string | null,
  called: CalledTools,
  details: Details = {},
): Outcome {
  const started = details.started === true || hasCalled(called)
  const lines = [`[${cutOff(status, reason, started)}]`, ...calledLines(called)]
  return outcomeWithoutRun(context, status, lines.join('\n'), { ...details, started, toolCalls: called.calls })
}

/** What has happened outside of the sandbox can't be undone by running again: the model must know of it. */
function calledLines({ calls, isWhole }: CalledTools): string[] {
  const lines = isWhole ? madeCalls(calls) : [...madeCalls(calls), 'it called tools of which nothing is known any more']
  return lines.map(line => `[${line}]`)
}

/** Bad arguments, or a tool that does not exist: the message lets the model correct itself. */
export function rejected(context: OutcomeContext, message: string, called: CalledTools): Outcome {
  if (!hasCalled(called)) return outcomeWithoutRun(context, 'rejected', message)
  const lines = [message, `[${cutOff('interrupted', null, true)}]`, ...calledLines(called)]
  return outcomeWithoutRun(context, 'interrupted', lines.join('\n'), { started: true, toolCalls: called.calls })
}

/** A person said no. */
export function declined(context: OutcomeContext, called: CalledTools, details: Details = {}): Outcome {
  const started = hasCalled(called)
  const content = started
    ? '[declined: a person decided against letting this code go on; it had run in part before. Do not send it again unasked.]'
    : '[declined, not run: a person decided against running this code. Do not send it again unasked.]'
  const lines = [content, ...calledLines(called)]
  return outcomeWithoutRun(context, 'declined', lines.join('\n'), { ...details, started, toolCalls: called.calls })
}

/** More calls wait than the queue takes. */
export function busy(context: OutcomeContext, called: CalledTools): Outcome {
  if (hasCalled(called)) return ended(context, 'interrupted', 'too many calls are waiting', called)
  return outcomeWithoutRun(context, 'interrupted', '[busy, not run, safe to retry: too many calls are waiting]')
}

/** Kept from starting: by a drain, a deadline, a cancellation. `reason` is a phrase for the model. */
export function notRun(
  context: OutcomeContext,
  status: 'cancelled' | 'interrupted',
  reason: string,
  called: CalledTools,
  details: Details = {},
): Outcome {
  return ended(context, status, reason, called, details)
}

/**
 * The worker itself failed. `started`: the code may have run in part, and nothing is known of it but the tools that it has called:
 * what has happened outside of the sandbox can't be undone by running again.
 */
export function broken(context: OutcomeContext, reason: string, started: boolean, called: CalledTools): Outcome {
  return ended(context, 'interrupted', reason, called, { started })
}

/** Of code that has ended to have a person asked, who can't be: it keeps what it has printed, and can't go on. `reason` is a phrase for the model. */
export function stranded(outcome: Outcome, reason: string): Outcome {
  const lines = [
    `[${cutOff('interrupted', reason, true)}]`,
    ...calledLines({ calls: outcome.tool_calls, isWhole: true }),
  ]
  const content = [outcome.content.trimEnd(), ...lines].join('\n')
  return {
    ...outcome,
    status: 'interrupted',
    content,
    parts: outcome.parts === null ? null : [{ m_type: 'text', m_content: content }, ...outcome.parts.slice(1)],
    provenance: { ...outcome.provenance, status: 'interrupted' },
  }
}

/** The reply that posts an outcome: its parts where there are any, of which the first is its text. */
export function answer(outcome: Outcome): Reply {
  const { content, parts, provenance, dollars } = outcome
  return {
    kind: 'answer',
    content: parts ?? content,
    provenance,
    dollars,
    outcome,
  }
}
