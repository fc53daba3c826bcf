import type { Logger } from 'pino'
import type { CollectedFiles } from '../outcome.js'
import { mebibytes } from '../quantities.js'
import type { InputFile } from '../sandbox/inputs.js'
import { TimeLimitError, withTimeLimit } from '../time-limit.js'
import { pathProblem } from './names.js'
import type { FileStore, StoredFile, ThreadKey } from './store.js'
import { StoreError } from './store.js'

/** For asking what there is, before the code; for reading it; for storing what the code has made. */
const LIST_MS = 3_000
const READ_MS = 10_000
const KEEP_MS = 8_000
/** Small ones are read ahead, so that each does not wait for the one before it. */
const AHEAD = 4
const AHEAD_BYTES = 1024 * 1024
const NAMED_MOST = 10

interface FilesBounds {
  /** Of all that is put into a workspace, and of one file. */
  readonly bytes: number
  readonly fileBytes: number
  readonly files: number
}

export interface FilesOptions {
  readonly store: FileStore
  readonly bounds: FilesBounds
  readonly log: Logger
  /** Milliseconds; default: those above. */
  readonly within?: { readonly list?: number; readonly read?: number; readonly keep?: number }
}

/** What a call gets of earlier ones. */
export interface Restored {
  readonly inputs: readonly InputFile[]
  /** What the model has to know, without brackets; complete when the code has run. */
  notes(): string[]
}

/** What has become of the files that a call has made. */
export interface KeptFiles {
  /** path → URI */
  readonly stored: ReadonlyMap<string, string>
  readonly notes: readonly string[]
  /** Resolves when the store holds nothing of the contents any more: one that hangs does so for longer than it is waited for. */
  readonly done: Promise<void>
}

/** A store that gave no answer is left alone for so long: each call would have to wait for it. */
const PAUSE_MS = 30_000

/** Files that outlive the call, for calls that belong to a thread. A store that fails costs no call: its result says so. */
export class FilesOfThreads {
  readonly #options: FilesOptions
  #isIll = false
  #pausedUntilMs = 0

  constructor(options: FilesOptions) {
    this.#options = options
  }

