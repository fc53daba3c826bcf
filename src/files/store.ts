/** Whose files: nothing of one thread ever reaches another. */
export interface ThreadKey {
  /** The group that the call is located in. */
  readonly group: string
  readonly thread: string
}

/** A file that is kept. */
export interface StoredFile {
  /** Relative, as pathProblem() accepts it. */
  readonly path: string
  readonly bytes: number
  /** When it was stored, in milliseconds since the epoch. */
  readonly at: number
  /** Tells one content under this path from another. */
  readonly version: string
}

export interface NewFile {
  readonly path: string
  readonly mime: string
  readonly content: Buffer
}

/** Something that was kept and is not any more. */
export interface GoneFile {
  readonly path: string
  /** As a phrase for the model. */
  readonly why: string
}

export interface Kept {
  /** path → where it is, as a URI */
  readonly stored: ReadonlyMap<string, string>
  /** path → why it is not stored, as a phrase for the model */
  readonly refused: ReadonlyMap<string, string>
  /** Paths of older files that had to go for them. */
  readonly evicted: readonly string[]
}

/**
 * Keeps files of threads until later calls. All paths have been checked. Errors reject: those of the file system, or StoreError; what
 * is stored when they come stays stored. `signal` ends what waits.
 */
export interface FileStore {
  /**
   * What there is of a thread, and what has gone since this was last asked. `looksOn`: for a person who looks, which is no use of the files
   * and leaves what has gone to be told to the next call.
   */
  list(
    thread: ThreadKey,
    signal: AbortSignal,
    looksOn?: boolean,
  ): Promise<{ readonly files: readonly StoredFile[]; readonly gone: readonly GoneFile[] }>
  /** null: it has gone meanwhile. */
  get(thread: ThreadKey, file: StoredFile, signal: AbortSignal): Promise<Buffer | null>
  /** Stores the files of one call, which never push each other out. */
  keep(thread: ThreadKey, files: readonly NewFile[], signal: AbortSignal): Promise<Kept>
  /** Forgets files, unless another call has stored them anew. */
  remove(thread: ThreadKey, files: readonly StoredFile[], signal: AbortSignal): Promise<void>
  close(): void
}

/** The store can't be used for now. The message is a phrase for model and log, without secrets. */
export class StoreError extends Error {
  override readonly name = 'StoreError'
}
