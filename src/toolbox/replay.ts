import type { CalledTools, ToolCallRecord } from '../outcome.js'
import type { EarlierSteps, ToolAnswer, ToolStep } from './tool-log.js'

/** A call that was let through before a person was asked, and what is known of its answer. */
export interface RecordedCall {
  readonly tool: string
  readonly hash: string
  readonly argsPreview: string
  /** false: the run ended before the tool was called, so that it may be called now. */
  readonly isMade: boolean
  readonly answered: Extract<ToolStep, { readonly step: 'answered' }> | null
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
  for (const step of steps) {
    switch (step.step) {
      case 'called': {
        const { n, tool, hash, argsPreview } = step
        calls.set(n, { tool, hash, argsPreview, isMade: true, answered: null })
        break
      }
      case 'answered':
      case 'dropped': {
        const call = calls.get(step.n)
        const known = step.step === 'answered' ? { answered: step } : { isMade: false }
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
