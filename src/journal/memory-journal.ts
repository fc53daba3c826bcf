import { createHash } from 'node:crypto'
import { exactJson, parseExactly } from '../exact-json.js'
import type { ToolLog, ToolStep } from '../toolbox/tool-log.js'
import {
  bytesOf,
  type Claim,
  type ClaimedCall,
  type Journal,
  type Leftover,
  type Outbox,
  type StoredAnswer,
} from './journal.js'
import { RecentNames } from './recent-names.js'

const RESTING_MOST = 2_000
const RESTING_MOST_BYTES = 64 * 1024 * 1024

const DECIDED = ':decided'
/** Ids of calls whose code has called tools, kept when all else of them is forgotten. */
const FORGOTTEN_MOST = 10_000

type Entry =
  | { readonly state: 'claimed' | 'asked' | 'left' }
  /** `isTaken`: the backend has had it before. */
  | { readonly state: 'posting' | 'settled'; readonly answer: StoredAnswer; readonly isTaken: boolean }

/**
 * A journal that lasts as long as the process. Calls on which nothing is being done are forgotten, the oldest first, beyond
 * 2 000 or 64 MiB of UTF-8; one that is being worked on or posted never is, as its next delivery would run it again. Of one that was
 * answered, or is answered by another, that is remembered for 15 minutes more, as it would run again, too. Of one that waits for
 * a person it is remembered that its code has called tools, so that a word that comes too late does not have them called again.
 */
export class MemoryJournal implements Journal {
  readonly #entries = new Map<string, Entry>()
  /** Bytes of the entries that may be forgotten, the oldest first. */
  readonly #resting = new Map<string, number>()
  #restingBytes = 0
  /** By the id of the call, as long as it is not answered; as JSON, since that has a size. */
  readonly #toolSteps = new Map<string, { readonly lines: Buffer[]; bytes: number; hasCalled: boolean }>()
  /** sha256 of ids, the oldest first. */
  readonly #forgotten = new Set<string>()
  /** sha256 of the keys of calls that are over. */
  readonly #answered: RecentNames
  readonly #left: RecentNames
  readonly #now: () => number

  /** `wallClock`: milliseconds since the epoch. `namesMost`: of calls that are over, see RecentNames. */
  constructor(options: { readonly wallClock?: () => number; readonly namesMost?: number } = {}) {
    this.#now = options.wallClock ?? Date.now
    this.#answered = new RecentNames(options.namesMost)
    this.#left = new RecentNames(options.namesMost)
  }

  keyOf({ fcall_id, confirmed_by_human }: Pick<ClaimedCall, 'fcall_id' | 'confirmed_by_human'>): string {
    const hasAsked = this.#entries.get(fcall_id)?.state === 'asked' || this.hasDecided({ fcall_id })
    return confirmed_by_human !== null && hasAsked ? fcall_id + DECIDED : fcall_id
  }

