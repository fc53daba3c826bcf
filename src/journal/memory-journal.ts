import type { Claim, Journal, StoredAnswer } from './journal.js'

const SETTLED_MOST = 2_000
const SETTLED_MOST_BYTES = 64 * 1024 * 1024

type Entry = { readonly state: 'claimed' | 'asked' } | { readonly state: 'settled'; readonly answer: StoredAnswer }

/** A journal that lasts as long as the process. Settled calls are forgotten, the oldest first, beyond 2 000 or 64 MiB. */
export class MemoryJournal implements Journal {
  readonly #entries = new Map<string, Entry>()
  readonly #settled = new Map<string, number>()
  #settledBytes = 0

  claim(key: string): Claim {
    const entry = this.#entries.get(key)
    if (entry === undefined) {
      this.#entries.set(key, { state: 'claimed' })
      return { kind: 'fresh' }
    }
    return entry.state === 'settled' ? { kind: 'settled', answer: entry.answer } : { kind: 'known' }
  }

  asked(key: string): void {
    this.#remember(key, { state: 'asked' }, 0)
  }

  settled(key: string, answer: StoredAnswer): void {
    this.#remember(key, { state: 'settled', answer }, answer.content.length + answer.provenance.length)
  }

  released(key: string): void {
    this.#entries.delete(key)
  }

  #remember(key: string, entry: Entry, bytes: number): void {
    this.#entries.set(key, entry)
    this.#settledBytes += bytes - (this.#settled.get(key) ?? 0)
    this.#settled.delete(key)
    this.#settled.set(key, bytes)
    for (const [oldest, size] of this.#settled) {
      if (this.#settled.size <= SETTLED_MOST && this.#settledBytes <= SETTLED_MOST_BYTES) break
      this.#settled.delete(oldest)
      this.#entries.delete(oldest)
      this.#settledBytes -= size
    }
  }
}
