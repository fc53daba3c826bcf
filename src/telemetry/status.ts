/** What can be wrong with a worker that more calls would not mend. */
export const IMPAIRMENTS = ['backend', 'registration', 'sandbox', 'journal', 'answers'] as const
export type Impairment = (typeof IMPAIRMENTS)[number]

/** What the worker says of itself, for whoever looks: the health server, the page, the metrics. */
export interface WorkerStatus {
  readonly state: string
  /** Why no calls are taken, empty where they are (or would be, were there a free slot). */
  readonly reasons: readonly string[]
  /** What `reasons` begin with, where something is wrong that more calls would not mend. */
  readonly impairments: readonly Impairment[]
  readonly slots: number
  readonly running: number
  readonly waiting: number
  /** Answers that the backend has not taken so far, and for how long the oldest has been waiting, in milliseconds. */
  readonly outbox: { readonly answers: number; readonly oldestMs: number }
  /** Whether the disk takes what is written, and how many calls are in memory alone meanwhile: a kill would lose these. */
  readonly journal: { readonly writable: boolean; readonly unsaved: number }
}

/** What does not change while the worker lives. */
export interface WorkerIdentity {
  readonly service: string
  readonly version: string
  readonly workerId: string
  readonly tier: string
  readonly layers: readonly { readonly name: string; readonly inForce: boolean; readonly why?: string }[]
  readonly python: string
  readonly node: string
}

/**
 * Why a call that could have run was not: busy: too many waited already; deadline: its turn came too late, or never; drain: the worker was
 * told to stop; journal: it could not be written.
 */
export const REFUSALS = ['busy', 'deadline', 'drain', 'journal'] as const
export type Refusal = (typeof REFUSALS)[number]

/** One call that is over, without anything that tells whose it was. */
export interface HandledCall {
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Of the outcome; else the kind of reply. */
  readonly status: string
  /** The limit at which we ended the code, or null. */
  readonly killedFor: string | null
  /** How long it waited for a slot, also in vain; null where it never did. */
  readonly queueMs: number | null
  /** Why its code was not run though nothing was wrong with the call; null where it was, or something was. */
  readonly refused: Refusal | null
  /** From the sandbox being asked for until the code starts; null where none was. */
  readonly startMs: number | null
  readonly runMs: number
  readonly totalMs: number
  readonly delivered: boolean | null
  readonly postAttempts: number
  readonly deltaBytesDropped: number
  readonly dollars: number
}

/** Told of what happens; never throws. */
export interface Telemetry {
  callHandled(call: HandledCall): void
  /** A round of attempts to post an answer has ended without its being taken, and why in a word. */
  postFailed(why: string): void
  /** A result is gone: nobody has taken it, and nothing keeps it. */
  answerLost(): void
  /** A session with the backend has ended, and why in a word. */
  sessionEnded(why: string): void
  slotsChanged(running: number, slots: number): void
}
