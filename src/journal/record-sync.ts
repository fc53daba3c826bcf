import pLimit from 'p-limit'
import type { Logger } from 'pino'
import { withTimeLimit } from '../time-limit.js'
import { DiskHealth, type DiskPatience } from './disk-health.js'
import type { CallRecord } from './record.js'
import type { RecordStore } from './record-store.js'

/** File operations go through four threads of Node's, which resolve names for the network as well; a disk that hangs keeps its thread. */
const OPERATIONS_AT_ONCE = 2
/** Operations besides writes that wait for a disk that hangs; more are refused at once. */
const OPERATIONS_WAIT_MOST = 1_000
/** A disk that takes longer, such as a network share that has gone, counts as one that refuses. */
const DISK_WITHIN_MS = 10_000

export interface RecordSyncOptions {
  readonly store: RecordStore
  readonly log: Logger
  /** The journal has not been writable for long, or (null) is again. */
  onHealth(reason: string | null): void
  readonly patience?: Partial<DiskPatience>
  /** For each operation; default 10 s. */
  readonly withinMs?: number
}

/** What is to be on disk for a call, null for nothing, and what is. */
interface Entry {
  record: CallRecord | null
  saved: CallRecord | null
  /** Where the record goes when there is to be none: to the answered calls, or nowhere. */
  isAnswered: boolean
  /** A write has failed or not ended, and may have reached the disk all the same. */
  isUnsure: boolean
  /** The disk may say that the code has not started: such a record was saved, or that was tried and may have worked. */
  maySayClaimed: boolean
  flushing: Promise<boolean>
  /** The last of `flushing` has not begun: it will write what the record is then, so that no other is needed. */
  isWaiting: boolean
}

/**
 * The records as they are to be, and the disk that follows them: at once where it can, else as soon as it can. What is on disk does not
 * keep its answer in memory.
 */
export class RecordSync {
  readonly #store: RecordStore
  readonly #entries = new Map<string, Entry>()
  readonly #limit = pLimit(OPERATIONS_AT_ONCE)
  readonly #health: DiskHealth
  readonly #withinMs: number

