import type { Logger } from 'pino'
import { withStepLimit } from '../time-limit.js'
import type { ToolLog } from '../toolbox/tool-log.js'
import type { AnsweredFiles } from './answered-files.js'
import type { DiskPatience } from './disk-health.js'
import {
  bytesOf,
  type Claim,
  type ClaimedCall,
  type Journal,
  type Leftover,
  type Outbox,
  type StoredAnswer,
} from './journal.js'
import { MemoryJournal } from './memory-journal.js'
import { type CallRecord, fileNameOf } from './record.js'
import { RecordStore } from './record-store.js'
import { RecordSync } from './record-sync.js'
import type { ToolSteps } from './tool-steps.js'

/** A person is asked for so long; the backend's own limit is not known (docs/protocol.md, "Asking a person"). */
const ASKED_KEPT_MS = 30 * 24 * 3_600_000
/** Of calls that wait for a person; the oldest are forgotten. */
const ASKED_MOST = 10_000
/** Of what their tools have answered; beyond, the oldest answers go, and a yes to their calls can't be followed any more. */
const ASKED_MOST_BYTES = 256 * 1024 * 1024
/** For each step of reading what is there at the start: there may be much, on a slow disk. */
const OPEN_STEP_WITHIN_MS = 30_000
/** Answers of calls that are over are not left on disk for longer than they are of use, also where no other call comes. */
const PRUNE_EVERY_MS = 60_000

export interface DiskJournalOptions {
  readonly stateDir: string
  readonly log: Logger
  /** The journal has not been writable for long, or (null) is again. */
  onHealth(reason: string | null): void
  readonly patience?: Partial<DiskPatience>
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  /** What each operation on the disk may take; default 10 s. */
  readonly withinMs?: number
  /** Default 256 MiB. */
  readonly askedMostBytes?: number
}

/**
 * A journal that outlives the process: each call that is not yet answered is a file below `stateDir`, and each that was, for a while. What the
 * memory journal knows is kept beside it, as there. Where the disk refuses, calls are kept in memory and written as soon as it can be.
 */
export class DiskJournal implements Journal {
  readonly #memory: MemoryJournal
  readonly #sync: RecordSync
  readonly #leftovers = new Set<string>()
  /** Those that were found on disk. */
  readonly #earlier = new Set<string>()
  /** Names of the files in rejected/. */
  readonly #rejected: Set<string>
  readonly #answered: AnsweredFiles
  readonly #pruning: NodeJS.Timeout
  readonly #toolSteps: ToolSteps
  /** By the id of the call, as long as it is not answered: how many tools its code has called in this life. */
  readonly #toolCalls = new Map<string, number>()
  readonly #log: Logger
  readonly #askedMostBytes: number
  readonly #now: () => number

  private constructor(
    { store, records, rejected }: Awaited<ReturnType<typeof RecordStore.open>>,
    options: DiskJournalOptions,
  ) {
    this.#rejected = new Set(rejected)
    this.#toolSteps = store.toolSteps
    this.#log = options.log
    this.#askedMostBytes = options.askedMostBytes ?? ASKED_MOST_BYTES
    this.#now = options.wallClock ?? Date.now
    this.#memory = new MemoryJournal({ wallClock: this.#now })
    this.#answered = store.answered
    this.#sync = new RecordSync({ ...options, store })
    this.#pruning = setInterval(() => this.#prune(), PRUNE_EVERY_MS).unref()
    this.#prune()
    for (const record of records) this.#sync.adopt(record)
    for (const record of records) this.#adopt(record)
    this.#forgetOldAsked()
  }

  /** Errors: the folder can't be made or read, or does not answer (TimeLimitError). One that can't be written to is told, and tried again. */
  static async open(options: DiskJournalOptions): Promise<DiskJournal> {
    const { stateDir, log } = options
    const opened = withStepLimit(OPEN_STEP_WITHIN_MS, onStep => RecordStore.open(stateDir, log, onStep))
    const journal = new DiskJournal(await opened, options)
    await journal.#sync.tryAgain()
    return journal
  }

