import { InterpreterError } from '../sandbox/interpreter.js'
import { type RefusedTier, SandboxUnavailable, type TierAttempt } from '../sandbox/open.js'
import { TemporaryFolderError } from '../sandbox/temporary-folder.js'

export const EXIT_UNAVAILABLE = 69

/**
 * Lines for a person on why no sandbox can be had: for each tier the step that failed and what would help, or what is wrong with the
 * interpreter or the temporary folder. null for any other error.
 */
export function unavailableLines(error: unknown): string[] | null {
  if (error instanceof InterpreterError || error instanceof TemporaryFolderError) return [error.message]
  if (!(error instanceof SandboxUnavailable)) return null
  return [...failedTiers(error.attempts), lastLine(error.refused)]
}

function lastLine(refused: RefusedTier | null): string {
  if (refused === null) return 'no sandbox can be had: the worker does not start'
  const { by, tier } = refused
  const [variable] = by.split('=')
  const how =
    tier === 'landlock'
      ? `unset ${variable}, or give the namespaces tier what is said above (in a container docker/seccomp.json)`
      : `unset ${variable}`
  return `${by} refuses the ${tier} tier, which can be had here: the worker does not start; ${how}`
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
