import type { UnreadableCall } from '../backend/protocol.js'
import type { ToolLog } from '../toolbox/tool-log.js'

/** What is known of a call: enough to answer it exactly once. */

/** An answer as it goes over the wire. */
export interface StoredAnswer {
  readonly content: string
  readonly provenance: string
  readonly dollars: number
  /** "Still working": the answer proper is another's to give. */
  readonly asPlaceholder: boolean
}

/** In UTF-8, as it goes over the wire. */
export function bytesOf({ content, provenance }: Pick<StoredAnswer, 'content' | 'provenance'>): number {
  return Buffer.byteLength(content, 'utf8') + Buffer.byteLength(provenance, 'utf8')
}

/** What an answer needs of the call it belongs to. */
export type ClaimedCall = UnreadableCall

/** What to do with a delivery of a call. */
export type Claim =
  /** Ours now, and to be answered. */
  | { readonly kind: 'fresh' }
  /** Being worked on, its answer is being posted, a person is being asked, or it is not ours to answer: nothing to do. */
  | { readonly kind: 'known' }
  /** Answered before, but the backend asks again: post it once more, then say how that ended. */
  | { readonly kind: 'settled'; readonly answer: StoredAnswer }
  /** As settled, in a life before or long ago: the answer has to be fetched, see `stored`. */
  | { readonly kind: 'stored' }
  /** Ours to answer, but not to run: it may be one of those that were answered, of which more came than are remembered. */
  | { readonly kind: 'forgotten' }

/** A call whose answer is still to be given and on which nobody works. */
export interface Leftover {
  readonly key: string
  readonly call: ClaimedCall
  /** claimed: its code never started. started: it may have run in part. settled: its answer is known. */
  readonly state: 'claimed' | 'started' | 'settled'
  /** It was found on disk, and not handled in this life of the worker. */
  readonly isOfEarlierLife: boolean
  /** Milliseconds since the epoch. */
  readonly claimedAt: number
  /** When it came into its state, in milliseconds since the epoch. */
  readonly since: number
}

export interface Outbox {
  readonly answers: number
  readonly bytes: number
  /** Since when the oldest is known, in milliseconds since the epoch. */
  readonly oldestSince: number | null
}

export interface Journal {
  /**
   * The key of a delivery, for all that follows. It is the call's id, whatever a person has said, so that a call runs once. Only
   * where we asked the person ourselves the delivery that brings the answer is another one. The first word stands: a "no" after
   * a "yes" must not be answered "not run" while the code runs.
   */
  keyOf(call: Pick<ClaimedCall, 'fcall_id' | 'confirmed_by_human'>): string
  /** `createdAt`: when the backend made the call, in milliseconds since the epoch; left out where its code will not run in any case. */
  claim(key: string, call: ClaimedCall, createdAt?: number): Claim
  /**
   * Resolves when it is written down that the code starts: not before may it. False: the code may not start, since the disk says
   * that it has not and can't be told otherwise. Never rejects.
   */
  started(key: string): Promise<boolean>
  /** A person is about to be asked, and may answer before we hear that they were: from now on their word is the other key's. */
  asking(key: string): void
  /** Whether the call was delivered with the word of the person whom we were about to ask. */
  hasDecided(call: Pick<ClaimedCall, 'fcall_id'>): boolean
  /** The person was asked. Until the answer comes nothing is left to do, for up to 30 days. */
  asked(key: string): void
  /** Not to be answered from here: its tool answers it later, or a scenario has answered it. */
  left(key: string): void
  /**
   * The answer is known. Resolves when it is written down: not before may it be posted. Again with another answer where the backend
   * refused the first as too large. Never rejects.
   */
  settled(key: string, answer: StoredAnswer): Promise<void>
  /** Whether the answer that was settled outlives this process, so that it need not be in memory until it is posted. */
  isKept(key: string): boolean
  /** The backend has the answer. */
  delivered(key: string): void
  /**
   * Nobody has taken the answer so far; a later delivery of the call posts it anew. Whether it is safe: it outlives this process, or the backend
   * has had it before.
   */
  undelivered(key: string): boolean
  /** The backend refuses the answer for good; a later delivery posts it anew all the same. Whether it is kept for a person to see, or the backend has had it before. */
  rejected(key: string, reason: string): Promise<boolean>
  /** The answer of a call that was claimed as `stored`, which is then as settled; null where it can't be read. Never rejects. */
  stored(key: string): Promise<StoredAnswer | null>
  /** Where the tool calls of a call's code are written down, whatever a person says meanwhile; gone when the call is answered. */
  toolLog(call: Pick<ClaimedCall, 'fcall_id'>): ToolLog
  /** Of the life before, and answers that nobody has taken. */
  leftovers(): readonly Leftover[]
  /**
   * Works on a leftover from now on; gives its answer where that is known and still readable. null: somebody else does already,
   * since it was delivered again. Never rejects.
   */
  takeOver(key: string): Promise<{ readonly answer: StoredAnswer | null } | null>
  /** Answers that the backend has not taken so far. */
  outbox(): Outbox
  /** Whether the disk takes what is written, and how many calls are in memory alone though they should be on disk. */
  health(): { readonly writable: boolean; readonly unsaved: number }
  /** Writes down what is not yet, within the time. Resolves with whether the disk is as it should be; never rejects. */
  close(withinMs?: number): Promise<boolean>
}