  keyOf(call: Pick<ClaimedCall, 'fcall_id' | 'confirmed_by_human'>): string {
    // Memory forgets, the disk does not.
    const hasAsked = this.#sync.get(call.fcall_id)?.state === 'asked' || this.#isOnDisk(decidedKey(call))
    return call.confirmed_by_human !== null && hasAsked ? decidedKey(call) : this.#memory.keyOf(call)
  }

  claim(key: string, call: ClaimedCall, createdAt = Number.POSITIVE_INFINITY): Claim {
    const claim = this.#memory.claim(key, call, createdAt)
    if (claim.kind === 'settled') this.#leftovers.delete(key)
    if (claim.kind === 'settled' || claim.kind === 'known') return claim
    // Forgotten in memory, but there: whoever works on the leftovers posts it.
    if (this.#sync.get(key) !== null) return { kind: 'known' }
    if (claim.kind === 'stored' || this.#hasAnswerFile(key)) return { kind: 'stored' }
    const asked = key === call.fcall_id ? null : this.#sync.get(call.fcall_id)
    const at = this.#now()
    let isForgotten = claim.kind === 'forgotten'
    if (key === call.fcall_id) {
      // A person was asked, has decided, and the call was answered by that.
      if (this.#isOnDisk(decidedKey(call))) return { kind: 'known' }
      isForgotten ||= this.#answered.mayHaveForgotten(createdAt, at)
    }
    const { fcall_id, fcall_untrusted_key, connected_persona_id, confirmed_by_human } = call
    const identity = { fcall_id, fcall_untrusted_key, connected_persona_id, confirmed_by_human }
    this.#sync.set({
      version: 1,
      key,
      state: isForgotten ? 'started' : 'claimed', // the next life may not say that its code never ran
      claimedAt: at,
      since: at,
      call: identity,
      toolCalls: asked?.toolCalls ?? 0,
      answer: null,
    })
    // Where it gets its slot at once, as most do, one write says both.
    setImmediate(async () => {
      await this.#sync.persist(key)
      // The person has answered. Not before the disk knows that: who dies between would find neither, and run the code anew.
      if (asked !== null && this.#sync.isSaved(key)) this.#drop(call.fcall_id, { isAnswered: false })
    })
    return { kind: isForgotten ? 'forgotten' : 'fresh' }
  }

  async started(key: string): Promise<boolean> {
    this.#enter(key, 'started', null)
    // What may be on disk would be answered "not run" by the next life: that has to be put right first, whatever the disk's health.
    if (this.#sync.maySayClaimed(key)) return await this.#sync.flush(key)
    await this.#sync.persist(key)
    return true
  }

  hasDecided(call: Pick<ClaimedCall, 'fcall_id'>): boolean {
    return this.#memory.hasDecided(call) || this.#isOnDisk(decidedKey(call))
  }

  async stored(key: string): Promise<StoredAnswer | null> {
    const read = (store: RecordStore) => store.answered.read(fileNameOf(key)).catch(() => null)
    const answered = await this.#sync.operate(read).catch(() => null)
    const answer = answered ?? (await this.#sync.operate(store => store.readRejected(key)).catch(() => null))
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
    const record = this.#sync.get(key)
    if (record !== null) this.#sync.set({ ...record, toolCalls: this.#toolCalls.get(record.call.fcall_id) ?? 0 })
    void this.#sync.persist(key)
    this.#forgetOldAsked()
  }

  left(key: string): void {
    this.#memory.left(key)
    this.#drop(key, { isAnswered: false })
  }

  async settled(key: string, answer: StoredAnswer): Promise<void> {
    await this.#memory.settled(key, answer)
    this.#enter(key, 'settled', answer)
    await this.#sync.persist(key)
  }

  delivered(key: string): void {
    this.#memory.delivered(key)
    this.#drop(key, { isAnswered: true })
  }

  undelivered(key: string): boolean {
    const hadItBefore = this.#memory.undelivered(key)
    if (this.#sync.get(key) === null) return hadItBefore || this.#hasAnswerFile(key)
    this.#leftovers.add(key)
    return this.#sync.isSaved(key)
  }

  isKept(key: string): boolean {
    return this.#sync.isSaved(key)
  }

  async rejected(key: string, reason: string): Promise<boolean> {
    const hadItBefore = await this.#memory.rejected(key)
    const record = this.#sync.get(key)
    if (record === null) return hadItBefore || this.#hasAnswerFile(key)
    const reject = async (store: RecordStore) => {
      const whole = record.answer === null ? ((await store.read(key).catch(() => null)) ?? record) : record
      return await store.reject(whole, reason)
    }
    const gone = await this.#sync.operate(reject).catch((error: unknown) => {
      this.#log.error({ err: error }, 'a rejected answer can not be kept')
      return null
    })
    if (gone === null) {
      this.#leftovers.add(key)
      return false
    }
    this.#rejected.add(fileNameOf(key))
    for (const name of gone) this.#rejected.delete(name)
    this.#drop(key, { isAnswered: true })
    return true
  }

  toolLog({ fcall_id }: Pick<ClaimedCall, 'fcall_id'>): ToolLog {
    return {
      earlier: async () => {
        const { toolCalls } = this.#sync.get(decidedKey({ fcall_id })) ?? this.#sync.get(fcall_id) ?? { toolCalls: 0 }
        if (toolCalls === 0 && !this.#toolSteps.has(fcall_id)) return { steps: [], isWhole: true }
        try {
          const { steps, isWhole } = await this.#sync.operate(store => store.toolSteps.read(fcall_id))
          const called = steps.filter(({ step }) => step === 'called').length
          return { steps, isWhole: isWhole && called >= toolCalls }
        } catch (error) {
          this.#log.error({ err: error }, 'what a call has called can not be read')
          return { steps: [], isWhole: false }
        }
      },
      note: async step => {
        try {
          await this.#sync.operate(store => store.toolSteps.note(fcall_id, step))
          if (step.step === 'called') this.#toolCalls.set(fcall_id, (this.#toolCalls.get(fcall_id) ?? 0) + 1)
          return true
        } catch (error) {
          this.#log.error({ err: error }, 'what a call has called can not be written')
          return false
        }
      },
    }
  }

  leftovers(): readonly Leftover[] {
    const found: Leftover[] = []
    for (const key of this.#leftovers) {
      const record = this.#sync.get(key)
      if (record === null || record.state === 'asked') continue
      const { call, state, claimedAt, since } = record
      found.push({ key, call, state, isOfEarlierLife: this.#earlier.has(key), claimedAt, since })
    }
    return found
  }

  async takeOver(key: string): Promise<{ readonly answer: StoredAnswer | null } | null> {
    if (!this.#leftovers.delete(key)) return null
    const record = this.#sync.get(key)
    if (record?.state !== 'settled') return { answer: null }
    const claim = this.#memory.claim(key)
    if (claim.kind === 'settled') return { answer: claim.answer }
    let answer: StoredAnswer | null
    try {
      answer = record.answer ?? (await this.#sync.operate(store => store.read(key)))?.answer ?? null
    } catch (error) {
      this.#log.error({ err: error }, 'an answer in the journal can not be read for now')
      this.#leftovers.add(key)
      return null
    }
    if (answer !== null) await this.#memory.settled(key, answer)
    return { answer }
  }

  outbox(): Outbox {
    let [answers, bytes, oldest] = [0, 0, Number.POSITIVE_INFINITY]
    for (const { state, answerBytes = 0, since } of this.#sync.records()) {
      if (state !== 'settled') continue
      answers++
      bytes += answerBytes
      oldest = Math.min(oldest, since)
    }
    return { answers, bytes, oldestSince: answers === 0 ? null : oldest }
  }

  health(): { readonly writable: boolean; readonly unsaved: number } {
    return { writable: this.#sync.isWritable, unsaved: this.#sync.unsaved }
  }

  async close(withinMs?: number): Promise<boolean> {
    clearInterval(this.#pruning)
    return await this.#sync.close(withinMs)
  }

  #adopt(record: CallRecord): void {
    // A person has decided, and the end of the worker came before this was removed: the call is answered as that says.
    if (record.key === record.call.fcall_id && this.#isOnDisk(decidedKey(record.call))) {
      this.#drop(record.key, { isAnswered: false })
      return
    }
    this.#memory.claim(record.key)
    if (record.state === 'asked') {
      this.#memory.asking(record.key)
      this.#memory.asked(record.key)
    } else {
      this.#leftovers.add(record.key)
      this.#earlier.add(record.key)
    }
  }

  #forgetOldAsked(): void {
    const before = this.#now() - ASKED_KEPT_MS
    const asked = [...this.#sync.records()].filter(({ state }) => state === 'asked').sort((a, b) => a.since - b.since)
    const tooMany = asked.length - ASKED_MOST
    let bytes = asked.reduce((sum, { key }) => sum + this.#toolSteps.bytesOf(key), 0)
    for (const [n, { key, since, toolCalls }] of asked.entries()) {
      // One that has been decided needs what it has called until it is answered.
      if (this.#sync.get(decidedKey({ fcall_id: key })) !== null) continue
      const own = this.#toolSteps.bytesOf(key) // before they are dropped, after which it is none
      const isGone = since < before || n < tooMany
      if (isGone) this.#drop(key, { isAnswered: false, isForgotten: toolCalls > 0 })
      else if (bytes <= this.#askedMostBytes) continue
      // Its record says that there was something.
      else if (toolCalls > 0) this.#clearSteps(store => store.toolSteps.remove(key))
      bytes -= own
    }
  }

  #prune(): void {
    void this.#sync.operate(store => store.answered.prune(this.#now())).catch(() => {}) // next time
  }

  /** Whether the call has been answered, and the disk knows it. */
  #hasAnswerFile(key: string): boolean {
    return this.#answered.has(fileNameOf(key)) || this.#rejected.has(fileNameOf(key))
  }

  #isOnDisk(key: string): boolean {
    return this.#sync.get(key) !== null || this.#hasAnswerFile(key)
  }

  /** The next state of a call whose record is there. */
  #enter(key: string, state: CallRecord['state'], answer: StoredAnswer | null): void {
    const record = this.#sync.get(key)
    const answerBytes = answer === null ? 0 : bytesOf(answer)
    if (record !== null) this.#sync.set({ ...record, state, since: this.#now(), answer, answerBytes })
  }

  /** `isForgotten`: before its code was approved it has called tools, and may still be approved. */
  #drop(key: string, what: { readonly isAnswered: boolean; readonly isForgotten?: boolean }): void {
    this.#leftovers.delete(key)
    this.#earlier.delete(key)
    const call = this.#sync.get(key)?.call
    this.#sync.drop(key, what)
    if (call === undefined) return
    const { fcall_id } = call
    // It was kept until the disk knew of the decision, and now there is more than that.
    if (key === decidedKey(call) && this.#sync.get(fcall_id) !== null) this.#sync.drop(fcall_id, { isAnswered: false })
    if (this.#sync.get(fcall_id) !== null || this.#sync.get(decidedKey(call)) !== null) return
    this.#toolCalls.delete(fcall_id)
    if (what.isForgotten === true) this.#clearSteps(store => store.toolSteps.forget(fcall_id))
    else if (this.#toolSteps.has(fcall_id)) this.#clearSteps(store => store.toolSteps.remove(fcall_id))
  }

  #clearSteps(clear: (store: RecordStore) => Promise<void>): void {
    this.#sync
      .operate(clear)
      .catch((error: unknown) => this.#log.warn({ err: error }, 'what a call has called can not be removed'))
  }
}

/** See Journal.keyOf. */
function decidedKey({ fcall_id }: Pick<ClaimedCall, 'fcall_id'>): string {
  return `${fcall_id}:decided`
}
