import { constants } from 'node:fs'
import { open, readFile, rm } from 'node:fs/promises'
import { RecentNames } from './recent-names.js'
import { writeWhole } from './record-files.js'

/** A name, or "-" for one that was forgotten, and when its call was over, in milliseconds since the epoch. */
const LINE = /^(\d{1,16}) (-|[0-9a-f]{64}\.json)$/
/** Lines of no use that are left in the file. */
const STALE_MOST = 10_000

/** Recent names that are in a file as well: one to which a line is added for each, and which is written anew when most of it is stale. */
export class NamesFile {
  readonly #file: string
  readonly #names: RecentNames
  #lines = 0
  /** One after the other: what is added while the file is written anew would not be in it. */
  #writing: Promise<unknown> = Promise.resolve()

  private constructor(file: string, names: RecentNames) {
    this.#file = file
    this.#names = names
  }

  /** Errors: those of the file system; a link. */
  static async open(file: string, most?: number): Promise<NamesFile> {
    const names = new RecentNames(most)
    const opened = new NamesFile(file, names)
    const text = await readFile(file, { encoding: 'utf8', flag: constants.O_RDONLY | constants.O_NOFOLLOW }).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
        return ''
      },
    )
    for (const line of text.split('\n').filter(line => line !== '')) {
      const [, at, name] = LINE.exec(line) ?? []
      opened.#lines++
      if (name === '-') names.forget(Number(at))
      else if (name !== undefined) names.add(name, Number(at)) // else cut off by a power cut, or not ours
    }
    return opened
  }

  has(name: string): boolean {
    return this.#names.has(name)
  }

  mayHaveForgotten(createdAt: number, now: number): boolean {
    return this.#names.mayHaveForgotten(createdAt, now)
  }

  /** Resolves when they outlive a power cut. Errors: those of the file system. */
  async add(added: readonly (readonly [name: string, at: number])[]): Promise<void> {
    for (const [name, at] of added) this.#names.add(name, at)
    await this.#inTurn(async () => {
      const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW
      const file = await open(this.#file, flags, 0o600)
      try {
        // Begun on a new line, since a write that failed may have left half a one.
        await file.appendFile(added.map(([name, at]) => `\n${lineOf(name, at)}`).join(''))
        this.#lines += added.length
        await file.datasync()
      } finally {
        await file.close()
      }
    })
  }

  /** Lets go of what is too old. Errors: those of the file system. */
  async prune(now: number): Promise<void> {
    this.#names.prune(now)
    const { size, forgottenAt } = this.#names
    if (this.#lines <= size + STALE_MOST && (size > 0 || this.#lines === 0)) return
    await this.#inTurn(async () => {
      const lines = [lineOf('-', forgottenAt), ...[...this.#names.entries()].map(([name, at]) => lineOf(name, at))]
      if (this.#names.size === 0) await rm(this.#file, { force: true })
      else await writeWhole(this.#file, lines.join('\n'))
      this.#lines = this.#names.size
    })
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#writing.then(work)
    this.#writing = done.catch(() => {})
    return done
  }
}

function lineOf(name: string, at: number): string {
  return `${Math.round(at)} ${name}`
}
