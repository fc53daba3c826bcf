/** What is known of a call: enough to answer it exactly once. */

/** An answer as it goes over the wire. */
export interface StoredAnswer {
  readonly content: string
  readonly provenance: string
  readonly dollars: number
}

/** What to do with a delivery of a call. */
export type Claim =
  /** Ours now, and to be answered. */
  | { readonly kind: 'fresh' }
  /** Being worked on, or a person is being asked: nothing to do. */
  | { readonly kind: 'known' }
  /** Answered before, but the backend asks again: post it once more. */
  | { readonly kind: 'settled'; readonly answer: StoredAnswer }

/** One key a call and confirmation: the backend delivers the same call again with `confirmed_by_human` set. */
export function journalKey(call: { readonly fcall_id: string; readonly confirmed_by_human: boolean | null }): string {
  return `${call.fcall_id}:${call.confirmed_by_human ?? 'unasked'}`
}

export interface Journal {
  claim(key: string): Claim
  /** A person is being asked; the answer belongs to another key. */
  asked(key: string): void
  /** The answer is known. */
  settled(key: string, answer: StoredAnswer): void
  /** Given up without an answer, so that a later delivery starts anew. */
  released(key: string): void
}
