import type { Logger } from 'pino'
import { type Admission, QueueFull } from './admission.js'
import { type Answering, type AnsweringContext, deliverReply, postOrPutOff } from './answering.js'
import type { DeltaStream } from './backend/delta.js'
import { loggedId, type ToolCall, type UnreadableCall } from './backend/protocol.js'
import { calledBefore } from './called-before.js'
import type { Config } from './config.js'
import { type HandledContext, tellHandled, toldOf } from './handled.js'
import type { CalledTools, Outcome } from './outcome.js'
import type { Refusal } from './telemetry/status.js'
import { answer, hasCalled, stranded } from './tool/outcome-without-run.js'
import { Interruption, type Invocation, type Reply, type Tool } from './tool/tool.js'
import { LEAST_WALL_MS, TOO_LATE } from './tool/wall-time.js'

/** A clock that runs this far behind the backend's is taken for a clock that is wrong; docs/protocol.md. */
const SKEW_MS = 60_000
/** The backend gives a call up after about 10 minutes; an answer is worth nothing after that. docs/protocol.md, "Errors". */
export const GIVE_UP_MS = 600_000
const NAME_SHOWN_CHARS = 100

/** What is known of a call on its way to its outcome, whatever that becomes. */
interface Progress {
  /** The code may have run, in part. */
  started: boolean
  /** How long it waited for a slot, whether it got one or not; null: it never did. */
  waitedMs: number | null
  /** Why it got none, or nothing of it. */
  refused: Refusal | null
}

class TurnTooLate extends Interruption {}
class JournalDown extends Interruption {}

export interface CallContext extends AnsweringContext, HandledContext {
  readonly config: Config
  readonly tools: ReadonlyMap<string, Tool>
  readonly admission: Admission
  openDelta(call: ToolCall): DeltaStream
  /** Outcomes of calls that no tool handled. `called`: by their code, before a person was asked; see calledBefore. */
  readonly outcomes: {
    rejected(message: string, called: CalledTools): Outcome
    busy(called: CalledTools): Outcome
    notRun(status: 'cancelled' | 'interrupted', reason: string, called: CalledTools): Outcome
    /** `started`: the code may have run in part. */
    broken(reason: string, started: boolean, called: CalledTools): Outcome
  }
  readonly log: Logger
  /** Masks the secrets that the worker knows; left out: nothing is masked. */
  mask?(text: string): string
}

/**
 * The way of one call, from its delivery to its accepted answer. `cancel` aborts it with a phrase for the model as its
 * reason, or with an Interruption. Resolves with whether the call is safe: the backend has its answer, or the journal keeps it.
 *
 *     claim → arguments → confirmation → slot → journal → sandbox → outcome → journal → post
 */
export async function handleCall(call: ToolCall, context: CallContext, cancel: AbortSignal): Promise<boolean> {
  const arrivedMs = performance.now()
  // The name is the model's word: it may be of any length.
  const log = context.log.child({ fcall_id: loggedId(call.fcall_id), tool: call.fcall_name.slice(0, NAME_SHOWN_CHARS) })
  const giveUpAtMs = arrivedMs + GIVE_UP_MS + SKEW_MS - ageMs(call, context)
  const argumentBytes = Buffer.byteLength(call.fcall_arguments, 'utf8')
  const answering: Answering = { call, key: context.journal.keyOf(call), giveUpAtMs, argumentBytes }
  const known = await knownAlready(call, answering, context, log, call.fcall_created_ts * 1000)
  if (known !== null) return known
  const delta: { stream: DeltaStream | null } = { stream: null }
  const onText = (text: string) => {
    try {
      delta.stream ??= context.openDelta(call)
      delta.stream.push(text)
    } catch (error) {
      log.warn({ err: error }, 'live output failed')
    }
  }
  const run: Progress = { started: false, waitedMs: null, refused: null }
  let reply: Reply | null
  try {
    reply = await replyTo({ ...answering, call }, context, cancel, onText, run)
  } catch (error) {
    log.error({ err: error }, 'call failed inside the worker')
    const called = await calledBefore(call, context)
    reply = answer(context.outcomes.broken('the worker failed while it handled the call', run.started, called))
  }
  if (hasRun(reply)) run.refused = null
  // Courtesy ends before the truth is posted, and never holds it up for long.
  await delta.stream?.end()
  const told = toldOf(reply)
  const delivering = deliverReply(answering, reply, unasked(call, context), context, log)
  reply = null // it can be large, and posting it takes long where the backend is away
  const concluded = await delivering
  const totalMs = performance.now() - arrivedMs
  tellHandled({ call, reply: told, progress: run, concluded, totalMs, delta: delta.stream }, context, log)
  return concluded === null || concluded.safe
}

