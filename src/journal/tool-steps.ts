import { constants } from 'node:fs'
import { type FileHandle, lstat, open, readdir, rm, unlink } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { exactJson, parseExactly } from '../exact-json.js'
import type { Json } from '../toolbox/tool-entry.js'
import type { EarlierSteps, ToolStep } from '../toolbox/tool-log.js'
import { isDiskRefusing } from './answered-files.js'
import { fileNameOf } from './record.js'
import { makeFolder } from './record-files.js'

/** A broker keeps 8 MiB of answers at most; what is larger is not ours. */
const FILE_MOST_BYTES = 32 * 1024 * 1024
const NAME = /^[0-9a-f]{64}\.json$/
const MARK = '.forgotten'
const FORGOTTEN = /(?<=^[0-9a-f]{64})\.forgotten$/
/** Of calls whose code has called tools and which are forgotten; the oldest of them go. */
const FORGOTTEN_MOST = 10_000

const count = z.number().int().min(0)
const ToolStepLine: z.ZodType<ToolStep> = z.discriminatedUnion('step', [
  z.object({
    step: z.literal(['called', 'blocked']),
    n: count,
    tool: z.string(),
    hash: z.string(),
    argsPreview: z.string(),
  }),
  z.object({
    step: z.literal('answered'),
    n: count,
    ok: z.boolean(),
    ms: z.number(),
    bytes: z.number(),
    dollars: z.number(),
    answer: z
      .union([
        z.object({ value: z.custom<Json>(value => value !== undefined) }),
        z.object({ failure: z.string(), isLost: z.boolean().default(false) }),
      ])
      .optional(),
  }),
  z.object({ step: z.literal('dropped'), n: count }),
  z.object({
    step: z.literal('asked'),
    tools: z.array(z.string()).nullable(),
    shown: z.object({ units: count, bytes: count, sha256: z.string() }).optional(),
  }),
]) as z.ZodType<ToolStep>

/**
 * What calls have called: `tools/` below the state folder, one file a call, one step a line, mode 0600. A line is handed to the kernel before
 * the tool is called, so it outlives any end of the worker; it is not synced, as that would cost more than most tools: after a
 * power cut the last ones may be missing. Of a call that is forgotten while a person is asked, an empty file with another name stays.
 */
export class ToolSteps {
  readonly #folder: string
  /** Bytes, by name. */
  readonly #files: Map<string, number>
  /** Names of the files that there were, the oldest first. */
  readonly #forgotten: Set<string>
  /** Writes of one call come one after the other. */
  readonly #writing = new Map<string, Promise<unknown>>()
  /** Files that this process has left with a whole last line. */
  readonly #endWhole = new Set<string>()

  private constructor(folder: string, files: Map<string, number>, forgotten: Set<string>) {
    this.#folder = folder
    this.#files = files
    this.#forgotten = forgotten
  }

  /** Removes what belongs to none of `calls`, ids of calls. Errors: a folder that is not ours, or can't be made though the disk takes more. */
  static async open(stateDir: string, calls: Iterable<string>): Promise<ToolSteps> {
    const folder = path.join(stateDir, 'tools')
    let names: string[] = []
    try {
      await makeFolder(folder)
      names = await readdir(folder)
    } catch (error) {
      // Calls are served from memory then; the folder is made when a call first notes something.
      if (!isDiskRefusing(error)) throw error
    }
    const known = new Set([...calls].map(fileNameOf))
    const files = new Map<string, number>()
    const forgotten: { readonly name: string; readonly at: number }[] = []
    for (const name of names) {
      const isKnown = known.has(name)
      if (!isKnown && !FORGOTTEN.test(name)) {
        if (NAME.test(name)) await unlink(path.join(folder, name)).catch(() => {})
        continue
      }
      const status = await lstat(path.join(folder, name)).catch(() => null)
      if (isKnown) files.set(name, status?.size ?? 0)
      else forgotten.push({ name: name.replace(FORGOTTEN, '.json'), at: status?.mtimeMs ?? 0 })
    }
    forgotten.sort((a, b) => a.at - b.at)
    return new ToolSteps(folder, files, new Set(forgotten.map(({ name }) => name)))
  }

  /** What is written for the call, in bytes. */
  bytesOf(fcallId: string): number {
    return this.#files.get(fileNameOf(fcallId)) ?? 0
  }