  claim(key: string, _call?: ClaimedCall, createdAt = Number.POSITIVE_INFINITY): Claim {
    const entry = this.#entries.get(key)
    if (entry === undefined) {
      const name = hashed(key)
      if (this.#left.has(name) || this.hasDecided({ fcall_id: key })) return { kind: 'known' }
      this.#entries.set(key, { state: 'claimed' })
      if (this.#answered.has(name)) return { kind: 'stored' }
      return { kind: this.#mayHaveForgotten(key, createdAt) ? 'forgotten' : 'fresh' }
    }
    if (entry.state !== 'settled') return { kind: 'known' }
    this.#posting(key, entry.answer, entry.isTaken)
    return { kind: 'settled', answer: entry.answer }
  }

  async started(): Promise<boolean> {
    return true
  }

  hasDecided({ fcall_id }: Pick<ClaimedCall, 'fcall_id'>): boolean {
    const key = fcall_id + DECIDED
    return this.#entries.has(key) || this.#answered.has(hashed(key)) || this.#left.has(hashed(key))
  }

  asking(key: string): void {
    this.#entries.set(key, { state: 'asked' })
  }

  asked(key: string): void {
    if (this.#entries.get(key)?.state === 'asked') this.#rest(key, this.#toolSteps.get(key)?.bytes ?? 0)
  }

  left(key: string): void {
    this.#entries.set(key, { state: 'left' })
    this.#isOver(idOf(key))
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

  toolLog({ fcall_id }: Pick<ClaimedCall, 'fcall_id'>): ToolLog {
    return {
      earlier: async () => {
        const { lines } = this.#toolSteps.get(fcall_id) ?? { lines: [] }
        const steps = lines.map(line => parseExactly(line.toString('utf8')) as ToolStep)
        return { steps, isWhole: !this.#forgotten.has(hashed(fcall_id)) }
      },
      note: async step => {
        const line = Buffer.from(exactJson(step), 'utf8')
        const steps = this.#toolSteps.get(fcall_id) ?? { lines: [], bytes: 0, hasCalled: false }
        steps.lines.push(line)
        steps.bytes += line.length
        steps.hasCalled ||= step.step === 'called'
        this.#toolSteps.set(fcall_id, steps)
        return true
      },
    }
  }

  leftovers(): readonly Leftover[] {
    return []
  }

  async takeOver(): Promise<null> {
    return null
  }

  outbox(): Outbox {
    const posting = [...this.#entries.values()].flatMap(entry => (entry.state === 'posting' ? [entry.answer] : []))
    return {
      answers: posting.length,
      bytes: posting.reduce((sum, answer) => sum + bytesOf(answer), 0),
      oldestSince: null,
    }
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
    this.#isOver(idOf(key))
    const entry = this.#entries.get(key)
    if (entry?.state !== 'posting') return isTaken
    const hasIt = isTaken || entry.isTaken
    this.#entries.set(key, { state: 'settled', answer: entry.answer, isTaken: hasIt })
    this.#rest(key, bytesOf(entry.answer))
    return hasIt
  }

  #rest(key: string, bytes: number): void {
    this.#wake(key)
    this.#resting.set(key, bytes)
    this.#restingBytes += bytes
    for (const [oldest] of this.#resting) {
      if (this.#resting.size <= RESTING_MOST && this.#restingBytes <= RESTING_MOST_BYTES) break
      this.#wake(oldest)
      // One that was asked, and is decided now, is being worked on under its other key: that needs what it has called.
      const state = this.#entries.get(oldest)?.state
      const needsSteps = state === 'asked' && !this.#entries.has(oldest + DECIDED)
      this.#entries.delete(oldest)
      if (state === 'settled') this.#remember(this.#answered, oldest)
      if (state === 'left') this.#remember(this.#left, oldest)
      if (!needsSteps) continue
      if (this.#toolSteps.get(oldest)?.hasCalled === true) this.#forget(oldest)
      this.#toolSteps.delete(oldest)
    }
  }

  #remember(names: RecentNames, key: string): void {
    const now = this.#now()
    names.add(hashed(key), now)
    names.prune(now)
  }

  /** A call that a person was asked for by us, and has decided only now, was not answered before. */
  #mayHaveForgotten(key: string, createdAt: number): boolean {
    const now = this.#now()
    const mayHave = [this.#answered, this.#left].some(names => names.mayHaveForgotten(createdAt, now))
    return mayHave && !key.endsWith(DECIDED)
  }

  #forget(fcallId: string): void {
    this.#forgotten.add(hashed(fcallId))
    for (const oldest of this.#forgotten) {
      if (this.#forgotten.size <= FORGOTTEN_MOST) break
      this.#forgotten.delete(oldest)
    }
  }

  /** The call is answered, or not ours. */
  #isOver(fcallId: string): void {
    this.#toolSteps.delete(fcallId)
    this.#forgotten.delete(hashed(fcallId))
    if (this.#entries.get(fcallId)?.state !== 'asked' || !this.#resting.has(fcallId)) return
    this.#restingBytes -= this.#resting.get(fcallId) ?? 0
    this.#resting.set(fcallId, 0)
  }

  #wake(key: string): void {
    this.#restingBytes -= this.#resting.get(key) ?? 0
    this.#resting.delete(key)
  }
}

/** Ids are the backend's, and may be of any length. */
function hashed(id: string): string {
  return createHash('sha256').update(id).digest('base64')
}

function idOf(key: string): string {
  return key.endsWith(DECIDED) ? key.slice(0, -DECIDED.length) : key
}