/**
 * Answers a call of which only its identity could be read: "rejected", with what is wrong with it, so that nobody waits for it.
 * Resolves like handleCall.
 */
export async function rejectUnreadable(call: UnreadableCall, problem: string, context: CallContext): Promise<boolean> {
  const arrivedMs = performance.now()
  const log = context.log.child({ fcall_id: loggedId(call.fcall_id) })
  const giveUpAtMs = arrivedMs + GIVE_UP_MS
  const answering: Answering = { call, key: context.journal.keyOf(call), giveUpAtMs }
  const known = await knownAlready(call, answering, context, log)
  if (known !== null) return known
  const called = await calledBefore(call, context)
  const what = `the call reached this worker in a form that it cannot read (${problem}). Its arguments are not at fault.`
  const message = `${hasCalled(called) ? 'Cut off' : 'Not run'}: ${what}`
  const reply = answer(context.outcomes.rejected(message, called))
  const concluded = await deliverReply(answering, reply, unasked(call, context), context, log)
  tellHandled(
    { call: null, reply: toldOf(reply), concluded, totalMs: performance.now() - arrivedMs, delta: null },
    context,
    log,
  )
  return concluded === null || concluded.safe
}

/** Claims the call. null: it is ours to answer; else whether the call, which came before, is safe. */
async function knownAlready(
  call: UnreadableCall,
  answering: Answering,
  context: CallContext,
  log: Logger,
  createdAt?: number,
): Promise<boolean | null> {
  const answerUnknown = async (what: string) => {
    const reply = answer(context.outcomes.broken(what, true, await calledBefore(call, context)))
    const concluded = await deliverReply(answering, reply, unasked(call, context), context, log)
    return concluded === null || concluded.safe
  }
  const claim = context.journal.claim(answering.key, call, createdAt)
  switch (claim.kind) {
    case 'fresh':
      return null
    case 'known':
      log.debug('call delivered again while it is known')
      return true
    case 'settled':
      log.info('call delivered again after it was answered')
      return (await postOrPutOff(answering, { answer: claim.answer }, context, log)).safe
    case 'stored': {
      log.info('call delivered again after it was answered long ago, or in an earlier life')
      const stored = await context.journal.stored(answering.key)
      if (stored !== null) return (await postOrPutOff(answering, { answer: stored }, context, log)).safe
      context.onLost?.()
      return await answerUnknown('it was answered before, and its result was lost')
    }
    case 'forgotten':
      log.warn('call is not run: it may have been answered before, and too many came after it to know')
      return await answerUnknown('it was not run now, as the worker can not tell any more whether it was before')
  }
}

function unasked(call: UnreadableCall, context: CallContext) {
  return async (reason: string, ran: Outcome | null): Promise<Reply> => {
    if (ran !== null) return answer(stranded(ran, context.mask?.(reason) ?? reason))
    return answer(context.outcomes.notRun('interrupted', reason, await calledBefore(call, context)))
  }
}

