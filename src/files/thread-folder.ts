import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { makeFolders } from '../make-folders.js'
import type { Disk } from './disk.js'
import { pathProblem, sha256 } from './names.js'
import type { GoneFile, NewFile, StoredFile } from './store.js'

const FILE_NAME = /^[0-9a-f]{64}$/
const HALF_WRITTEN_NAME = /\.tmp$/
const GONE_NAME = 'gone.json'
const GONE_MOST = 50
/** What comes before the content: one line of JSON. Its path has at most 512 bytes, which JSON may make six times as long. */
const HEADER_MOST_BYTES = 8_192

const Header = z.object({
  path: z.string().refine(name => pathProblem(name) === null),
  mime: z.string(),
  bytes: z.number(),
  at: z.number(),
  sha256: z.string(),
})
const Gone = z.array(z.object({ path: z.string(), why: z.string() }))

/**
 * A thread's files in a folder of its own: each is one file, the name of which is the hash of its path, with what is to be known of it in
 * its first line. There is no index that could say something else than the files. Errors: those of the file system.
 */
export class ThreadFolder {
  readonly #folder: string
  readonly #disk: Disk

  constructor(folder: string, disk: Disk) {
    this.#folder = folder
    this.#disk = disk
  }

  async make(): Promise<void> {
    await this.#disk.run(() => makeFolders(this.#folder))
  }

  /** When it was used last, in milliseconds since the epoch. Not an error: there is no such folder. */
  async touch(at: number): Promise<void> {
    await this.#disk.run(() => utimes(this.#folder, at / 1_000, at / 1_000).catch(orNothing(undefined)))
  }

  /** All that is there and whole; what was half written is removed. Not an error: there is no such folder. */
  async scan(): Promise<{ files: StoredFile[]; gone: GoneFile[]; usedAt: number }> {
    return await this.#disk.run(() => this.#scan())
  }

  async write({ path: name, mime, content }: NewFile, at: number): Promise<StoredFile> {
    const file = { path: name, bytes: content.length, at, version: sha256(content) }
    const header = JSON.stringify({ path: name, mime, bytes: file.bytes, at, sha256: file.version })
    const whole = () => Buffer.concat([Buffer.from(`${header}\n`), content]) // not before its turn, as it doubles the file
    await this.#disk.run(() => this.#writeWhole(sha256(name), whole()))
    return file
  }

  /** The content, or null where it is not there any more as it was stored. */
  async read(file: StoredFile): Promise<Buffer | null> {
    return await this.#disk.run(() => this.#read(file))
  }

  async remove(name: string): Promise<void> {
    await this.#disk.run(() => this.#unlink(sha256(name)))
  }

  /** Remembers what has gone, until it was told; an empty list: nothing is to be told any more. */
  async writeGone(gone: readonly GoneFile[]): Promise<void> {
    await this.#disk.run(async () => {
      if (gone.length === 0) await this.#unlink(GONE_NAME)
      else await this.#writeWhole(GONE_NAME, Buffer.from(JSON.stringify(gone.slice(-GONE_MOST))))
    })
  }

  async destroy(): Promise<void> {
    await this.#disk.run(async () => {
      // One by one: what is below a folder Node removes at the same time.
      for (const name of await this.#names()) await rm(path.join(this.#folder, name), { recursive: true, force: true })
      await rm(this.#folder, { recursive: true, force: true })
    })
  }

  #names(): Promise<string[]> {
    return readdir(this.#folder).catch(orNothing<string[]>([]))
  }

  async #scan(): Promise<{ files: StoredFile[]; gone: GoneFile[]; usedAt: number }> {
    const names = await this.#names()
    const files: StoredFile[] = []
    for (const name of names.filter(one => FILE_NAME.test(one))) {
      const file = await this.#readHeader(name)
      if (file === null) await this.#unlink(name)
      else files.push(file)
    }
    for (const name of names.filter(one => HALF_WRITTEN_NAME.test(one))) await this.#unlink(name)
    const gone = names.includes(GONE_NAME) ? await this.#readGone() : []
    const status = await stat(this.#folder).catch(orNothing(null))
    return { files, gone, usedAt: status?.mtimeMs ?? 0 }
  }

  async #read({ path: name, bytes, version }: StoredFile): Promise<Buffer | null> {
    const handle = await open(path.join(this.#folder, sha256(name)), READ).catch(orNothing(null))
    if (handle === null) return null
    try {
      // Not readFile(), which asks for the size, and once more for the end: the next file waits for each of these.
      const all = await startOf(handle, bytes + HEADER_MOST_BYTES)
      const content = all.subarray(all.indexOf(0x0a) + 1)
      return content.length === bytes && sha256(content) === version ? content : null
    } finally {
      await handle.close()
    }
  }

  async #readGone(): Promise<GoneFile[]> {
    const handle = await open(path.join(this.#folder, GONE_NAME), READ).catch(orNothing(null))
    if (handle === null) return []
    try {
      return Gone.parse(JSON.parse(await handle.readFile('utf8')))
    } catch {
      return [] // whatever it is, nobody loses more than a word about files that have gone anyway
    } finally {
      await handle.close()
    }
  }

  async #readHeader(name: string): Promise<StoredFile | null> {
    const handle = await open(path.join(this.#folder, name), READ).catch(orNothing(null))
    if (handle === null) return null
    try {
      const start = Buffer.alloc(HEADER_MOST_BYTES)
      const { bytesRead } = await handle.read(start, 0, start.length, 0)
      const lineEnd = start.subarray(0, bytesRead).indexOf(0x0a)
      const header = Header.safeParse(parsed(start.toString('utf8', 0, Math.max(0, lineEnd))))
      const status = await handle.stat()
      if (!header.success || sha256(header.data.path) !== name) return null
      const { path: own, bytes, at, sha256: version } = header.data
      return status.size === lineEnd + 1 + bytes ? { path: own, bytes, at, version } : null
    } finally {
      await handle.close()
    }
  }

  /** All of it, or an error and what was there before. */
  async #writeWhole(name: string, data: Buffer): Promise<void> {
    const temporary = path.join(this.#folder, `${name}.${randomBytes(6).toString('hex')}.tmp`)
    try {
      await writeFile(temporary, data, { mode: 0o600, flag: 'wx' })
      await rename(temporary, path.join(this.#folder, name))
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {})
      throw error
    }
  }

  async #unlink(name: string): Promise<void> {
    await rm(path.join(this.#folder, name), { force: true })
  }
}

/** Neither a link that somebody put there is followed, nor a FIFO waited for. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** For a file that is not there, or is not ours to read; any other error says something of the disk. */
function orNothing<T>(nothing: T): (error: unknown) => T {
  return error => {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (['ENOENT', 'ELOOP', 'ENXIO'].includes(code)) return nothing
    throw error
  }
}

/** So many bytes, or as many as there are. */
async function startOf(handle: FileHandle, most: number): Promise<Buffer> {
  const start = Buffer.allocUnsafe(most)
  let length = 0
  for (let more = 1; more > 0 && length < most; length += more) {
    more = (await handle.read(start, length, most - length, null)).bytesRead
  }
  return start.subarray(0, length)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
