import type { SandboxReport, TierName } from '../../../src/outcome.js'

type Status = SandboxReport['status']
type LimitName = NonNullable<SandboxReport['limit']>['name']

/** How a run may end: all that is given must hold. */
export interface Ending {
  readonly status: Status | readonly Status[]
  readonly limit?: LimitName | readonly (LimitName | null)[] | null
  readonly signal?: string
  /** Default: exactly "tried\n" where the status is completed, so that an attack that was never made counts as failed. */
  readonly stdout?: string | RegExp
}

/**
 * One way in which code could get at what is not its own. It prints a line that starts with ESCAPED if it gets there, and
 * "tried" when it has come to its end.
 */
export interface Attack {
  readonly name: string
  /** Python, run after prelude.py. */
  readonly code: string
  /** Default: both. */
  readonly tiers?: readonly TierName[]
  /** Default: completed. */
  readonly ends?: Ending
  /** The same where a tier ends it in another way. */
  readonly endsInLandlock?: Ending
  /** Default 10 s. */
  readonly wallMs?: number
  /** Run first, in another sandbox. */
  readonly before?: string
  /** Runs beside it, in another sandbox, from when it has printed "there" until the attack is over. */
  readonly beside?: string
}

export const NAMESPACES: readonly TierName[] = ['namespaces']
export const LANDLOCK: readonly TierName[] = ['landlock']
export const TRIED = 'tried\n'