  /** null: the call belongs to no thread, and nothing is kept for it. */
  of(key: ThreadKey | null): ThreadFiles | null {
    if (key === null || key.thread === '' || key.group === '') return null
    const health = {
      tell: (error: unknown) => this.tell(error),
      isPaused: () => performance.now() < this.#pausedUntilMs,
    }
    return new ThreadFiles(key, this.#options, health)
  }

  /** What is kept of a thread, for a person who looks. Errors: those of the store, TimeLimitError. */
  async look(key: ThreadKey, signal: AbortSignal): Promise<readonly StoredFile[]> {
    const { store, within } = this.#options
    return (await withTimeLimit(within?.list ?? LIST_MS, signal, one => store.list(key, one, true))).files
  }

  /** The content of one of them; null: there is no such file. Errors: those of the store, TimeLimitError. */
  async read(key: ThreadKey, path: string, signal: AbortSignal): Promise<Buffer | null> {
    const { store, within } = this.#options
    const file = (await this.look(key, signal)).find(one => one.path === path)
    if (file === undefined) return null
    return await withTimeLimit(within?.read ?? READ_MS, signal, one => store.get(key, file, one))
  }

  close(): void {
    this.#options.store.close()
  }

  /** That the store failed, or works: null. One line when it begins and one when it is over. */
  tell(error: unknown): void {
    const isIll = error !== null
    if (error instanceof TimeLimitError) this.#pausedUntilMs = performance.now() + PAUSE_MS
    if (isIll === this.#isIll) return
    this.#isIll = isIll
    if (isIll) this.#options.log.error({ reason: phraseOf(error) }, 'files of chats can not be kept')
    else this.#options.log.info('files of chats are kept again')
  }
}

interface Health {
  /** null: it works. */
  tell(error: unknown): void
  isPaused(): boolean
}

/** The files of the thread that one call belongs to. Nothing of it rejects. */
export class ThreadFiles {
  readonly #key: ThreadKey
  readonly #options: FilesOptions
  readonly #health: Health
  /** Paths that the store has. */
  #stored: ReadonlySet<string> = new Set()
  #restored: readonly StoredFile[] = []

  constructor(key: ThreadKey, options: FilesOptions, health: Health) {
    this.#key = key
    this.#options = options
    this.#health = health
  }

  /** The newest files that fit into a workspace, to be read while they are put there. `signal`: of the call. */
  async restore(signal: AbortSignal): Promise<Restored> {
    const { store, bounds, within } = this.#options
    const notes: string[] = []
    try {
      if (this.#health.isPaused()) throw new StoreError('the store did not answer of late')
      const { files, gone } = await withTimeLimit(within?.list ?? LIST_MS, signal, one => store.list(this.#key, one))
      const { fitting, left } = chosen(files, bounds)
      this.#stored = new Set(files.map(({ path }) => path))
      this.#restored = fitting
      this.#health.tell(null)
      const reasons = new Map(gone.map(({ path, why }) => [path, why]))
      if (reasons.size > 0) notes.push(`not kept any longer: ${named(reasons)}`)
      if (left.size > 0) notes.push(`files of earlier calls that are not in the workspace: ${named(left)}`)
      const { inputs, failed } = this.#inputs(fitting, signal)
      return { inputs, notes: () => [...notes, ...failedNote(failed)] }
    } catch (error) {
      if (!signal.aborted) this.#health.tell(error)
      const why = phraseOf(error)
      return { inputs: [], notes: () => [`files of earlier calls are not in the workspace this time: ${why}`] }
    }
  }

  /**
   * Stores what the code has made or changed, and forgets what it has removed where `mayForget`. To be called once the outcome of the
   * call is final.
   */
  async keep({ files, gone, unlisted }: CollectedFiles, mayForget: boolean, signal: AbortSignal): Promise<KeptFiles> {
    const { store, within } = this.#options
    const refused = new Map(unlisted.map(path => [path, 'it is not listed']))
    const wanted = files.flatMap(({ path, mime, content, why }) => {
      const problem = why ?? pathProblem(path)
      if (problem !== null) refused.set(path, problem)
      return problem === null && content !== null ? [{ path, mime, content }] : []
    })
    const removed = mayForget ? this.#restored.filter(({ path }) => gone.includes(path)) : []
    const unchanged = [...refused.keys(), ...(mayForget ? [] : gone)]
    /** `unsure`: paths of which the store may have the older version. */
    const notes = (
      byStore: ReadonlyMap<string, string>,
      unsure: readonly string[],
      evicted: readonly string[] = [],
    ) => [
      ...refusedNote(new Map([...refused, ...byStore])),
      ...(evicted.length === 0 ? [] : [`no longer kept, to make room: ${listed(evicted)}`]),
      ...this.#olderNote('find', unchanged, evicted),
      ...this.#olderNote('may find', unsure, evicted),
    ]
    const nothing = () => ({ stored: new Map(), notes: notes(new Map(), []), done: Promise.resolve() })
    if (wanted.length === 0 && removed.length === 0) return nothing()
    let done = Promise.resolve()
    try {
      if (this.#health.isPaused()) throw new StoreError('the store did not answer of late')
      return await withTimeLimit(within?.keep ?? KEEP_MS, signal, async one => {
        if (removed.length > 0) await store.remove(this.#key, removed, one)
        if (wanted.length === 0) return nothing()
        const keeping = store.keep(this.#key, wanted, one)
        done = keeping.then(
          () => {},
          () => {},
        )
        const kept = await keeping
        this.#health.tell(null)
        return { stored: kept.stored, notes: notes(kept.refused, [...kept.refused.keys()], kept.evicted), done }
      })
    } catch (error) {
      if (!signal.aborted) this.#health.tell(error)
      const why = signal.aborted ? 'the call was ended' : phraseOf(error)
      const lost = new Map(wanted.map(file => [file.path, why]))
      const unsure = [...lost.keys(), ...removed.map(({ path }) => path)]
      return { stored: new Map(), notes: notes(lost, unsure), done }
    }
  }

  /** Nobody must compute on data without knowing that they are stale. */
  #olderNote(verb: 'find' | 'may find', paths: readonly string[], evicted: readonly string[]): string[] {
    const older = paths.filter(path => this.#stored.has(path) && !evicted.includes(path))
    return older.length === 0 ? [] : [`later calls ${verb} the older version of: ${listed(older)}`]
  }

  #inputs(
    files: readonly StoredFile[],
    signal: AbortSignal,
  ): { inputs: readonly InputFile[]; failed: ReadonlyMap<string, string> } {
    const { store, within } = this.#options
    const failed = new Map<string, string>()
    const begun = new Map<StoredFile, Promise<Buffer | null>>()
    let endMs: number | null = null
    const begin = (file: StoredFile): Promise<Buffer | null> => {
      const known = begun.get(file)
      if (known !== undefined) return known
      endMs ??= performance.now() + (within?.read ?? READ_MS)
      const reading = withTimeLimit(Math.max(1, endMs - performance.now()), signal, one =>
        store.get(this.#key, file, one),
      ).then(
        content => {
          if (content === null) failed.set(file.path, 'it is not there any more')
          return content
        },
        (error: unknown) => {
          failed.set(file.path, phraseOf(error))
          if (!signal.aborted) this.#health.tell(error)
          return null
        },
      )
      begun.set(file, reading)
      return reading
    }
    const inputs = files.map((file, index) => ({
      path: file.path,
      read: () => {
        const reading = begin(file)
        for (const next of files.slice(index + 1, index + 1 + AHEAD)) if (next.bytes <= AHEAD_BYTES) void begin(next)
        begun.delete(file)
        return reading
      },
    }))
    return { inputs, failed }
  }
}

/** The newest first, as many as there is room for; the others with the reason. */
function chosen(
  files: readonly StoredFile[],
  bounds: FilesBounds,
): { fitting: readonly StoredFile[]; left: ReadonlyMap<string, string> } {
  const left = new Map<string, string>()
  const fitting: StoredFile[] = []
  let bytes = 0
  for (const file of files.toSorted((a, b) => b.at - a.at)) {
    if (file.bytes > bounds.fileBytes) left.set(file.path, `larger than ${mebibytes(bounds.fileBytes)}`)
    else if (fitting.length >= bounds.files) left.set(file.path, `more than ${bounds.files} files`)
    else if (bytes + file.bytes > bounds.bytes) left.set(file.path, `more than ${mebibytes(bounds.bytes)} together`)
    else {
      bytes += file.bytes
      fitting.push(file)
    }
  }
  return { fitting: fitting.toSorted((a, b) => (a.path < b.path ? -1 : 1)), left }
}

function failedNote(failed: ReadonlyMap<string, string>): string[] {
  return failed.size === 0 ? [] : [`files of earlier calls that could not be read: ${named(failed)}`]
}

function refusedNote(refused: ReadonlyMap<string, string>): string[] {
  return refused.size === 0 ? [] : [`not kept for later calls: ${named(refused)}`]
}

function named(reasons: ReadonlyMap<string, string>): string {
  return listed([...reasons].map(([path, why]) => `${path} (${why})`))
}

function listed(names: readonly string[]): string {
  const more = names.length - NAMED_MOST
  return names.slice(0, NAMED_MOST).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

/** For the model and the log. Messages of Node name paths of this machine, so of those only the code is told. */
function phraseOf(error: unknown): string {
  if (error instanceof StoreError) return error.message
  if (error instanceof TimeLimitError) return `the store gave ${error.message}`
  const { code } = error as NodeJS.ErrnoException
  return `the store can not be used${typeof code === 'string' ? ` (${code})` : ''}`
}
