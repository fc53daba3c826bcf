import type { Logger } from 'pino'
import { type Admission, QueueFull } from './admission.js'
import { type AnsweringContext, deliverReply, postAnswer } from './answering.js'
import type { Delivery } from './backend/deliver.js'
import type { DeltaStream } from './backend/delta.js'
import type { ToolCall } from './backend/protocol.js'
import type { Config } from './config.js'
import { journalKey } from './journal/journal.js'
import type { Outcome } from './outcome.js'
import { Interruption, type Invocation, type Reply, type Tool } from './tool/tool.js'

/** A clock that runs this far behind the backend's is taken for a clock that is wrong; docs/protocol.md. */
const SKEW_MS = 60_000
/** Less than this is not worth starting; a call that waits for a slot is answered when no more is left. */
const LEAST_MS = 1_000
const NAME_SHOWN_CHARS = 100

export interface CallContext extends AnsweringContext {
  readonly config: Config
  readonly tools: ReadonlyMap<string, Tool>
  readonly admission: Admission
  openDelta(call: ToolCall): DeltaStream
  /** Outcomes of calls that no tool handled. */
  readonly outcomes: {
    rejected(message: string): Outcome
    busy(): Outcome
    notRun(status: 'cancelled' | 'interrupted', reason: string): Outcome
    broken(reason: string): Outcome
  }
  readonly log: Logger
  /** Milliseconds since the epoch: calls carry wall-clock time. */
  readonly wallClock?: () => number
}

/**
 * The way of one call, from its delivery to its accepted answer. `cancel` aborts it with a phrase for the model as its
 * reason, or with an Interruption. Resolves with false if this call has no answer that the backend has taken, else with true.
 *
 *     claim → arguments → confirmation → slot → sandbox → outcome → journal → post
 */
export async function handleCall(call: ToolCall, context: CallContext, cancel: AbortSignal): Promise<boolean> {
  // The name is the model's word: it may be of any length.
  const log = context.log.child({ fcall_id: call.fcall_id, tool: call.fcall_name.slice(0, NAME_SHOWN_CHARS) })
  const key = journalKey(call)
  const claim = context.journal.claim(key)
  if (claim.kind === 'known') {
    log.debug('call delivered again while it is known')
    return true
  }
  if (claim.kind === 'settled') {
    log.info('call delivered again after it was answered')
    return (await postAnswer(call, key, claim.answer, context, log)).delivered
  }
  const arrived = performance.now()
  const delta: { stream: DeltaStream | null } = { stream: null }
  const onText = (text: string) => {
    delta.stream ??= context.openDelta(call)
    delta.stream.push(text)
  }
  let reply: Reply
  try {
    reply = await replyTo(call, context, cancel, onText)
  } catch (error) {
    log.error({ err: error }, 'call failed inside the worker')
    reply = answerWith(context.outcomes.broken('the worker failed while it handled the call'))
  }
  // Courtesy ends before the truth is posted, and never holds it up for long.
  await delta.stream?.end()
  const unasked = (reason: string) => answerWith(context.outcomes.notRun('interrupted', reason))
  const delivery = await deliverReply(call, key, reply, unasked, context, log)
  logCall(log, call, reply, delivery, performance.now() - arrived, delta.stream)
  return delivery === null || delivery.delivered
}

/** What the tool says, or what is said in its place. */
async function replyTo(
  call: ToolCall,
  context: CallContext,
  cancel: AbortSignal,
  stream: (text: string) => void,
): Promise<Reply> {
  const tool = context.tools.get(call.fcall_name)
  if (tool === undefined) {
    const names = [...context.tools.keys()].join(', ')
    const message = `There is no tool ${JSON.stringify(call.fcall_name.slice(0, NAME_SHOWN_CHARS))} here. This worker has: ${names}.`
    return answerWith(context.outcomes.rejected(message))
  }
  const parsed = tool.parse(call.fcall_arguments)
  if (!parsed.ok) return answerWith(context.outcomes.rejected(parsed.message))
  const invocation = (queueMs: number): Invocation<unknown> => ({
    args: parsed.args,
    confirmedByHuman: call.confirmed_by_human,
    scenario: call.fcall_ft_btest_name,
    remainingMs: deadline - performance.now(),
    queueMs,
    signal: cancel,
    stream,
  })
  const deadline = performance.now() + timeLeftMs(call, context)
  const early = tool.before(invocation(0))
  if (early !== null) return early
  const waiting = waitingSignal(cancel, deadline - LEAST_MS - performance.now())
  try {
    return await context.admission.run(call.located_fgroup_id, waiting.signal, queueMs => {
      waiting.end()
      return tool.handle(invocation(Math.round(queueMs * 100) / 100))
    })
  } catch (error) {
    if (error instanceof QueueFull) return answerWith(context.outcomes.busy())
    if (error instanceof Interruption) return answerWith(context.outcomes.notRun('interrupted', error.message))
    if (cancel.aborted) return answerWith(context.outcomes.notRun('cancelled', String(cancel.reason)))
    throw error
  } finally {
    waiting.end()
  }
}

/** Aborts with `cancel`, or as an Interruption when too little is left before the deadline, until `end()`. */
function waitingSignal(cancel: AbortSignal, ms: number): { readonly signal: AbortSignal; end(): void } {
  const controller = new AbortController()
  const forward = () => controller.abort(cancel.reason)
  if (cancel.aborted) forward()
  cancel.addEventListener('abort', forward, { once: true })
  const expire = () =>
    controller.abort(
      new Interruption("its turn did not come in time, less than 1 s was left before the call's deadline"),
    )
  const timer = setTimeout(expire, Math.max(0, ms))
  return {
    signal: controller.signal,
    end() {
      clearTimeout(timer)
      cancel.removeEventListener('abort', forward)
    },
  }
}

/**
 * Milliseconds until the answer has to be there. The backend counts from the call's creation; after a person was asked it
 * delivers the call anew, and so counts anew, as a person may take hours.
 */
function timeLeftMs(call: ToolCall, { config, wallClock = Date.now }: CallContext): number {
  const ageMs = wallClock() - call.fcall_created_ts * 1000
  const believable = call.confirmed_by_human === null && ageMs > -SKEW_MS
  return config.callDeadlineMs - (believable ? Math.max(0, ageMs) : 0)
}

function answerWith(outcome: Outcome): Reply {
  return {
    kind: 'answer',
    content: outcome.content,
    provenance: outcome.provenance,
    dollars: outcome.dollars,
    outcome,
  }
}

/** The one wide event of a call. */
function logCall(
  log: Logger,
  call: ToolCall,
  reply: Reply,
  delivery: Delivery | null,
  totalMs: number,
  delta: DeltaStream | null,
): void {
  const outcome = reply.kind === 'answer' ? reply.outcome : null
  log.info(
    {
      reply: reply.kind,
      status: outcome?.status,
      exit_code: outcome?.exit_code,
      exit_signal: outcome?.signal,
      limit: outcome?.limit?.name,
      confirmed: call.confirmed_by_human,
      fgroup_id: call.located_fgroup_id,
      stdout_bytes: outcome?.stdout.bytes_total,
      stderr_bytes: outcome?.stderr.bytes_total,
      ...outcome?.usage,
      total_ms: Math.round(totalMs),
      dollars: outcome?.dollars,
      delivered: delivery === null ? undefined : delivery.delivered,
      post_attempts: delivery?.attempts,
      deltas: delta?.stats.messages,
      delta_bytes_dropped: delta?.stats.droppedBytes,
    },
    'call handled',
  )
}
