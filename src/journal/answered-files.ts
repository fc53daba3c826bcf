import type { Dirent } from 'node:fs'
import { lstat, readdir, rename, rm, truncate } from 'node:fs/promises'
import path from 'node:path'
import { NamesFile } from './names-file.js'
import { KEPT_MS } from './recent-names.js'
import type { CallRecord } from './record.js'
import { makeFolder, readAnswer, sweep } from './record-files.js'

export interface AnsweredBounds {
  /** Beyond, the oldest ones are removed, a tenth of them at a time, and it is only known that the call was answered. */
  readonly files: number
  /** Of calls of which only that is known. */
  readonly names: number
  /** Of answers; beyond, the oldest ones are emptied. */
  readonly bytes: number
}

const BOUNDS: AnsweredBounds = { files: 2_000, names: 100_000, bytes: 64 * 1024 * 1024 }
const RECORD_NAME = /^[0-9a-f]{64}\.json$/
const HALF_WRITTEN_NAME = /^names\.\d+$/
/** So many operations at a time when it is opened. */
const AT_ONCE = 32

/**
 * `answered/`: records of calls that have their answer, as they were in calls/, so that a call which is delivered again is known in the next
 * life of the worker too. Kept for 15 minutes, the last 2 000; their answers up to 64 MiB in all. Moving a file costs what removing it did;
 * it is not synced, since after a power cut the record is in one folder or the other, and either is right. The names of the last 100 000
 * before them are in one file, `names`: they are the ones that must not run again.
 */
export class AnsweredFiles {
  readonly #folder: string
  readonly #bounds: AnsweredBounds
  /** By name, the oldest first. */
  readonly #files = new Map<string, { readonly at: number; bytes: number }>()
  readonly #names: NamesFile
  #bytes = 0

  private constructor(folder: string, bounds: AnsweredBounds, names: NamesFile) {
    this.#folder = folder
    this.#bounds = bounds
    this.#names = names
  }

  /** Errors: the folder is not ours, or can't be listed. One that can't be made for now is tried again. */
  static async open(folder: string, changes: Partial<AnsweredBounds> = {}): Promise<AnsweredFiles> {
    const bounds = { ...BOUNDS, ...changes }
    let entries: Dirent[] = []
    try {
      await makeFolder(folder)
      entries = await readdir(folder, { withFileTypes: true })
    } catch (error) {
      if (!isDiskRefusing(error)) throw error
    }
    await sweep(folder, HALF_WRITTEN_NAME)
    const answered = new AnsweredFiles(folder, bounds, await NamesFile.open(path.join(folder, 'names'), bounds.names))
    const names = entries.filter(entry => entry.isFile() && RECORD_NAME.test(entry.name)).map(({ name }) => name)
    const found: { name: string; at: number; bytes: number }[] = []
    for (let n = 0; n < names.length; n += AT_ONCE) {
      const some = names.slice(n, n + AT_ONCE).map(async name => {
        const status = await lstat(path.join(folder, name)).catch(() => null)
        // The change time is that of the move: the answer itself may have waited long before it was taken.
        if (status !== null) found.push({ name, at: status.ctimeMs, bytes: status.size })
      })
      await Promise.all(some)
    }
    found.sort((a, b) => a.at - b.at)
    for (const { name, at, bytes } of found) answered.#add(name, at, bytes)
    return answered
  }

  has(name: string): boolean {
    return this.#files.has(name) || this.#names.has(name)
  }

  /** Whether a call that was made then may have been answered although it is not known here: too many came after it. */
  mayHaveForgotten(createdAt: number, now: number): boolean {
    return this.#names.mayHaveForgotten(createdAt, now)
  }

  /** Takes over a record's file; nothing happens where there is none. Errors: those of the file system. */
  async take(file: string, now: number): Promise<void> {
    const name = path.basename(file)
    const target = path.join(this.#folder, name)
    try {
      await rename(file, target).catch(async error => {
        if (codeOf(error) !== 'ENOENT') throw error
        await makeFolder(this.#folder) // which was not there, or the file is not
        await rename(file, target)
      })
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      if (!isDiskRefusing(error)) throw error
      await rm(file, { force: true }) // its room counts more: were it left, the call would be answered twice
      return
    }
    this.#add(name, now, (await lstat(target)).size)
    await this.prune(now)
  }

  /** The answer of a call; null where it is not kept any more. Errors: those of the file system. */
  async read(name: string): Promise<CallRecord['answer']> {
    return await readAnswer(path.join(this.#folder, name))
  }

  /** Lets go of what is too old or too much. What can't be removed is left for the next start. */
  async prune(now: number): Promise<void> {
    const { files, bytes } = this.#bounds
    for (const [name, file] of this.#files) {
      if (file.at >= now - KEPT_MS) break
      await this.#remove(name)
    }
    const spare = this.#files.size - Math.floor(files * 0.9)
    if (this.#files.size > files) await this.#keepNames(spare).catch(() => {}) // next time
    if (this.#bytes > bytes) await this.#empty(bytes)
    await this.#names.prune(now).catch(() => {})
  }

  /** Of the oldest ones. Errors: those of the file system, and then the files stay: what is not in the list would run again. */
  async #keepNames(files: number): Promise<void> {
    const oldest = [...this.#files].slice(0, files)
    await this.#names.add(oldest.map(([name, { at }]) => [name, at]))
    for (const [name] of oldest) await this.#remove(name)
  }

  async #remove(name: string): Promise<void> {
    this.#bytes -= this.#files.get(name)?.bytes ?? 0
    this.#files.delete(name)
    await rm(path.join(this.#folder, name), { force: true }).catch(() => {})
  }

  /** Empties all answers, for a disk that is full. Whether that gave any room. */
  async makeRoom(): Promise<boolean> {
    const before = this.#bytes
    if (before > 0) await this.#empty(0)
    return this.#bytes < before
  }

  async #empty(most: number): Promise<void> {
    for (const [name, file] of this.#files) {
      if (this.#bytes <= most) return
      if (file.bytes === 0) continue
      await truncate(path.join(this.#folder, name)).catch(() => {})
      this.#bytes -= file.bytes
      file.bytes = 0
    }
  }

  #add(name: string, at: number, bytes: number): void {
    this.#bytes -= this.#files.get(name)?.bytes ?? 0
    this.#files.delete(name)
    this.#files.set(name, { at, bytes })
    this.#bytes += bytes
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code
}

/** It is full, or can't be written. */
export function isDiskRefusing(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'EROFS'].includes(codeOf(error) ?? '')
}
