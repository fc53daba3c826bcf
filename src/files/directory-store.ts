import { readdir, statfs } from 'node:fs/promises'
import path from 'node:path'
import { makeFolders } from '../make-folders.js'
import { Disk } from './disk.js'
import { threadName } from './names.js'
import { planRoom } from './quota.js'
import type { FileStore, GoneFile, Kept, NewFile, StoredFile, ThreadKey } from './store.js'
import { StoreError } from './store.js'
import { ThreadFolder } from './thread-folder.js'

const MIB = 1024 * 1024
const HOUR_MS = 3_600_000
const THREAD_NAME = /^[0-9a-f]{64}$/
const SWEEP_EVERY_MS = 10 * 60_000
/** Left free on the disk: the journal may lie there as well. */
const RESERVE_BYTES = 64 * MIB

export interface DirectoryStoreOptions {
  readonly folder: string
  /** Of one thread. */
  readonly threadBytes: number
  /** Of all. */
  readonly totalBytes: number
  /** A thread of which no call has come for so long loses its files. */
  readonly expireMs: number
  /** Milliseconds since the epoch. */
  readonly wallClock?: () => number
  readonly disk?: Disk
}

interface Thread {
  readonly folder: ThreadFolder
  readonly name: string
  readonly files: Map<string, StoredFile>
  gone: readonly GoneFile[]
  usedAt: number
  /** What is being done to it, one after the other. */
  queue: Promise<unknown>
}

/**
 * Files in a folder of this worker's own: a folder for each thread, of mode 0700, with files of mode 0600. What is there is known in memory,
 * so that a call of a thread without files costs nothing. Opened when it is first needed, and anew after an error.
 */
export class DirectoryStore implements FileStore {
  readonly #options: DirectoryStoreOptions
  readonly #threads = new Map<string, Thread>()
  readonly #disk: Disk
  readonly #now: () => number
  readonly #sweeping: NodeJS.Timeout
  #opened: Promise<void> | null = null
  #roomMaking: Promise<void> = Promise.resolve()

  constructor(options: DirectoryStoreOptions) {
    this.#options = options
    this.#disk = options.disk ?? new Disk()
    this.#now = options.wallClock ?? Date.now
    this.#sweeping = setInterval(() => void this.sweep().catch(() => {}), SWEEP_EVERY_MS).unref()
  }