/** What the tool says, or what is said in its place. */
async function replyTo(
  { call, key }: Answering & { readonly call: ToolCall },
  context: CallContext,
  cancel: AbortSignal,
  stream: (text: string) => void,
  run: Progress,
): Promise<Reply> {
  const called = () => calledBefore(call, context)
  const tool = context.tools.get(call.fcall_name)
  if (tool === undefined) {
    const names = [...context.tools.keys()].join(', ')
    const message = `There is no tool ${JSON.stringify(call.fcall_name.slice(0, NAME_SHOWN_CHARS))} here. This worker has: ${names}.`
    return answer(context.outcomes.rejected(message, await called()))
  }
  const parsed = tool.parse(call.fcall_arguments)
  if (!parsed.ok) return answer(context.outcomes.rejected(parsed.message, await called()))
  const invocation = (queueMs: number): Invocation<unknown> => ({
    args: parsed.args,
    confirmedByHuman: call.confirmed_by_human,
    scenario: call.fcall_ft_btest_name,
    get remainingMs() {
      return deadline - performance.now()
    },
    queueMs,
    signal: cancel,
    thread: { group: call.located_fgroup_id, thread: call.fcall_ft_id },
    toolLog: context.journal.toolLog(call),
    calledBefore: called,
    stream,
  })
  const deadline = performance.now() + timeLeftMs(call, context)
  const early = await tool.before(invocation(0))
  if (early !== null) return early
  const waiting = waitingSignal(cancel, deadline - LEAST_WALL_MS - performance.now())
  const from = performance.now()
  try {
    return await context.admission.run(call.located_fgroup_id, waiting.signal, async queueMs => {
      waiting.end()
      run.waitedMs = queueMs
      if (!(await context.journal.started(key))) throw new JournalDown('the journal of the worker can not be written')
      run.started = true
      if (deadline - performance.now() < LEAST_WALL_MS) run.refused = 'deadline' // by the tool, which says so
      return tool.handle(invocation(Math.round(queueMs * 100) / 100))
    })
  } catch (error) {
    run.refused = refusalOf(error)
    if (error instanceof QueueFull) return answer(context.outcomes.busy(await called()))
    run.waitedMs ??= performance.now() - from
    if (error instanceof Interruption)
      return answer(context.outcomes.notRun('interrupted', error.message, await called()))
    if (cancel.aborted) return answer(context.outcomes.notRun('cancelled', String(cancel.reason), await called()))
    throw error
  } finally {
    waiting.end()
  }
}

/** null where somebody cancelled the call, or the worker failed. */
function refusalOf(error: unknown): Refusal | null {
  if (error instanceof QueueFull) return 'busy'
  if (error instanceof TurnTooLate) return 'deadline'
  if (error instanceof JournalDown) return 'journal'
  return error instanceof Interruption ? 'drain' : null
}

/** Aborts with `cancel`, or as an Interruption when too little is left before the deadline, until `end()`. */
function waitingSignal(cancel: AbortSignal, ms: number): { readonly signal: AbortSignal; end(): void } {
  const controller = new AbortController()
  const forward = () => controller.abort(cancel.reason)
  if (cancel.aborted) forward()
  cancel.addEventListener('abort', forward, { once: true })
  const expire = () => controller.abort(new TurnTooLate(`its turn did not come in time, ${TOO_LATE}`))
  const timer = setTimeout(expire, Math.max(0, ms))
  return {
    signal: controller.signal,
    end() {
      clearTimeout(timer)
      cancel.removeEventListener('abort', forward)
    },
  }
}

function hasRun(reply: Reply): boolean {
  return reply.kind === 'answer' && reply.outcome?.provenance['started'] === true
}

/** Milliseconds until the answer has to be there. */
function timeLeftMs(call: ToolCall, context: CallContext): number {
  return context.config.callDeadlineMs - ageMs(call, context)
}

/**
 * Milliseconds since the backend began to count. It counts from the call's creation; after a person was asked it delivers the
 * call anew, and so counts anew, as a person may take hours. 0 where our clock cannot be right.
 */
function ageMs(call: ToolCall, { wallClock = Date.now }: CallContext): number {
  const ageMs = wallClock() - call.fcall_created_ts * 1000
  const believable = call.confirmed_by_human === null && ageMs > -SKEW_MS
  return believable ? Math.max(0, ageMs) : 0
}
