import type { Logger } from 'pino'
import type { Concluded } from './answering.js'
import type { DeltaStream } from './backend/delta.js'
import { loggedId, type ToolCall } from './backend/protocol.js'
import type { Outcome } from './outcome.js'
import type { HandledCall, Refusal } from './telemetry/status.js'
import type { Reply } from './tool/tool.js'

/** A call that is over, as far as this life of the worker goes. */
export interface Ended {
  /** Null where no more of it is known than what its answer needs. */
  readonly call: Pick<ToolCall, 'located_fgroup_id' | 'confirmed_by_human'> | null
  /** Or the status of an answer that an earlier life of the worker has made. */
  readonly reply: ToldReply | { readonly kind: 'earlier'; readonly status: string }
  /** How long it waited for a slot, and why its code was not run; absent where neither is known. */
  readonly progress?: { readonly waitedMs: number | null; readonly refused: Refusal | null }
  readonly concluded: Concluded | null
  readonly totalMs: number
  readonly delta: DeltaStream | null
}

/** What is told of a reply when it is posted, which takes long where the backend is away: the reply itself can be large. */
export interface ToldReply {
  readonly kind: Reply['kind']
  readonly outcome:
    | (Pick<Outcome, 'status' | 'exit_code' | 'signal' | 'limit' | 'usage' | 'dollars'> & {
        readonly started: boolean
        readonly stdoutBytes: number
        readonly stderrBytes: number
        readonly toolCalls: number
      })
    | null
}

export function toldOf(reply: Reply): ToldReply {
  const { kind } = reply
  if ((kind !== 'answer' && kind !== 'confirm') || reply.outcome === null) return { kind, outcome: null }
  const { status, exit_code, signal, limit, usage, dollars, provenance, stdout, stderr, tool_calls } = reply.outcome
  const counts = {
    started: provenance['started'] === true,
    stdoutBytes: stdout.bytes_total,
    stderrBytes: stderr.bytes_total,
    toolCalls: tool_calls.length,
  }
  return { kind, outcome: { status, exit_code, signal, limit, usage, dollars, ...counts } }
}

export interface HandledContext {
  /** Told of each call that is over. Must not throw. */
  onHandled?(call: HandledCall): void
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
}

/** The one wide event of a call, and what the metrics are told of it. `log` has the call's id in its bindings. */
export function tellHandled(ended: Ended, context: HandledContext, log: Logger): void {
  const { call, reply, progress, concluded, totalMs, delta } = ended
  const outcome = reply.kind === 'earlier' ? null : reply.outcome
  log.info(
    {
      reply: reply.kind,
      status: reply.kind === 'earlier' ? reply.status : outcome?.status,
      exit_code: outcome?.exit_code,
      exit_signal: outcome?.signal,
      limit: outcome?.limit?.name,
      refused: progress?.refused ?? undefined,
      confirmed: call?.confirmed_by_human,
      fgroup_id: call === null ? undefined : loggedId(call.located_fgroup_id),
      stdout_bytes: outcome?.stdoutBytes,
      stderr_bytes: outcome?.stderrBytes,
      ...outcome?.usage,
      total_ms: Math.round(totalMs),
      dollars: outcome?.dollars,
      tool_calls: outcome?.toolCalls,
      delivered: concluded?.delivery.delivered,
      post_attempts: concluded?.delivery.attempts,
      deltas: delta?.stats.messages,
      delta_bytes_dropped: delta?.stats.droppedBytes,
    },
    'call handled',
  )
  context.onHandled?.(handled(ended, (context.wallClock ?? Date.now)()))
}

/** The statuses at which it was we who ended the code, where the limit does not say more. */
const ENDED_BY_US = new Set<string>(['timed_out', 'out_of_memory', 'limit_exceeded', 'cancelled'])

function handled({ reply, progress, concluded, totalMs, delta }: Ended, at: number): HandledCall {
  const outcome = reply.kind === 'answer' ? reply.outcome : null
  const ran = outcome?.started === true
  return {
    at,
    status: reply.kind === 'earlier' ? reply.status : (outcome?.status ?? reply.kind),
    killedFor:
      outcome !== null && ran && ENDED_BY_US.has(outcome.status) ? (outcome.limit?.name ?? outcome.status) : null,
    queueMs: progress?.waitedMs ?? null,
    refused: progress?.refused ?? null,
    startMs: ran ? (outcome?.usage.start_ms ?? null) : null,
    runMs: outcome?.usage.run_ms ?? 0,
    totalMs,
    delivered: concluded?.delivery.delivered ?? null,
    postAttempts: concluded?.delivery.attempts ?? 0,
    deltaBytesDropped: delta?.stats.droppedBytes ?? 0,
    dollars: outcome?.dollars ?? 0,
  }
}