  /** Reads what an earlier life has left. Errors: those of the file system; StoreError as long as the disk hangs, so that nothing piles up. */
  async open(): Promise<void> {
    if (this.#disk.hangs) throw new StoreError('the disk of the worker does not answer')
    this.#opened ??= this.#scan().catch(error => {
      this.#opened = null
      throw error
    })
    await this.#opened
  }

  async list(
    key: ThreadKey,
    _signal?: AbortSignal,
    looksOn = false,
  ): Promise<{ files: StoredFile[]; gone: readonly GoneFile[] }> {
    await this.open()
    const thread = this.#threads.get(threadName(key))
    if (thread === undefined) return { files: [], gone: [] }
    return await this.#inTurn(thread, async () => {
      if (this.#isExpired(thread)) await this.#expire(thread)
      if (looksOn) return { files: [...thread.files.values()], gone: [] }
      const gone = thread.gone
      if (gone.length > 0) {
        thread.gone = []
        await thread.folder.writeGone([])
      }
      if (thread.files.size > 0) await this.#touch(thread)
      return { files: [...thread.files.values()], gone }
    })
  }

  async get(key: ThreadKey, file: StoredFile): Promise<Buffer | null> {
    await this.open()
    const thread = this.#threads.get(threadName(key))
    const content = (await thread?.folder.read(file)) ?? null
    if (content === null && thread?.files.get(file.path)?.version === file.version) thread.files.delete(file.path)
    return content
  }

  async keep(key: ThreadKey, files: readonly NewFile[]): Promise<Kept> {
    await this.open()
    const thread = this.#thread(threadName(key))
    const kept = await this.#inTurn(thread, async () => {
      if (this.#threads.get(thread.name) !== thread) return null // it has expired in the turn before this
      const refused = new Map<string, string>()
      const stored = new Map<string, string>()
      const { threadBytes } = this.#options
      const incoming = files.map(file => ({ path: file.path, bytes: file.content.length }))
      const plan = planRoom([...thread.files.values()], incoming, threadBytes)
      for (const name of plan.refuse) refused.set(name, `more than the ${threadBytes / MIB} MiB that one chat may keep`)
      const accepted = files.filter(file => !refused.has(file.path))
      await thread.folder.make()
      let left = (await this.#freeBytes()) - RESERVE_BYTES
      for (const file of accepted) {
        if (file.content.length > left) {
          refused.set(file.path, 'the disk of the worker is nearly full')
          continue
        }
        left -= file.content.length
        thread.files.set(file.path, await thread.folder.write(file, this.#now()))
        stored.set(file.path, `files:${thread.name}/${file.path.split('/').map(encodeURIComponent).join('/')}`)
      }
      for (const name of plan.evict) await this.#drop(thread, name)
      await this.#touch(thread)
      return { stored, refused, evicted: plan.evict }
    })
    if (kept === null) return await this.keep(key, files)
    // Outside of the turn, as it waits for those of others.
    await this.#makeRoom(thread)
    return kept
  }

  async remove(key: ThreadKey, files: readonly StoredFile[]): Promise<void> {
    await this.open()
    const thread = this.#threads.get(threadName(key))
    if (thread === undefined) return
    await this.#inTurn(thread, async () => {
      for (const { path: name, version } of files) {
        if (thread.files.get(name)?.version === version) await this.#drop(thread, name)
      }
    })
  }

  /** Removes what has expired. Errors: those of the file system. */
  async sweep(): Promise<void> {
    if (this.#opened === null || this.#disk.hangs) return
    const expired = [...this.#threads.values()].filter(thread => this.#isExpired(thread))
    const failures: unknown[] = []
    for (const thread of expired) {
      // One that can't be removed does not keep the others. It may have been used in the turn before this.
      await this.#inTurn(thread, async () => {
        if (this.#isExpired(thread)) await this.#expire(thread)
      }).catch((error: unknown) => failures.push(error))
    }
    if (failures.length > 0) throw failures[0]
  }

  close(): void {
    clearInterval(this.#sweeping)
  }

  async #scan(): Promise<void> {
    const { folder } = this.#options
    const names = await this.#disk.run(async () => {
      await makeFolders(folder)
      return await readdir(folder)
    })
    for (const name of names.filter(one => THREAD_NAME.test(one))) {
      const found = await new ThreadFolder(path.join(folder, name), this.#disk).scan()
      const thread = this.#thread(name)
      for (const file of found.files) thread.files.set(file.path, file)
      thread.gone = found.gone
      thread.usedAt = found.usedAt
    }
  }

  #thread(name: string): Thread {
    const known = this.#threads.get(name)
    if (known !== undefined) return known
    const folder = new ThreadFolder(path.join(this.#options.folder, name), this.#disk)
    const thread: Thread = { folder, name, files: new Map(), gone: [], usedAt: this.#now(), queue: Promise.resolve() }
    this.#threads.set(name, thread)
    return thread
  }

  #inTurn<T>(thread: Thread, work: () => Promise<T>): Promise<T> {
    const turn = thread.queue.then(work, work)
    thread.queue = turn.catch(() => {})
    return turn
  }

  #isExpired({ usedAt }: Thread): boolean {
    return this.#now() - usedAt >= this.#options.expireMs
  }

  /** What has expired is remembered until it was told, but for no longer than files are. */
  async #expire(thread: Thread): Promise<void> {
    if (thread.files.size === 0) {
      // First, so that nobody begins anew in a folder that is about to go.
      await thread.folder.destroy()
      if (this.#threads.get(thread.name) === thread) this.#threads.delete(thread.name)
      return
    }
    const why = `not used for ${Math.round((this.#options.expireMs / HOUR_MS) * 10) / 10} h`
    const gone = [...thread.files.keys()].map(name => ({ path: name, why }))
    for (const name of [...thread.files.keys()]) await this.#drop(thread, name)
    await this.#rememberGone(thread, gone)
    await this.#touch(thread)
  }

  /** Until all threads together have no more than they may: the oldest files of others go. One after the other, so that none goes for two. */
  async #makeRoom(but: Thread): Promise<void> {
    const making = this.#roomMaking.then(() => this.#evictOthers(but))
    this.#roomMaking = making.catch(() => {})
    await making
  }

  async #evictOthers(but: Thread): Promise<void> {
    const all = [...this.#threads.values()].flatMap(thread =>
      [...thread.files.values()].map(file => ({ thread, file })),
    )
    let bytes = all.reduce((sum, { file }) => sum + file.bytes, 0)
    if (bytes <= this.#options.totalBytes) return
    const others = all.filter(({ thread }) => thread !== but).toSorted((a, b) => a.file.at - b.file.at)
    for (const { thread, file } of others) {
      if (bytes <= this.#options.totalBytes) return
      await this.#inTurn(thread, async () => {
        bytes -= file.bytes
        // A call of that thread may have stored another one in its place meanwhile.
        if (thread.files.get(file.path) !== file) return
        await this.#drop(thread, file.path)
        await this.#rememberGone(thread, [{ path: file.path, why: 'other chats needed the room' }])
      })
    }
  }

  async #drop(thread: Thread, name: string): Promise<void> {
    thread.files.delete(name)
    await thread.folder.remove(name)
  }

  async #rememberGone(thread: Thread, gone: readonly GoneFile[]): Promise<void> {
    thread.gone = [...thread.gone, ...gone]
    await thread.folder.writeGone(thread.gone)
  }

  async #touch(thread: Thread): Promise<void> {
    thread.usedAt = this.#now()
    await thread.folder.touch(thread.usedAt)
  }

  async #freeBytes(): Promise<number> {
    const { bavail, bsize } = await this.#disk.run(() => statfs(this.#options.folder))
    return bavail * bsize
  }
}