  /** Whether anything was written for the call, and is to be removed some time. */
  has(fcallId: string): boolean {
    return this.#files.has(fileNameOf(fcallId)) || this.isForgotten(fcallId)
  }

  /** Whether the call has called tools, of which nothing is known any more. */
  isForgotten(fcallId: string): boolean {
    return this.#forgotten.has(fileNameOf(fcallId))
  }

  /** Errors: those of the file system. */
  note(fcallId: string, step: ToolStep): Promise<void> {
    const name = fileNameOf(fcallId)
    if (!this.#files.has(name)) this.#files.set(name, 0)
    return this.#inTurn(fcallId, () => this.#append(name, `${exactJson(step)}\n`))
  }

  #inTurn<T>(fcallId: string, work: () => Promise<T>): Promise<T> {
    const before = this.#writing.get(fcallId) ?? Promise.resolve()
    const done = before.catch(() => {}).then(work)
    this.#writing.set(fcallId, done)
    return done
  }

  async #append(name: string, line: string): Promise<void> {
    const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
    // A write that failed, or the end of an earlier life, may have left half a line: it must not swallow this one.
    const text = this.#endWhole.delete(name) || this.#files.get(name) === 0 ? line : `\n${line}`
    this.#files.set(name, (this.#files.get(name) ?? 0) + Buffer.byteLength(text, 'utf8'))
    const file = await this.#open(name, flags)
    try {
      await file.appendFile(text)
    } finally {
      await file.close()
    }
    this.#endWhole.add(name)
  }

  async #open(name: string, flags: number): Promise<FileHandle> {
    try {
      return await open(path.join(this.#folder, name), flags, 0o600)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      await makeFolder(this.#folder)
      return await open(path.join(this.#folder, name), flags, 0o600)
    }
  }

  /**
   * In order; none where the call has called nothing. What can't be made out is left out, and said by `isWhole`; but half a line at the end
   * is none: it was being written when the worker was ended, and what it was to say had not begun. Errors: those of the file system, and
   * a file that is not ours.
   */
  async read(fcallId: string): Promise<EarlierSteps> {
    if (this.isForgotten(fcallId)) return { steps: [], isWhole: false }
    if (!this.#files.has(fileNameOf(fcallId))) return { steps: [], isWhole: true }
    const text = await this.#inTurn(fcallId, () => this.#text(fileNameOf(fcallId)))
    const steps: ToolStep[] = []
    let isWhole = true
    for (const line of text.split('\n').slice(0, -1)) {
      if (line === '') continue
      const step = parsed(line)
      if (step === null) isWhole = false
      else steps.push(step)
    }
    return { steps, isWhole }
  }

  async #text(name: string): Promise<string> {
    try {
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
      const file = await open(path.join(this.#folder, name), flags)
      try {
        const status = await file.stat()
        if (!status.isFile() || status.size > FILE_MOST_BYTES) throw new Error('is no file, or too large')
        return await file.readFile('utf8')
      } finally {
        await file.close()
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
      throw error
    }
  }

  /** Gives the room back, and keeps in mind that there was something. Errors: those of the file system. */
  async forget(fcallId: string): Promise<void> {
    const name = fileNameOf(fcallId)
    this.#forgotten.add(name)
    this.#files.delete(name)
    this.#endWhole.delete(name)
    await this.#inTurn(fcallId, async () => {
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW
      await (await this.#open(name.replace('.json', MARK), flags)).close()
      await rm(path.join(this.#folder, name), { force: true })
    })
    this.#writing.delete(fcallId)
    for (const oldest of this.#forgotten) {
      if (this.#forgotten.size <= FORGOTTEN_MOST) break
      this.#forgotten.delete(oldest)
      await rm(path.join(this.#folder, oldest.replace('.json', MARK)), { force: true })
    }
  }

  /** Errors: those of the file system. */
  async remove(fcallId: string): Promise<void> {
    const name = fileNameOf(fcallId)
    await this.#inTurn(fcallId, async () => {
      await rm(path.join(this.#folder, name), { force: true })
      if (this.#forgotten.has(name)) await rm(path.join(this.#folder, name.replace('.json', MARK)), { force: true })
    })
    this.#writing.delete(fcallId)
    this.#files.delete(name)
    this.#endWhole.delete(name)
    this.#forgotten.delete(name)
  }
}

function parsed(line: string): ToolStep | null {
  try {
    return ToolStepLine.parse(parseExactly(line))
  } catch {
    return null
  }
}
