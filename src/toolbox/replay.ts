import type { CalledTools, ToolCallRecord } from '../outcome.js'
import type { EarlierSteps, ToolAnswer, ToolStep } from './tool-log.js'

/** A call that was let through before a person was asked, and what is known of its answer. */
export interface RecordedCall {
  readonly tool: string
  readonly hash: string
  readonly argsPreview: string
  /** false: the tool was not called then, so that it may be called now. */
  readonly isMade: boolean
  /** Whether that was as a person had to be asked first. */
  readonly isBlocked: boolean
  readonly answered: Extract<ToolStep, { readonly step: 'answered' }> | null
  /** When it was let through and answered, in steps of the record; never answered: Infinity. */
  readonly calledAt: number
  readonly answeredAt: number
}

export interface Recorded {
  /** In the order in which they were let through. */
  readonly calls: readonly RecordedCall[]
  /** What a person was asked for; null: nobody was, as far as it is known. */
  readonly asked: Extract<ToolStep, { readonly step: 'asked' }> | null
  /** Whether no call is missing: each is where it was. */
  readonly isWhole: boolean
}

/** Puts the steps of a run together. */
export function recordedFrom({ steps, isWhole }: EarlierSteps): Recorded {
  const calls = new Map<number, RecordedCall>()
  let asked: Recorded['asked'] = null
  for (const [at, step] of steps.entries()) {
    switch (step.step) {
      case 'called':
      case 'blocked': {
        const { n, tool, hash, argsPreview } = step
        const isBlocked = step.step === 'blocked'
        const open = { isMade: !isBlocked, isBlocked, answered: null, answeredAt: Number.POSITIVE_INFINITY }
        calls.set(n, { tool, hash, argsPreview, calledAt: at, ...open })
        break
      }
      case 'answered':
      case 'dropped': {
        const call = calls.get(step.n)
        const known = step.step === 'answered' ? { answered: step, answeredAt: at } : { isMade: false }
        if (call !== undefined) calls.set(step.n, { ...call, ...known })
        break
      }
      case 'asked':
        asked = step
    }
  }
  const inOrder = [...calls].toSorted(([a], [b]) => a - b)
  const isGapless = inOrder.every(([n], place) => n === place)
  return { calls: inOrder.map(([, call]) => call), asked, isWhole: isWhole && isGapless }
}

/**
 * The place of the recorded call that a call repeats, of those that are `left`, which are in their order. It is the next one, or one that
 * was under way at the same time as all that are left before it: threads need not come to those in the same order. Where none of them is
 * like it, the next one that was made all the same, which tells what was expected. null: none is left, or all that are left were under way
 * when the run was blocked, and are of other tools: what comes then may be what the run was kept from.
 */
export function placeOf(
  { tool, hash }: { readonly tool: string; readonly hash: string },
  recorded: readonly RecordedCall[],
  left: Iterable<number>,
): number | null {
  const blockedAt = recorded.find(({ isBlocked }) => isBlocked)?.calledAt ?? Number.POSITIVE_INFINITY
  let next: number | null = null
  let mayBeNew = true
  let firstAnsweredAt = Number.POSITIVE_INFINITY
  for (const place of left) {
    const call = recorded[place]
    if (call === undefined) continue
    const isReached = call.calledAt <= firstAnsweredAt
    if (isReached && call.tool === tool && call.hash === hash) return place
    firstAnsweredAt = Math.min(firstAnsweredAt, call.answeredAt)
    if (!call.isMade) continue
    next ??= place
    mayBeNew &&= call.answeredAt > blockedAt && call.tool !== tool
  }
  return mayBeNew ? null : next
}

/** What a call was answered before, to be answered so again. */
interface Again {
  readonly ok: boolean
  readonly ms: number
  readonly bytes: number
  readonly dollars: number
  readonly answer: ToolAnswer
}

/**
 * `isLocal`: the sandbox does the work, and does it again, as it begins anew each time. `diverged` is a phrase for the model. null: the
 * tool was not called then, and is now.
 */
export function replayed(
  recorded: RecordedCall,
  call: { readonly tool: string; readonly hash: string },
  isLocal: boolean,
): Again | { readonly diverged: string } | null {
  if (recorded.tool !== call.tool || recorded.hash !== call.hash) {
    const now = recorded.tool === call.tool ? 'other arguments' : `${call.tool} in its place`
    return {
      diverged: `run again after it was approved, the code did not repeat its call of ${recorded.tool}, but came with ${now}`,
    }
  }
  if (!recorded.isMade) return null
  const { answered } = recorded
  const answer = answered?.answer ?? (isLocal ? { value: null } : null)
  if (answer === null || (answered === null && !isLocal)) {
    return {
      diverged: `what ${call.tool} answered before the code was approved is not known any more, and it is not called twice unasked`,
    }
  }
  const { ok = true, ms = 0, bytes = 0, dollars = 0 } = answered ?? {}
  return { answer, ok, ms, bytes, dollars }
}

const ERROR_CHARS = 500

/** What went wrong, as the ledger has it: masked before it is cut, since half a secret must not show. */
export function errorOf(failure: string, mask: (text: string) => string): string {
  return mask(failure).slice(0, ERROR_CHARS).toWellFormed()
}

/**
 * A recorded call as the ledger has it: one that was not answered may have done its work all the same. What it was told is on
 * record as it was, and is masked here, as other secrets may be known by now.
 */
function ledgerRecord({ tool, argsPreview, answered }: RecordedCall, mask: (text: string) => string): ToolCallRecord {
  if (answered === null) {
    const error = 'had not answered when the run ended'
    return { tool, ok: false, ms: 0, args_preview: mask(argsPreview), error, bytes: 0, dollars: 0 }
  }
  const { ok, ms, bytes, dollars, answer } = answered
  const failure = answer !== undefined && 'failure' in answer ? answer.failure : 'failed'
  return { tool, ok, ms, args_preview: mask(argsPreview), error: ok ? null : errorOf(failure, mask), bytes, dollars }
}

/** What was called, as far as it is written down. */
export function calledFrom(earlier: EarlierSteps, mask: (text: string) => string): CalledTools {
  const { calls, isWhole } = recordedFrom(earlier)
  return { calls: madeOf(calls, mask), isWhole }
}

/** Those of recorded calls that were made. */
export function madeOf(calls: readonly RecordedCall[], mask: (text: string) => string): readonly ToolCallRecord[] {
  return calls.filter(({ isMade }) => isMade).map(call => ledgerRecord(call, mask))
}
