import type { Logger } from 'pino'
import { answerWithin, cutTo, shortened } from './answer-size.js'
import { type Delivery, deliverWithRetry } from './backend/deliver.js'
import { BackendError, classifyBackendError } from './backend/errors.js'
import type { BackendApi } from './backend/http.js'
import type { CallIdentity } from './backend/protocol.js'
import type { Config } from './config.js'
import { bytesOf, type Journal, type StoredAnswer } from './journal/journal.js'
import type { Outcome } from './outcome.js'
import type { PostingPace } from './posting-pace.js'
import type { PostingRoom } from './posting-room.js'
import type { Reply } from './tool/tool.js'

/** An answer of this size that found no end in time so often is taken for one that is too large for its wire. */
const SLOW_BYTES = 256 * 1024
const SLOW_TIMES = 3
/** What a call holds besides its answer until that is posted, measured; its arguments come to it. */
const HELD_WITH_EACH_BYTES = 8 * 1024
/** What is left of an answer that neither the journal nor the memory for answers has room for. */
const SQUEEZED_BYTES = 16 * 1024

export interface AnsweringContext {
  readonly config: Pick<Config, 'serviceName' | 'resultMaxBytes'>
  readonly journal: Journal
  readonly api: Pick<BackendApi, 'postResult' | 'requestConfirmation'>
  readonly room: PostingRoom
  readonly pace: PostingPace
  /** Aborts posts that are still being retried; their answers are then lost unless the journal keeps them. */
  readonly stopPosting: AbortSignal
  /**
   * Told of each round of attempts that ended without the answer being taken. forbidden: the backend said 460. Must not throw. A round that
   * was put off is none.
   */
  onPostFailed?(why: 'refused' | 'gave_up' | 'aborted' | 'forbidden'): void
  /** Told of each result that is gone: nobody has taken it, and nothing keeps it. Must not throw. */
  onLost?(): void
  /** The backend said 460: this client may never work. */
  onForbidden(reason: string): void
}

/** How posting ended, and whether the answer is safe: the backend has it, or it outlives this process. */
export interface Concluded {
  /** put_off: there was no room for it in memory, and it waits on disk for its turn. */
  readonly delivery: Delivery | { readonly delivered: false; readonly why: 'put_off'; readonly attempts: 0 }
  readonly safe: boolean
}

/** A call on its way to its answer. */
export interface Answering {
  readonly call: CallIdentity
  /** The journal's name for it. */
  readonly key: string
  /** Of its arguments, which are in memory as long as it is on its way. */
  readonly argumentBytes?: number
  /** Monotonic milliseconds from which nothing is sent again: the backend has given the call up. The first attempt is always made. */
  readonly giveUpAtMs: number
  /** How often the answer, as it is now, found no end in time; for whoever posts it again and again to keep. */
  readonly timeouts?: { times: number }
  /** Ends its waiting for its turn and between attempts, but no attempt; default as `stopPosting`. */
  readonly leave?: AbortSignal
}

/**
 * Journal, then wire: what becomes of a reply. null: nothing was to be sent. `unasked` makes the answer to a call that
 * waits for a person whom nobody can ask; `ran`: what has run of its code already.
 */
