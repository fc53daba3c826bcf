import { constants } from 'node:fs'
import { open, readdir, rename, rm, unlink } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from 'pino'
import { AnsweredFiles, isDiskRefusing } from './answered-files.js'
import { bytesOf } from './journal.js'
import { type CallRecord, fileNameOf } from './record.js'
import { keepNewest, makeFolder, readAnswer, readRecord, sweep, writeWhole } from './record-files.js'
import { ToolSteps } from './tool-steps.js'

const RECORD_NAME = /^[0-9a-f]{64}\.json$/
/** What was being written when the worker died. */
const HALF_WRITTEN_NAME = /^[0-9a-f]{64}\.json\.\d+$/
const PROBE_NAME = /^probe(\.\d+)?$/

const MIB = 1024 * 1024
const REJECTED_MOST = { files: 1_000, bytes: 256 * MIB }
const CORRUPT_MOST = { files: 100, bytes: 256 * MIB }

/**
 * The files of the journal: `calls/`, one record a call; `answered/`, see AnsweredFiles; `rejected/`, answers that the backend refused for good, the last 1 000 or 256 MiB;
 * `corrupt/`, what was found in calls/ and is no record, the last 100 or 256 MiB. Files are of mode 0600, folders of mode 0700.
 */
export class RecordStore {
  readonly #root: string
  readonly #calls: string
  readonly #rejected: string
  readonly #corrupt: string
  readonly #log: Logger
  /** Of calls that have their answer. */
  readonly answered: AnsweredFiles
  #toolSteps: ToolSteps | null = null

  private constructor(stateDir: string, answered: AnsweredFiles, log: Logger) {
    this.#root = stateDir
    this.answered = answered
    this.#calls = path.join(stateDir, 'calls')
    this.#rejected = path.join(stateDir, 'rejected')
    this.#corrupt = path.join(stateDir, 'corrupt')
    this.#log = log
  }

  /**
   * Opens the store and reads what is there; answers stay on disk, as there may be more than memory holds. What is no record is set aside and
   * logged, what was half written goes. `rejected`: the names of the files in rejected/. Errors: a folder that can't be made or listed, or is
   * not ours; a disk that can't be read. `onStep`: told of each file that was read.
   */
  static async open(
    stateDir: string,
    log: Logger,
    onStep: () => void = () => {},
  ): Promise<{ store: RecordStore; records: CallRecord[]; rejected: string[] }> {
    await makeFolder(path.join(stateDir, 'calls'))
    const answered = await AnsweredFiles.open(path.join(stateDir, 'answered'))
    const store = new RecordStore(stateDir, answered, log)
    await sweep(store.#root, PROBE_NAME)
    await sweep(store.#calls, HALF_WRITTEN_NAME)
    await sweep(store.#rejected, HALF_WRITTEN_NAME)
    const records: CallRecord[] = []
    for (const name of await readdir(store.#calls)) {
      const found = RECORD_NAME.test(name)
        ? await readRecord(path.join(store.#calls, name))
        : { fault: 'has a name that no record has' }
      onStep()
      if ('record' in found) records.push(withoutAnswer(found.record))
      else await store.#setAside(name, found.fault)
    }
    store.#toolSteps = await ToolSteps.open(
      stateDir,
      records.map(({ call }) => call.fcall_id),
    )
    const rejected = await readdir(store.#rejected).catch(() => [])
    return { store, records, rejected: rejected.filter(name => RECORD_NAME.test(name)) }
  }

  /** What the code of calls has called; `tools/`. */
  get toolSteps(): ToolSteps {
    if (this.#toolSteps === null) throw new Error('the store is not open')
    return this.#toolSteps
  }

  /**
   * Writes a record so that it is there whole or not at all, also after a power cut. `onNamed` is called when it has its name: an error after
   * that does not mean that it is not there. Errors: those of the file system.
   */
  async save(record: CallRecord, onNamed: () => void): Promise<void> {
    const file = path.join(this.#calls, fileNameOf(record.key))
    const text = JSON.stringify(record)
    await writeWhole(file, text).catch(async (error: unknown) => {
      // What is to be answered counts more than what was.
      if (!isDiskRefusing(error) || !(await this.answered.makeRoom())) throw error
      await writeWhole(file, text)
    })
    onNamed()
    const folder = await open(this.#calls, constants.O_RDONLY | constants.O_DIRECTORY)
    try {
      await folder.sync() // else the new name may not be there after a power cut
    } finally {
      await folder.close()
    }
  }

  /** The record with its answer; null, and set aside, where it is none any more. Errors: those of the file system. */
  async read(key: string): Promise<CallRecord | null> {
    const name = fileNameOf(key)
    const found = await readRecord(path.join(this.#calls, name))
    if ('record' in found) return found.record
    await this.#setAside(name, found.fault)
    return null
  }

  /** Whether anything can be written. Errors: those of the file system. */
  async probe(): Promise<void> {
    const file = path.join(this.#root, 'probe')
    await rm(file, { force: true }) // a link would lead the write elsewhere
    await writeWhole(file, '{}')
    await unlink(file)
  }

  async remove(key: string): Promise<void> {
    await rm(path.join(this.#calls, fileNameOf(key)), { force: true })
  }

  /** The call has its answer: its record goes to answered/. Errors: those of the file system. */
  async retire(key: string): Promise<void> {
    await this.answered.take(path.join(this.#calls, fileNameOf(key)), Date.now())
  }

  /**
   * Keeps an answer that nobody will ever take, without the key that would allow to post it. Returns the names of files that had to go for it.
   * Errors: those of the file system.
   */
  async reject({ call, ...record }: CallRecord, reason: string): Promise<string[]> {
    await makeFolder(this.#rejected)
    const { fcall_untrusted_key: _, ...shown } = call
    const name = fileNameOf(record.key)
    const text = JSON.stringify({ ...record, call: shown, reason, rejectedAt: Date.now() })
    await writeWhole(path.join(this.#rejected, name), text)
    return await keepNewest(this.#rejected, REJECTED_MOST)
  }

  /** The answer of a rejected call; null where there is none. Errors: those of the file system. */
  async readRejected(key: string): Promise<CallRecord['answer']> {
    return await readAnswer(path.join(this.#rejected, fileNameOf(key)))
  }

  async #setAside(name: string, fault: string): Promise<void> {
    const target = path.join(this.#corrupt, `${Date.now()}-${name}`.slice(0, 250))
    try {
      await makeFolder(this.#corrupt)
      await rename(path.join(this.#calls, name), target)
      await keepNewest(this.#corrupt, CORRUPT_MOST)
    } catch (error) {
      this.#log.error(
        { file: name.slice(0, 100), fault, err: error },
        'a file in the journal is no record and can not be set aside',
      )
      return
    }
    this.#log.error(
      { file: name.slice(0, 100), fault, movedTo: target },
      'a file in the journal is no record and was set aside',
    )
  }
}

/** To spare memory. */
function withoutAnswer(record: CallRecord): CallRecord {
  return { ...record, answer: null, ...(record.answer === null ? {} : { answerBytes: bytesOf(record.answer) }) }
}
