/** What is known of a call: enough to answer it exactly once. */

/** An answer as it goes over the wire. */
export interface StoredAnswer {
  readonly content: string
  readonly provenance: string
  readonly dollars: number
  /** "Still working": the answer proper is another's to give. */
  readonly asPlaceholder: boolean
}

/** What to do with a delivery of a call. */
export type Claim =
  /** Ours now, and to be answered. */
  | { readonly kind: 'fresh' }
  /** Being worked on, its answer is being posted, a person is being asked, or it is not ours to answer: nothing to do. */
  | { readonly kind: 'known' }
  /** Answered before, but the backend asks again: post it once more, then say `posted`. */
  | { readonly kind: 'settled'; readonly answer: StoredAnswer }

/** What of a delivery tells which call it is. */
export interface Delivered {
  readonly fcall_id: string
  readonly confirmed_by_human: boolean | null
}

export interface Journal {
  /**
   * The key of a delivery, for all that follows. It is the call's id, whatever a person has said, so that a call runs once. Only
   * where we asked the person ourselves the delivery that brings the answer is another one. The first word stands: a "no" after
   * a "yes" must not be answered "not run" while the code runs.
   */
  keyOf(call: Delivered): string
  claim(key: string): Claim
  /** A person is being asked; the answer belongs to the other key. */
  asked(key: string): void
  /** Not to be answered from here: its tool answers it later, or a scenario has answered it. */
  left(key: string): void
  /** The answer is known and is being posted. Again with another answer where the backend refused the first as too large. */
  settled(key: string, answer: StoredAnswer): void
  /** The post is over. `delivered` false: nobody has taken the answer, and a later delivery posts it anew. */
  posted(key: string, delivered: boolean): void
  /** Given up without an answer, so that a later delivery starts anew. */
  released(key: string): void
}