export async function deliverReply(
  answering: Answering,
  reply: Reply,
  unasked: (reason: string, ran: Outcome | null) => Promise<Reply>,
  context: AnsweringContext,
  log: Logger,
): Promise<Concluded | null> {
  const { call, key } = answering
  switch (reply.kind) {
    case 'answer': {
      const { serviceName, resultMaxBytes } = context.config
      const held = {
        answer: answerWithin(resultMaxBytes, reply.content, {
          provenance: JSON.stringify({ system: serviceName, ...reply.provenance }),
          dollars: reply.dollars,
          asPlaceholder: false,
        }),
      }
      await context.journal.settled(key, held.answer)
      return await postOrPutOff(answering, held, context, log)
    }
    case 'placeholder': {
      const answer: StoredAnswer = {
        content: JSON.stringify('WAIT_SUBCHATS'),
        provenance: JSON.stringify({ system: context.config.serviceName, subchats_started: reply.subchats }),
        dollars: 0,
        asPlaceholder: true,
      }
      await context.journal.settled(key, answer)
      return await postOrPutOff(answering, { answer }, context, log)
    }
    case 'confirm': {
      context.journal.asking(key)
      const ran = heldOutcome(reply.outcome, context.room)
      const asks = { setupKey: reply.setupKey, command: reply.command, explanation: reply.explanation }
      let mayHaveAsked = false
      const { api, pace, stopPosting } = context
      const ask = async () => {
        const request = () => api.requestConfirmation(call, asks, stopPosting)
        const asked = await pace.go(request, stopPosting).catch((error: unknown) => {
          mayHaveAsked ||= classifyBackendError(error).kind === 'retry'
          throw error
        })
        // Not by us: the person is shown another request than this one, and a yes is to that.
        if (asked === 'asked_before' && !mayHaveAsked) {
          await context.journal.toolLog(call).note({ step: 'asked', tools: null })
        }
      }
      const delivery = await deliver(ask, answering, context, log)
      context.room.give(ran.bytes)
      if (delivery.delivered) {
        context.journal.asked(key)
        return { delivery, safe: true }
      }
      if (delivery.why === 'refused' && delivery.error.kind === 'never') context.onForbidden(delivery.error.message)
      // Nobody was asked and nobody will answer: the model has to know, now or when the backend can be reached.
      const why = delivery.why === 'aborted' ? 'the worker is being stopped' : delivery.error.message
      const instead = await unasked(`a person could not be asked to confirm: ${why}`, ran.outcome)
      // The request got through, whatever we were told: the call is answered as the person has decided. Nothing may be waited for between
      // this look and the answer's way into the journal, as the word may come at any time.
      if (context.journal.hasDecided(call)) return { delivery, safe: true }
      return await deliverReply(answering, instead, unasked, context, log)
    }
    case 'later':
    case 'already_answered':
      context.journal.left(key)
      return null
  }
}

/** What has run before a person is asked, as it is held until they are: without its images where there is no room for them. */
function heldOutcome(outcome: Outcome | null, room: PostingRoom): { outcome: Outcome | null; bytes: number } {
  if (outcome === null) return { outcome, bytes: 0 }
  const bytes = jsonBytes(outcome)
  if (room.take(bytes)) return { outcome, bytes }
  const content = `${outcome.content.trimEnd()}\n[what it has shown was left out: too many answers wait]`
  const text = outcome.parts === null ? outcome : { ...outcome, content, parts: null }
  const textBytes = jsonBytes(text)
  if (!room.take(textBytes)) room.squeeze(textBytes)
  return { outcome: text, bytes: textBytes }
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value), 'utf8')
}

/**
 * Posts an answer where there is room for it; else it stays on disk until there is, or is shortened where no disk keeps it: in `held`, so that
 * nobody who waits for this has it whole.
 */
export async function postOrPutOff(
  answering: Answering,
  held: { answer: StoredAnswer },
  context: AnsweringContext,
  log: Logger,
): Promise<Concluded> {
  const { journal, room } = context
  const { key, argumentBytes = 0 } = answering
  const heldBytes = () => bytesOf(held.answer) + argumentBytes + HELD_WITH_EACH_BYTES
  if (!room.take(heldBytes())) {
    if (journal.isKept(key)) {
      log.debug({ bytes: bytesOf(held.answer) }, 'answer waits on disk until there is room to post it')
      return { delivery: { delivered: false, why: 'put_off', attempts: 0 }, safe: journal.undelivered(key) }
    }
    held.answer = cutTo(SQUEEZED_BYTES, held.answer)
    await journal.settled(key, held.answer)
    room.squeeze(heldBytes())
  }
  const bytes = heldBytes()
  try {
    return await postAnswer(answering, held.answer, context, log)
  } finally {
    room.give(bytes)
  }
}

