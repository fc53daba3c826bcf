import type { Claim, ClaimedCall, Journal, Leftover, StoredAnswer } from './journal.js'

const RESTING_MOST = 2_000
const RESTING_MOST_BYTES = 64 * 1024 * 1024

type Entry =
  | { readonly state: 'claimed' | 'asked' | 'left' }
  /** `isTaken`: the backend has had it before. */
  | { readonly state: 'posting' | 'settled'; readonly answer: StoredAnswer; readonly isTaken: boolean }

/**
 * A journal that lasts as long as the process. Calls on which nothing is being done are forgotten, the oldest first, beyond
 * 2 000 or 64 MiB of UTF-8; one that is being worked on or posted never is, as its next delivery would run it again.
 */
export class MemoryJournal implements Journal {
  readonly #entries = new Map<string, Entry>()
  /** Bytes of the entries that may be forgotten, the oldest first. */
  readonly #resting = new Map<string, number>()
  #restingBytes = 0

  keyOf({ fcall_id, confirmed_by_human }: Pick<ClaimedCall, 'fcall_id' | 'confirmed_by_human'>): string {
    const decided = `${fcall_id}:decided`
    const hasAsked = this.#entries.get(fcall_id)?.state === 'asked' || this.#entries.has(decided)
    return confirmed_by_human !== null && hasAsked ? decided : fcall_id
  }

  claim(key: string): Claim {
    const entry = this.#entries.get(key)
    if (entry === undefined) {
      this.#entries.set(key, { state: 'claimed' })
      return { kind: 'fresh' }
    }
    if (entry.state !== 'settled') return { kind: 'known' }
    this.#posting(key, entry.answer, entry.isTaken)
    return { kind: 'settled', answer: entry.answer }
  }

  async started(): Promise<boolean> {
    return true
  }

  hasDecided({ fcall_id }: Pick<ClaimedCall, 'fcall_id'>): boolean {
    return this.#entries.has(`${fcall_id}:decided`)
  }

  asking(key: string): void {
    this.#entries.set(key, { state: 'asked' })
  }

  asked(key: string): void {
    if (this.#entries.get(key)?.state === 'asked') this.#rest(key, 0)
  }

  left(key: string): void {
    this.#entries.set(key, { state: 'left' })
    this.#rest(key, 0)
  }

  async settled(key: string, answer: StoredAnswer): Promise<void> {
    const entry = this.#entries.get(key)
    this.#posting(key, answer, entry?.state === 'posting' && entry.isTaken)
  }

  isKept(): boolean {
    return false
  }

  delivered(key: string): void {
    this.#posted(key, true)
  }

  undelivered(key: string): boolean {
    return this.#posted(key, false)
  }

  async rejected(key: string): Promise<boolean> {
    return this.#posted(key, false)
  }

  async stored(): Promise<null> {
    return null
  }

  leftovers(): readonly Leftover[] {
    return []
  }

  async takeOver(): Promise<null> {
    return null
  }

  outbox(): { readonly answers: number; readonly oldestSince: null } {
    const answers = [...this.#entries.values()].filter(({ state }) => state === 'posting').length
    return { answers, oldestSince: null }
  }

  health(): { readonly writable: true; readonly unsaved: 0 } {
    return { writable: true, unsaved: 0 }
  }

  async close(): Promise<boolean> {
    return true
  }

  #posting(key: string, answer: StoredAnswer, isTaken: boolean): void {
    this.#wake(key)
    this.#entries.set(key, { state: 'posting', answer, isTaken })
  }

  /** Whether the backend has had the answer, now or before. */
  #posted(key: string, isTaken: boolean): boolean {
    const entry = this.#entries.get(key)
    if (entry?.state !== 'posting') return isTaken
    const hasIt = isTaken || entry.isTaken
    this.#entries.set(key, { state: 'settled', answer: entry.answer, isTaken: hasIt })
    this.#rest(key, Buffer.byteLength(entry.answer.content) + Buffer.byteLength(entry.answer.provenance))
    return hasIt
  }

  #rest(key: string, bytes: number): void {
    this.#wake(key)
    this.#resting.set(key, bytes)
    this.#restingBytes += bytes
    for (const [oldest] of this.#resting) {
      if (this.#resting.size <= RESTING_MOST && this.#restingBytes <= RESTING_MOST_BYTES) break
      this.#wake(oldest)
      this.#entries.delete(oldest)
    }
  }

  #wake(key: string): void {
    this.#restingBytes -= this.#resting.get(key) ?? 0
    this.#resting.delete(key)
  }
}
