import type { Answer } from './requests.js'
import type { ToolAnswer } from './tool-log.js'

/** Answers of the broker that are none of a tool, in words for the model. */

export const RUN_OVER: Answer = { ok: false, kind: 'ended', message: 'the run is over' }

export function refused(message: string): Answer {
  return { ok: false, kind: 'tool', message }
}

/** What a tool said, for the code. */
export function toldOf(answer: ToolAnswer): Answer {
  if ('value' in answer) return { ok: true, value: answer.value }
  return { ok: false, kind: answer.isLost ? 'lost' : 'tool', message: answer.failure }
}

export function needsConfirmation(names: readonly string[]): Answer {
  const message = `${names.join(', ')} may only be called when a person has approved it; the run ends here, and they are asked`
  return { ok: false, kind: 'needs_confirmation', message }
}
