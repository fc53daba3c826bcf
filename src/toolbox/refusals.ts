import type { Answer } from './requests.js'

/** Answers of the broker that are none of a tool, in words for the model. */

export const RUN_OVER: Answer = { ok: false, kind: 'ended', message: 'the run is over' }

export function refused(message: string): Answer {
  return { ok: false, kind: 'tool', message }
}

export function needsConfirmation(names: readonly string[]): Answer {
  const message = `${names.join(', ')} may only be called when a person has approved it; the run ends here, and they are asked`
  return { ok: false, kind: 'needs_confirmation', message }
}
