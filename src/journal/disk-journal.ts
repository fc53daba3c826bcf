import pLimit from 'p-limit'
import type { Logger } from 'pino'
import { DiskHealth, type DiskPatience } from './disk-health.js'
import type { Claim, ClaimedCall, Journal, Leftover, StoredAnswer } from './journal.js'
import { MemoryJournal } from './memory-journal.js'
import { type CallRecord, fileNameOf } from './record.js'
import { RecordStore } from './record-store.js'

/** A person is asked for so long; the backend's own limit is not known (docs/protocol.md, "Asking a person"). */
const ASKED_KEPT_MS = 30 * 24 * 3_600_000
/** File operations go through four threads of Node's, which resolve names for the network as well. */
const WRITES_AT_ONCE = 2
/** A disk that takes longer, such as a network share that has gone, counts as one that refuses. */
const WRITE_WITHIN_MS = 10_000

export interface DiskJournalOptions {
  readonly stateDir: string
  readonly log: Logger
  /** The journal has not been writable for long, or (null) is again. */
  onHealth(reason: string | null): void
  readonly patience?: Partial<DiskPatience>
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
}

/** What is to be on disk for a call, null for nothing, and what is. */
interface Entry {
  record: CallRecord | null
  saved: CallRecord | null
  flushing: Promise<boolean>
}

/**
 * A journal that outlives the process: each call that is not yet answered is a file below `stateDir`. What the memory journal knows of calls that
 * were answered is kept beside it, as there. Where the disk refuses, calls are kept in memory and written as soon as it can be.
 */
export class DiskJournal implements Journal {
  readonly #memory = new MemoryJournal()
  readonly #store: RecordStore
  readonly #entries = new Map<string, Entry>()
  readonly #leftovers = new Set<string>()
  /** Names of the files of calls whose answer the backend has refused for good. */
  readonly #rejected: Set<string>
  readonly #limit = pLimit(WRITES_AT_ONCE)
  readonly #health: DiskHealth
  readonly #log: Logger
  readonly #now: () => number