  constructor({ store, log, onHealth, patience, withinMs = DISK_WITHIN_MS }: RecordSyncOptions) {
    this.#store = store
    this.#withinMs = withinMs
    this.#health = new DiskHealth({
      log,
      // What a crash would lose now; a record that should have gone loses nothing.
      unsaved: () => this.unsaved,
      tryAgain: () => this.tryAgain(),
      onHealth,
      ...(patience === undefined ? {} : { patience }),
    })
  }

  get(key: string): CallRecord | null {
    return this.#entries.get(key)?.record ?? null
  }

  /** The records that are to be there, in the order in which they came. */
  *records(): Generator<CallRecord> {
    for (const { record } of this.#entries.values()) if (record !== null) yield record
  }

  /** Calls that are in memory alone: a crash would lose them. A record that should have gone loses nothing. */
  get unsaved(): number {
    return this.#behind().filter(key => this.get(key) !== null).length
  }

  /** Whether the disk took what it was last asked to write. */
  get isWritable(): boolean {
    return !this.#health.isRefusing
  }

  /** Whether the disk may say of a call that its code has not started. */
  maySayClaimed(key: string): boolean {
    return this.#entries.get(key)?.maySayClaimed ?? false
  }

  /** Whether a record is there, and the disk has it as it is. */
  isSaved(key: string): boolean {
    const entry = this.#entries.get(key)
    return entry !== undefined && entry.record !== null && entry.saved === entry.record
  }

  /** A record that was found on disk. */
  adopt(record: CallRecord): void {
    this.#entries.set(record.key, { ...newEntry(record), saved: record, maySayClaimed: record.state === 'claimed' })
  }

  /** From now on; written with the next persist() or flush(). */
  set(record: CallRecord): void {
    const entry = this.#entries.get(record.key)
    if (entry !== undefined) entry.record = record
    else this.#entries.set(record.key, newEntry(record))
  }

  /** `isAnswered`: the disk goes on to know the call as one that has its answer. */
  drop(key: string, { isAnswered }: { readonly isAnswered: boolean }): void {
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    entry.record = null
    entry.isAnswered = isAnswered
    void this.flush(key)
  }

  /** As flush, but while the disk refuses nobody waits for it: it is tried again for all calls together. */
  async persist(key: string): Promise<void> {
    if (this.#health.isRefusing) this.#health.judge()
    else await this.flush(key)
  }

  /** Brings the disk to what the record is now, or is by its turn. Resolves with whether it is there, in bounded time. */
  async flush(key: string): Promise<boolean> {
    const entry = this.#entries.get(key)
    if (entry === undefined) return true
    // One after the other, however long each takes: a late write must not bring back what a later one has removed.
    if (!entry.isWaiting) {
      entry.isWaiting = true
      entry.flushing = entry.flushing.then(() => this.#limit(() => this.#write(key, entry)))
    }
    try {
      return await withTimeLimit(this.#withinMs, null, () => entry.flushing)
    } catch (error) {
      this.#health.refused(error)
      return false
    }
  }

  /** Another operation on the store. Errors: its own, and that it took too long. */
  async operate<T>(work: (store: RecordStore) => Promise<T>): Promise<T> {
    if (this.#limit.pendingCount > OPERATIONS_WAIT_MOST) throw new Error('the disk does not answer')
    return await withTimeLimit(this.#withinMs, null, () => this.#limit(() => work(this.#store)))
  }

  /** Writes what is not as it should be on disk; where nothing is, finds out whether anything could be. Never rejects. */
  async tryAgain(): Promise<void> {
    const behind = this.#behind()
    if (behind.length > 0) await Promise.all(behind.map(key => this.flush(key)))
    else {
      await this.operate(store => store.probe()).then(
        () => this.#health.wrote(),
        (error: unknown) => this.#health.refused(error),
      )
    }
  }

  /** Writes what is not written, within the time. Resolves with whether the disk is as it should be; never rejects. */
  async close(withinMs = this.#withinMs): Promise<boolean> {
    const flushed = Promise.all([...this.#entries.keys()].map(key => this.flush(key)))
    await withTimeLimit(withinMs, null, () => flushed).catch(() => {}) // what is not written by then is counted below
    this.#health.close()
    // Also a record that should have gone: the next life would answer an answered call.
    return this.#behind().length === 0
  }

  async #write(key: string, entry: Entry): Promise<boolean> {
    entry.isWaiting = false
    const { record } = entry
    if (isBehind(entry)) {
      const { isUnsure, maySayClaimed } = entry
      let isNamed = false
      // Before it begins: one that hangs may reach the disk at any time.
      entry.isUnsure = true
      entry.maySayClaimed ||= record?.state === 'claimed'
      try {
        if (record === null) await (entry.isAnswered ? this.#store.retire(key) : this.#store.remove(key))
        else {
          await this.#store.save(record, () => {
            isNamed = true
          })
        }
      } catch (error) {
        // An error of the device says nothing of what it did before.
        const isUndone = !isNamed && record !== null && (error as NodeJS.ErrnoException).code !== 'EIO'
        if (isUndone) Object.assign(entry, { isUnsure, maySayClaimed })
        this.#health.refused(error)
        return false
      }
      entry.saved = record
      entry.isUnsure = false
      entry.maySayClaimed = record?.state === 'claimed'
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
    return [...this.#entries].filter(([, entry]) => isBehind(entry)).map(([key]) => key)
  }
}

function newEntry(record: CallRecord): Entry {
  const written = { saved: null, isAnswered: false, isUnsure: false, maySayClaimed: false }
  return { record, ...written, flushing: Promise.resolve(true), isWaiting: false }
}

function isBehind({ record, saved, isUnsure }: Entry): boolean {
  return saved !== record || (record === null && isUnsure)
}
