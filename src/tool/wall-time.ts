import type { SandboxConfig } from '../config.js'
import { seconds } from '../quantities.js'

/** Less than this is not worth starting: interpreter, imports and the answer need some of it. */
export const LEAST_WALL_MS = 1_000
/** Why code is not run then, as a phrase for the model. */
export const TOO_LATE = `less than ${seconds(LEAST_WALL_MS)} was left before the call's deadline`

export interface WallPlan {
  /** The wall time to run with; null: too little is left before the deadline, the code must not run. */
  readonly wallMs: number | null
  /** What the model must know of it. */
  readonly notes: readonly string[]
}

/** The wall time of one run: what was asked for or the default, at most the maximum, and no longer than the call may last. */
export function planWall(
  timeoutSeconds: number | null,
  remainingMs: number,
  limits: Pick<SandboxConfig, 'wallMs' | 'wallMaxMs'>,
): WallPlan {
  if (remainingMs < LEAST_WALL_MS) return { wallMs: null, notes: [] }
  const notes: string[] = []
  const askedMs = timeoutSeconds === null ? limits.wallMs : timeoutSeconds * 1000
  const allowedMs = Math.min(askedMs, limits.wallMaxMs)
  if (allowedMs < askedMs && timeoutSeconds !== null) {
    notes.push(`timeout_seconds ${timeoutSeconds} is over the maximum: limited to ${seconds(allowedMs)}`)
  }
  const wallMs = Math.min(allowedMs, Math.floor(remainingMs))
  if (wallMs < allowedMs) {
    notes.push(`time limit shortened from ${seconds(allowedMs)} to ${seconds(wallMs)}: the call's deadline is near`)
  }
  return { wallMs, notes }
}