  private constructor(
    { store, records, rejected }: Awaited<ReturnType<typeof RecordStore.open>>,
    options: DiskJournalOptions,
  ) {
    this.#store = store
    this.#rejected = new Set(rejected)
    this.#log = options.log
    this.#now = options.wallClock ?? Date.now
    this.#health = new DiskHealth({
      log: options.log,
      // What a crash would lose now; a record that should have gone loses nothing.
      unsaved: () => this.#behind().filter(key => this.#recordOf(key) !== null).length,
      tryAgain: () => this.#tryAgain(),
      onHealth: options.onHealth,
      ...(options.patience === undefined ? {} : { patience: options.patience }),
    })
    for (const record of records) this.#adopt(record)
  }

  /** Errors: the folder can't be made or read. One that can't be written to is told, and tried again. */
  static async open(options: DiskJournalOptions): Promise<DiskJournal> {
    const journal = new DiskJournal(await RecordStore.open(options.stateDir, options.log), options)
    await journal.#tryAgain()
    return journal
  }

  keyOf(call: Pick<ClaimedCall, 'fcall_id' | 'confirmed_by_human'>): string {
    const decided = `${call.fcall_id}:decided`
    // Memory forgets, the disk does not.
    const hasAsked = this.#recordOf(call.fcall_id)?.state === 'asked' || this.#recordOf(decided) !== null
    return call.confirmed_by_human !== null && hasAsked ? decided : this.#memory.keyOf(call)
  }

  claim(key: string, call: ClaimedCall): Claim {
    const claim = this.#memory.claim(key)
    if (claim.kind === 'settled') this.#leftovers.delete(key)
    // Forgotten in memory, but there: whoever works on the leftovers posts it.
    if (claim.kind === 'fresh' && this.#recordOf(key) !== null) return { kind: 'known' }
    if (claim.kind === 'fresh' && this.#rejected.has(fileNameOf(key))) return { kind: 'stored' }
    if (claim.kind === 'fresh') {
      if (key !== call.fcall_id) this.#drop(call.fcall_id) // the person has answered: nothing to be kept for that any more
      const at = this.#now()
      const { fcall_id, fcall_untrusted_key, connected_persona_id, confirmed_by_human } = call
      const identity = { fcall_id, fcall_untrusted_key, connected_persona_id, confirmed_by_human }
      this.#change(key, { version: 1, key, state: 'claimed', claimedAt: at, since: at, call: identity, answer: null })
      // Where it gets its slot at once, as most do, one write says both.
      setImmediate(() => void this.#persist(key))
    }
    return claim
  }

  async started(key: string): Promise<boolean> {
    this.#enter(key, 'started', null)
    // What is on disk would be answered "not run" by the next life: that has to be put right first, whatever the disk's health.
    if (this.#entries.get(key)?.saved?.state === 'claimed') return await this.#flush(key)
    await this.#persist(key)
    return true
  }

  hasDecided(call: Pick<ClaimedCall, 'fcall_id'>): boolean {
    return this.#memory.hasDecided(call) || this.#recordOf(`${call.fcall_id}:decided`) !== null
  }

  async stored(key: string): Promise<StoredAnswer | null> {
    const answer = await this.#store.readRejected(key).catch(() => null)
    if (answer !== null) await this.#memory.settled(key, answer)
    return answer
  }

  asking(key: string): void {
    // On disk it stays claimed: who dies now can't know whether the person was asked, and answers the call.
    this.#memory.asking(key)
  }

  asked(key: string): void {
    this.#memory.asked(key)
    this.#enter(key, 'asked', null)
    void this.#persist(key)
    this.#forgetOldAsked()
  }

  left(key: string): void {
    this.#memory.left(key)
    this.#drop(key)
  }

  async settled(key: string, answer: StoredAnswer): Promise<void> {
    await this.#memory.settled(key, answer)
    this.#enter(key, 'settled', answer)
    await this.#persist(key)
  }

  delivered(key: string): void {
    this.#memory.delivered(key)
    this.#drop(key)
  }

  undelivered(key: string): boolean {
    this.#memory.undelivered(key)
    const entry = this.#entries.get(key)
    if (entry?.record == null) return false
    this.#leftovers.add(key)
    return entry.saved === entry.record
  }

  async rejected(key: string, reason: string): Promise<boolean> {
    await this.#memory.rejected(key)
    const record = this.#recordOf(key)
    if (record === null) return false
    const whole = record.answer === null ? ((await this.#store.read(key).catch(() => null)) ?? record) : record
    const kept = await this.#store.reject(whole, reason).then(
      () => true,
      (error: unknown) => {
        this.#log.error({ err: error }, 'a rejected answer can not be kept')
        return false
      },
    )
    if (kept) {
      this.#rejected.add(fileNameOf(key))
      this.#drop(key)
    } else this.#leftovers.add(key)
    return kept
  }

  leftovers(): readonly Leftover[] {
    const found: Leftover[] = []
    for (const key of this.#leftovers) {
      const record = this.#recordOf(key)
      if (record === null || record.state === 'asked') continue
      found.push({ key, call: record.call, state: record.state, claimedAt: record.claimedAt, since: record.since })
    }
    return found
  }

  async takeOver(key: string): Promise<{ readonly answer: StoredAnswer | null } | null> {
    if (!this.#leftovers.delete(key)) return null
    const record = this.#recordOf(key)
    if (record?.state !== 'settled') return { answer: null }
    const claim = this.#memory.claim(key)
    if (claim.kind === 'settled') return { answer: claim.answer }
    let answer: StoredAnswer | null
    try {
      answer = record.answer ?? (await this.#store.read(key))?.answer ?? null
    } catch (error) {
      this.#log.error({ err: error }, 'an answer in the journal can not be read for now')
      this.#leftovers.add(key)
      return null
    }
    if (answer !== null) await this.#memory.settled(key, answer)
    return { answer }
  }

  outbox(): { readonly answers: number; readonly oldestSince: number | null } {
    const since = [...this.#entries.values()].flatMap(({ record }) =>
      record?.state === 'settled' ? [record.since] : [],
    )
    return { answers: since.length, oldestSince: since.length === 0 ? null : since.reduce((a, b) => Math.min(a, b)) }
  }

  async close(withinMs = WRITE_WITHIN_MS): Promise<boolean> {
    const flushed = Promise.all([...this.#entries.keys()].map(key => this.#flush(key)))
    await withinTime(flushed, withinMs).catch(() => {}) // what is not written by then is counted below
    this.#health.close()
    // Also a record that should have gone: the next life would answer an answered call.
    return this.#behind().length === 0
  }

  /** Whether the disk still has not answered: no exit but by SIGKILL ends the process then. */
  get isStuck(): boolean {
    return this.#limit.activeCount > 0
  }

  #recordOf(key: string): CallRecord | null {
    return this.#entries.get(key)?.record ?? null
  }

  #adopt(record: CallRecord): void {
    if (record.state === 'asked' && record.since < this.#now() - ASKED_KEPT_MS) {
      this.#entries.set(record.key, { record: null, saved: record, flushing: Promise.resolve(true) })
      void this.#flush(record.key)
      return
    }
    this.#entries.set(record.key, { record, saved: record, flushing: Promise.resolve(true) })
    this.#memory.claim(record.key)
    if (record.state === 'asked') {
      this.#memory.asking(record.key)
      this.#memory.asked(record.key)
    } else this.#leftovers.add(record.key)
  }

  #forgetOldAsked(): void {
    const before = this.#now() - ASKED_KEPT_MS
    for (const [key, { record }] of this.#entries) {
      if (record?.state === 'asked' && record.since < before) this.#drop(key)
    }
  }

  /** The next state of a call whose record is there. */
  #enter(key: string, state: CallRecord['state'], answer: StoredAnswer | null): void {
    const record = this.#recordOf(key)
    if (record !== null) this.#change(key, { ...record, state, since: this.#now(), answer })
  }

  #drop(key: string): void {
    this.#leftovers.delete(key)
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    entry.record = null
    void this.#flush(key)
  }

  #change(key: string, record: CallRecord): void {
    const entry = this.#entries.get(key)
    if (entry !== undefined) entry.record = record
    else this.#entries.set(key, { record, saved: null, flushing: Promise.resolve(true) })
  }

  /** As #flush, but while the disk refuses nobody waits for it: it is tried again for all calls together. */
  async #persist(key: string): Promise<void> {
    if (this.#health.isRefusing) this.#health.judge()
    else await this.#flush(key)
  }

  /** Brings the disk to what the record is now, or is by its turn. Resolves with whether it is there. */
  async #flush(key: string): Promise<boolean> {
    const entry = this.#entries.get(key)
    if (entry === undefined) return true
    // One after the other, however long each takes: a late write must not bring back what a later one has removed.
    entry.flushing = entry.flushing.then(() => this.#limit(() => this.#write(key, entry)))
    try {
      return await withinTime(entry.flushing)
    } catch (error) {
      this.#health.refused(error)
      return false
    }
  }

  async #write(key: string, entry: Entry): Promise<boolean> {
    const { record } = entry
    if (entry.saved !== record) {
      try {
        await (record === null ? this.#store.remove(key) : this.#store.save(record))
      } catch (error) {
        this.#health.refused(error)
        return false
      }
      entry.saved = record
      this.#health.wrote()
    }
    if (entry.record !== record) return true // it has moved on, and whoever moved it has asked for one more turn
    if (record === null) {
      if (this.#entries.get(key) === entry) this.#entries.delete(key)
    } else if (record.answer !== null) {
      // The memory journal has it as long as it is being posted; after that it is read from the disk.
      entry.record = entry.saved = { ...record, answer: null }
    }
    return true
  }

  /** Calls of which the disk does not hold what it should. */
  #behind(): string[] {
    return [...this.#entries].filter(([, { record, saved }]) => saved !== record).map(([key]) => key)
  }

  /** Everything that is not as it should be on disk; where nothing is, whether anything could be. */
  async #tryAgain(): Promise<void> {
    const behind = this.#behind()
    if (behind.length > 0) await Promise.all(behind.map(key => this.#flush(key)))
    else {
      await withinTime(this.#limit(() => this.#store.probe())).then(
        () => this.#health.wrote(),
        (error: unknown) => this.#health.refused(error),
      )
    }
  }
}

async function withinTime<T>(operation: Promise<T>, ms = WRITE_WITHIN_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the disk did not answer within ${ms} ms`)), ms)
  })
  operation.catch(() => {}) // told by the race, or too late
  try {
    return await Promise.race([operation, expired])
  } finally {
    clearTimeout(timer)
  }
}
