import { InterpreterError } from '../sandbox/interpreter.js'
import { SandboxUnavailable, type TierAttempt } from '../sandbox/open.js'

export const EXIT_UNAVAILABLE = 69

/**
 * Lines for a person on why no sandbox can be had: for each tier the step that failed and what would help, or what is wrong with the
 * interpreter. null for any other error.
 */
export function unavailableLines(error: unknown): string[] | null {
  if (error instanceof InterpreterError) return [error.message]
  if (!(error instanceof SandboxUnavailable)) return null
  return [...failedTiers(error.attempts), 'no sandbox can be had: the worker would not start']
}

/** A line for each tier that could not be had, followed by what to do where that is known. */
export function failedTiers(attempts: readonly TierAttempt[]): string[] {
  return attempts
    .filter(attempt => !attempt.ok)
    .flatMap(({ tier, message, remedy }) => [
      `tier ${tier}: not available: ${message}`,
      ...(remedy === undefined ? [] : [`  to get it: ${remedy}`]),
    ])
}
