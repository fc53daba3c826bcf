import type { CapturedText, Outcome, Status, Usage } from '../outcome.js'
import { cutOff } from './end-lines.js'
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
}

/**
 * The outcome of a call that has no report of a run, and which therefore costs nothing. `content` is for the model and
 * must say what happened.
 */
export function outcomeWithoutRun(
  context: OutcomeContext,
  status: Status,
  content: string,
  { code, queueMs = 0, started = false }: Details = {},
): Outcome {
  const usage: Usage = { queue_ms: queueMs, start_ms: 0, run_ms: 0, cpu_ms: 0, max_rss_bytes: 0 }
  return {
    status,
    exit_code: null,
    signal: null,
    limit: null,
    content: content.trim() === '' ? `[${status}: not run]` : cleanText(content),
    parts: null,
    stdout: NOTHING,
    stderr: NOTHING,
    value: null,
    tool_calls: [],
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
      toolCalls: [],
    }),
    dollars: 0,
  }
}

/** Bad arguments, or a tool that does not exist: the message lets the model correct itself. */
export function rejected(context: OutcomeContext, message: string): Outcome {
  return outcomeWithoutRun(context, 'rejected', message)
}

/** A person said no. */
export function declined(context: OutcomeContext, details: Details = {}): Outcome {
  const content = '[declined, not run: a person decided against running this code. Do not send it again unasked.]'
  return outcomeWithoutRun(context, 'declined', content, details)
}

/** More calls wait than the queue takes. */
export function busy(context: OutcomeContext): Outcome {
  return outcomeWithoutRun(context, 'interrupted', '[busy, not run, safe to retry: too many calls are waiting]')
}

/** Kept from starting: by a drain, a deadline, a cancellation. `reason` is a phrase for the model. */
export function notRun(
  context: OutcomeContext,
  status: 'cancelled' | 'interrupted',
  reason: string,
  details: Details = {},
): Outcome {
  return outcomeWithoutRun(context, status, `[${cutOff(status, reason, false)}]`, details)
}

/** The worker itself failed. `started`: the code may have run in part, and nothing is known of it. */
export function broken(context: OutcomeContext, reason: string, started: boolean): Outcome {
  return outcomeWithoutRun(context, 'interrupted', `[${cutOff('interrupted', reason, started)}]`, { started })
}

/** The reply that posts an outcome; parts, where there are any, follow the text. */
export function answer(outcome: Outcome): Reply {
  const { content, parts, provenance, dollars } = outcome
  return {
    kind: 'answer',
    content: parts === null ? content : [{ m_type: 'text', m_content: content }, ...parts],
    provenance,
    dollars,
    outcome,
  }
}
