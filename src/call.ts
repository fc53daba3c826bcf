import type { Logger } from 'pino'
import { type Admission, QueueFull } from './admission.js'
import { type Delivery, deliverWithRetry } from './backend/deliver.js'
import type { DeltaStream } from './backend/delta.js'
import type { BackendApi } from './backend/http.js'
import type { ToolCall } from './backend/protocol.js'
import type { Config } from './config.js'
import { type Journal, journalKey, type StoredAnswer } from './journal/journal.js'
import type { Outcome } from './outcome.js'
import type { Invocation, Reply, Tool } from './tool/tool.js'
import { wireContent } from './tool/wire-content.js'

/** A clock that runs this far behind the backend's is taken for a clock that is wrong; docs/protocol.md. */
const SKEW_MS = 60_000
/** The backend gives a call up after about 10 minutes; a confirmation request or an answer is worth nothing after that. */
const GIVE_UP_MS = 600_000

export interface CallContext {
  readonly config: Config
  readonly tools: ReadonlyMap<string, Tool>
  readonly journal: Journal
  readonly admission: Admission
  readonly api: Pick<BackendApi, 'postResult' | 'requestConfirmation'>
  openDelta(call: ToolCall): DeltaStream
  /** Outcomes of calls that no tool handled. */
  readonly outcomes: {
    rejected(message: string): Outcome
    busy(): Outcome
    notRun(status: 'cancelled' | 'interrupted', reason: string): Outcome
    broken(reason: string): Outcome
  }
  readonly log: Logger
  /** Aborts posts that are still being retried; their answers are then lost unless the journal has them. */
  readonly stopPosting: AbortSignal
  /** Milliseconds since the epoch: calls carry wall-clock time. */
  readonly wallClock?: () => number
}

/**
 * The way of one call, from its delivery to its accepted answer. Never rejects. `cancel` aborts it with a phrase for the
 * model as its reason.
 *
 *     claim → arguments → confirmation → slot → sandbox → outcome → journal → post
 */
export async function handleCall(call: ToolCall, context: CallContext, cancel: AbortSignal): Promise<void> {
  const log = context.log.child({ fcall_id: call.fcall_id, tool: call.fcall_name })
  const key = journalKey(call)
  const claim = context.journal.claim(key)
  if (claim.kind === 'known') {
    log.debug('call delivered again while it is known')
    return
  }
  if (claim.kind === 'settled') {
    log.info('call delivered again after it was answered')
    await post(call, claim.answer, false, context, log)
    return
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
  const delivery = await deliver(call, key, reply, context, log)
  logCall(log, call, reply, delivery, performance.now() - arrived, delta.stream)
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
    const message = `There is no tool ${JSON.stringify(call.fcall_name.slice(0, 100))} here. This worker has: ${names}.`
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
  try {
    return await context.admission.run(call.located_fgroup_id, cancel, queueMs => tool.handle(invocation(queueMs)))
  } catch (error) {
    if (error instanceof QueueFull) return answerWith(context.outcomes.busy())
    if (cancel.aborted) return answerWith(context.outcomes.notRun('cancelled', String(cancel.reason)))
    throw error
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

/** Journal, then wire. */
async function deliver(
  call: ToolCall,
  key: string,
  reply: Reply,
  context: CallContext,
  log: Logger,
): Promise<Delivery | null> {
  switch (reply.kind) {
    case 'answer': {
      const answer: StoredAnswer = {
        content: wireContent(reply.content, context.config.resultMaxBytes),
        provenance: JSON.stringify({ system: context.config.serviceName, ...reply.provenance }),
        dollars: reply.dollars,
      }
      context.journal.settled(key, answer)
      return await post(call, answer, false, context, log)
    }
    case 'placeholder': {
      const provenance = { system: context.config.serviceName, subchats_started: reply.subchats }
      const answer = { content: JSON.stringify('WAIT_SUBCHATS'), provenance: JSON.stringify(provenance), dollars: 0 }
      context.journal.settled(key, answer)
      return await post(call, answer, true, context, log)
    }
    case 'confirm': {
      context.journal.asked(key)
      const request = { setupKey: reply.setupKey, command: reply.command, explanation: reply.explanation }
      const delivery = await deliverWithRetry(signal => context.api.requestConfirmation(call, request, signal), {
        log,
        signal: context.stopPosting,
        giveUpAfterMs: GIVE_UP_MS,
      })
      if (!delivery.delivered && delivery.why === 'refused') {
        // Nobody was asked and nobody will answer: the model has to know.
        const reason = `a person could not be asked to confirm: ${delivery.error.message}`
        return await deliver(call, key, answerWith(context.outcomes.notRun('interrupted', reason)), context, log)
      }
      if (!delivery.delivered) context.journal.released(key)
      return delivery
    }
    case 'later':
      context.journal.asked(key)
      return null
    case 'already_answered':
      context.journal.asked(key)
      return null
  }
}

async function post(
  call: ToolCall,
  answer: StoredAnswer,
  asPlaceholder: boolean,
  context: CallContext,
  log: Logger,
): Promise<Delivery> {
  const delivery = await deliverWithRetry(signal => context.api.postResult(call, answer, { asPlaceholder }, signal), {
    log,
    signal: context.stopPosting,
    giveUpAfterMs: GIVE_UP_MS,
  })
  if (!delivery.delivered) {
    const reason = delivery.why === 'aborted' ? 'the worker is stopping' : delivery.error.message
    log.error({ why: delivery.why, reason, attempts: delivery.attempts }, 'answer was not delivered')
  }
  return delivery
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
