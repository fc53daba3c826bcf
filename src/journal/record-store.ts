import { constants } from 'node:fs'
import { chmod, lstat, mkdir, open, readdir, rename, stat, unlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from 'pino'
import writeFileAtomic from 'write-file-atomic'
import { type CallRecord, fileNameOf, parseAnswer, parseRecord } from './record.js'

const RECORD_NAME = /^[0-9a-f]{64}\.json$/
/** A record that was being written when the worker died; the name is write-file-atomic's. */
const HALF_WRITTEN_NAME = /^[0-9a-f]{64}\.json\.\d+$/
/** Larger than any answer that is accepted; what is larger is not ours. */
const RECORD_MOST_BYTES = 64 * 1024 * 1024
const REJECTED_MOST = 1_000
/** A link, or a file that is not ours to read. */
const NOT_OURS = ['ELOOP', 'EACCES', 'EPERM']

/**
 * The files of the journal: `calls/`, one record a call; `rejected/`, answers that the backend refused for good, at most 1 000;
 * `corrupt/`, what was found in calls/ and is no record. Files are of mode 0600, folders of mode 0700.
 */
export class RecordStore {
  readonly #calls: string
  readonly #rejected: string
  readonly #corrupt: string
  readonly #log: Logger

  private constructor(stateDir: string, log: Logger) {
    this.#calls = path.join(stateDir, 'calls')
    this.#rejected = path.join(stateDir, 'rejected')
    this.#corrupt = path.join(stateDir, 'corrupt')
    this.#log = log
  }

  /**
   * Opens the store and reads what is there; answers stay on disk, as there may be more than memory holds. What is no record is set aside and
   * logged. `rejected`: the names of the files in rejected/. Errors: a folder that can't be made or listed, or is not ours; a disk that
   * can't be read.
   */
  static async open(
    stateDir: string,
    log: Logger,
  ): Promise<{ store: RecordStore; records: CallRecord[]; rejected: string[] }> {
    const store = new RecordStore(stateDir, log)
    await makeFolder(store.#calls)
    const records: CallRecord[] = []
    for (const entry of await readdir(store.#calls, { withFileTypes: true })) {
      const file = path.join(store.#calls, entry.name)
      if (HALF_WRITTEN_NAME.test(entry.name)) {
        await unlink(file).catch(() => {})
        continue
      }
      const found = RECORD_NAME.test(entry.name) ? await readRecord(file) : { fault: 'has a name that no record has' }
      if ('record' in found) records.push({ ...found.record, answer: null })
      else await store.#setAside(entry.name, found.fault)
    }
    const rejected = await readdir(store.#rejected).catch(() => [])
    return { store, records, rejected: rejected.filter(name => RECORD_NAME.test(name)) }
  }

  /** Writes a record so that it is there whole or not at all, also after a power cut. Errors: those of the file system. */
  async save(record: CallRecord): Promise<void> {
    await writeWhole(path.join(this.#calls, fileNameOf(record.key)), JSON.stringify(record))
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
    const file = path.join(this.#calls, '..', 'probe')
    await writeWhole(file, '{}')
    await unlink(file)
  }

  async remove(key: string): Promise<void> {
    await unlink(path.join(this.#calls, fileNameOf(key))).catch(ignoreMissing)
  }

  /** Keeps an answer that nobody will ever take, without the key that would allow to post it. Errors: those of the file system. */
  async reject({ call, ...record }: CallRecord, reason: string): Promise<void> {
    await makeFolder(this.#rejected)
    const { fcall_untrusted_key: _, ...shown } = call
    const name = fileNameOf(record.key)
    const text = JSON.stringify({ ...record, call: shown, reason, rejectedAt: Date.now() })
    await writeWhole(path.join(this.#rejected, name), text)
    await this.#forgetOldRejected()
  }

  /** The answer of a rejected call; null where there is none. Errors: those of the file system. */
  async readRejected(key: string): Promise<CallRecord['answer']> {
    const handle = await open(path.join(this.#rejected, fileNameOf(key)), constants.O_RDONLY | constants.O_NOFOLLOW)
    try {
      return parseAnswer(await handle.readFile('utf8'))
    } finally {
      await handle.close()
    }
  }

  async #forgetOldRejected(): Promise<void> {
    const names = await readdir(this.#rejected)
    if (names.length <= REJECTED_MOST) return
    const files = await Promise.all(
      names.map(async name => {
        const file = path.join(this.#rejected, name)
        return { file, at: (await stat(file)).mtimeMs }
      }),
    )
    files.sort((a, b) => a.at - b.at)
    for (const { file } of files.slice(0, files.length - REJECTED_MOST)) await unlink(file).catch(ignoreMissing)
  }

  async #setAside(name: string, fault: string): Promise<void> {
    const target = path.join(this.#corrupt, `${Date.now()}-${name}`.slice(0, 250))
    try {
      await makeFolder(this.#corrupt)
      await rename(path.join(this.#calls, name), target)
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

/** All of it, or an error and what was there before. */
async function writeWhole(file: string, text: string): Promise<void> {
  const data = Buffer.from(text, 'utf8')
  await writeFileAtomic(file, data, {
    mode: 0o600,
    // It writes once and does not look whether all was taken: on a disk that is nearly full the record would be cut. So the room
    // is taken first.
    tmpfileCreated: temporary => writeFile(temporary, Buffer.alloc(data.length)),
  })
}

/** Errors: those of the file system; one that is a link, or not ours: who made it may have had something else in mind. */
async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const status = await lstat(folder)
  const uid = process.getuid?.() ?? status.uid
  if (!status.isDirectory() || status.uid !== uid) {
    throw new Error(
      `${folder} is ${status.isDirectory() ? `owned by uid ${status.uid}` : 'no folder'}, it has to be a folder of uid ${uid}`,
    )
  }
  if ((status.mode & 0o777) !== 0o700) await chmod(folder, 0o700)
}

async function readRecord(file: string): Promise<{ record: CallRecord } | { fault: string }> {
  try {
    // Neither a link that somebody put there is followed, nor a FIFO waited for.
    const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const status = await handle.stat()
      if (!status.isFile()) return { fault: 'is no file' }
      if (status.size > RECORD_MOST_BYTES) return { fault: 'is too large' }
      return parseRecord(path.basename(file), await handle.readFile('utf8'))
    } finally {
      await handle.close()
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    // Somebody else's; any other error says something of the disk and nothing of the file.
    if (!NOT_OURS.includes(code)) throw error
    return { fault: `can not be read: ${code}` }
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