/**
 * Posts an answer that the journal holds as being posted, shorter if it is refused for its size, or if it is large and does not get
 * through in time again and again.
 */
export async function postAnswer(
  answering: Answering,
  answer: StoredAnswer,
  context: AnsweringContext,
  log: Logger,
): Promise<Concluded> {
  const { call, key, timeouts = { times: 0 } } = answering
  const { api, pace, stopPosting } = context
  let sent = answer
  for (;;) {
    const { asPlaceholder } = sent
    const post = () => api.postResult(call, sent, { asPlaceholder }, stopPosting)
    const attempt = () =>
      pace.go(post, answering.leave ?? stopPosting).catch((error: unknown) => {
        throw isTooSlow(error, sent, timeouts) ? new BackendError('final', TOO_SLOW, { status: 413 }) : error
      })
    const delivery = await deliver(attempt, answering, context, log)
    if (!delivery.delivered && delivery.why === 'refused' && isTooLarge(delivery.error)) {
      const shorter = shortened(sent)
      if (shorter !== null) {
        log.warn({ bytes: bytesOf(sent), reason: delivery.error.message }, 'answer is too large, shortening it')
        await context.journal.settled(key, shorter)
        sent = shorter
        timeouts.times = 0
        continue
      }
    }
    return { delivery, safe: await conclude(key, delivery, context, log) }
  }
}

/** What becomes of a call in the journal when its post is over; whether its answer is safe. */
async function conclude(key: string, delivery: Delivery, context: AnsweringContext, log: Logger): Promise<boolean> {
  const { journal } = context
  if (delivery.delivered) {
    journal.delivered(key)
    return true
  }
  const { why, attempts } = delivery
  context.onPostFailed?.(why === 'refused' && delivery.error.kind === 'never' ? 'forbidden' : why)
  // Forbidden to us, it is still a good answer: perhaps that is only for now.
  if (why === 'refused' && delivery.error.kind !== 'never') {
    const kept = await journal.rejected(key, delivery.error.message)
    log.error({ reason: delivery.error.message, attempts, kept }, 'the backend refuses an answer for good')
    return kept
  }
  if (why === 'refused') context.onForbidden(delivery.error.message)
  const kept = journal.undelivered(key)
  // Else it is offered again as long as this process lives.
  if (why === 'aborted' && !kept) context.onLost?.()
  const reason = why === 'aborted' ? 'the worker is stopping' : delivery.error.message
  const isKnown = why !== 'aborted' && context.pace.heldUpMs !== null
  log[!kept ? 'error' : isKnown ? 'debug' : 'warn']({ why, reason, attempts, kept }, 'answer was not delivered so far')
  return kept
}

function deliver(
  attempt: () => Promise<void>,
  { giveUpAtMs, leave }: Answering,
  { pace, stopPosting }: AnsweringContext,
  log: Logger,
): Promise<Delivery> {
  return deliverWithRetry(attempt, {
    log,
    signal: leave ?? stopPosting,
    giveUpAfterMs: Math.max(0, giveUpAtMs - performance.now()),
    rest: pace.rest,
    isKnownTrouble: () => pace.heldUpMs !== null,
  })
}

const TOO_SLOW = `did not get through in time ${SLOW_TIMES} times, and is large`

/** Counts what found no end in time. */
function isTooSlow(error: unknown, answer: StoredAnswer, timeouts: { times: number }): boolean {
  if (!(error instanceof BackendError && error.timedOut)) return false
  timeouts.times++
  return timeouts.times >= SLOW_TIMES && bytesOf(answer) >= SLOW_BYTES
}

/** The largest result that is accepted is unknown (docs/protocol.md, "Errors"), so a refusal for size may come in any of these. */
function isTooLarge(error: BackendError): boolean {
  return error.status === 413 || /too (large|long|big)|payload too|exceeds the (limit|maximum)/i.test(error.message)
}
