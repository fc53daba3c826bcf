import { Readable } from 'node:stream'
import {
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3'
import pLimit from 'p-limit'
import { pathProblem, threadName } from './names.js'
import { planRoom } from './quota.js'
import {
  type FileStore,
  type GoneFile,
  type Kept,
  type NewFile,
  type StoredFile,
  StoreError,
  type ThreadKey,
} from './store.js'

const MIB = 1024 * 1024
const HOUR_MS = 3_600_000
const ATTEMPTS = 3
const CONNECT_MS = 2_000
const REQUEST_MS = 5_000
/** Objects that are sent at the same time. */
const AT_ONCE = 4
/** More than a thread may have; what is beyond is nobody's of ours. */
const LISTED_MOST = 1_000

export interface S3StoreOptions {
  readonly bucket: string
  /** Where it is not Amazon's. */
  readonly endpoint: string | null
  readonly region: string
  /** What all keys begin with. */
  readonly prefix: string
  /** The bucket is in the path of a request, not in the name of the host. */
  readonly pathStyle: boolean
  readonly threadBytes: number
  /** An object that was stored so long ago is not there any more. */
  readonly expireMs: number
  readonly wallClock?: () => number
  /** Tests only; else the SDK's own chain: environment, files, web identity, instance. */
  readonly credentials?: S3ClientConfig['credentials']
}

/**
 * Files as objects of a bucket: <prefix><hash of the thread>/<path>. Any worker that is given the bucket finds them. The quota is held as well as
 * can be without a lock: two calls of a thread at once may exceed it, until the next one.
 */
export class S3Store implements FileStore {
  readonly #options: S3StoreOptions
  readonly #client: S3Client
  readonly #now: () => number

  constructor(options: S3StoreOptions) {
    this.#options = options
    this.#now = options.wallClock ?? Date.now
    this.#client = new S3Client({
      region: options.region,
      ...(options.endpoint === null ? {} : { endpoint: options.endpoint }),
      ...(options.credentials === undefined ? {} : { credentials: options.credentials }),
      forcePathStyle: options.pathStyle,
      maxAttempts: ATTEMPTS,
      requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: REQUEST_MS, throwOnRequestTimeout: true },
      // Checksums in trailers are not known everywhere that S3 is spoken.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
    })
  }

  /** `gone`: told again by each call where the bucket does not let them be deleted. */
  async list(
    key: ThreadKey,
    signal: AbortSignal,
    looksOn = false,
  ): Promise<{ files: StoredFile[]; gone: readonly GoneFile[] }> {
    const { files, old } = await this.#list(key, signal)
    if (looksOn || old.length === 0) return { files, gone: [] }
    // They are not given back either way; a bucket that deletes nothing is told of when room is needed.
    await this.#delete(key, old, signal).catch(() => {})
    const why = `stored more than ${this.#options.expireMs / HOUR_MS} h ago`
    return { files, gone: old.map(({ path }) => ({ path, why })) }
  }

  /** Changes nothing: what is old stays for the next call, which is told of it. */
  async #list(key: ThreadKey, signal: AbortSignal): Promise<{ files: StoredFile[]; old: StoredFile[] }> {
    const prefix = this.#prefix(key)
    const { bucket, expireMs } = this.#options
    const command = new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, MaxKeys: LISTED_MOST })
    const { Contents = [] } = await this.#told(() => this.#client.send(command, { abortSignal: signal }))
    const files = Contents.flatMap(({ Key = '', Size = 0, LastModified, ETag = '' }): StoredFile[] => {
      const path = Key.slice(prefix.length)
      if (!Key.startsWith(prefix) || pathProblem(path) !== null) return []
      return [{ path, bytes: Size, at: LastModified?.getTime() ?? 0, version: ETag }]
    })
    const isOld = ({ at }: StoredFile) => this.#now() - at >= expireMs
    return { files: files.filter(file => !isOld(file)), old: files.filter(isOld) }
  }

  async get(key: ThreadKey, file: StoredFile, signal: AbortSignal): Promise<Buffer | null> {
    const command = new GetObjectCommand({ Bucket: this.#options.bucket, Key: this.#prefix(key) + file.path })
    return await this.#told(async () => {
      try {
        const { Body, ContentLength } = await this.#client.send(command, { abortSignal: signal })
        // Somebody has stored another one meanwhile, of a size that nobody has planned for.
        if (Body === undefined || ContentLength !== file.bytes) {
          // Unread it would hold one of the client's few connections for ever.
          if (Body instanceof Readable) Body.destroy()
          return null
        }
        return Buffer.from(await Body.transformToByteArray())
      } catch (error) {
        if (statusOf(error) === 404) return null
        throw error
      }
    })
  }

  async keep(key: ThreadKey, files: readonly NewFile[], signal: AbortSignal): Promise<Kept> {
    const { bucket, threadBytes } = this.#options
    const { files: existing } = await this.#list(key, signal)
    const incoming = files.map(file => ({ path: file.path, bytes: file.content.length }))
    const plan = planRoom(existing, incoming, threadBytes)
    const why = `more than the ${threadBytes / MIB} MiB that one chat may keep`
    const refused = new Map(plan.refuse.map(path => [path, why]))
    const stored = new Map<string, string>()
    const limit = pLimit(AT_ONCE)
    let failure: string | null = null
    const put = async ({ path, mime, content }: NewFile): Promise<void> => {
      const Key = this.#prefix(key) + path
      const command = new PutObjectCommand({ Bucket: bucket, Key, Body: content, ContentType: mime })
      try {
        // Where one has failed after all attempts, the next would only take as long.
        if (failure !== null) throw new StoreError(failure)
        await this.#told(() => this.#client.send(command, { abortSignal: signal }))
        stored.set(path, `s3://${bucket}/${Key.split('/').map(encodeURIComponent).join('/')}`)
      } catch (error) {
        failure = (error as StoreError).message
        refused.set(path, failure)
      }
    }
    const accepted = files.filter(file => !refused.has(file.path))
    await Promise.all(accepted.map(file => limit(() => put(file))))
    const evicted = existing.filter(({ path }) => plan.evict.includes(path))
    if (evicted.length > 0) await this.#delete(key, evicted, signal)
    return { stored, refused, evicted: plan.evict }
  }

  async remove(key: ThreadKey, files: readonly StoredFile[], signal: AbortSignal): Promise<void> {
    if (files.length === 0) return
    // What another call has stored under these paths since stays: not every store deletes under a condition, so it is asked first.
    const versions = new Map((await this.#list(key, signal)).files.map(({ path, version }) => [path, version]))
    await this.#delete(
      key,
      files.filter(({ path, version }) => versions.get(path) === version),
      signal,
    )
  }

  close(): void {
    this.#client.destroy()
  }

  async #delete(key: ThreadKey, files: readonly StoredFile[], signal: AbortSignal): Promise<void> {
    const Objects = files.map(({ path }) => ({ Key: this.#prefix(key) + path }))
    if (Objects.length === 0) return
    const command = new DeleteObjectsCommand({ Bucket: this.#options.bucket, Delete: { Objects, Quiet: true } })
    const { Errors = [] } = await this.#told(() => this.#client.send(command, { abortSignal: signal }))
    // Refused one by one, under an answer that is 200.
    if (Errors.length > 0) throw new StoreError(`the store refused to delete (${wordOf(Errors[0]?.Code)})`)
  }

  #prefix(key: ThreadKey): string {
    return `${this.#options.prefix}${threadName(key)}/`
  }

  /** What the SDK throws may hold the whole request: of it only a name and a status are told. */
  async #told<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw new StoreError(phraseOf(error))
    }
  }
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode
}

function phraseOf(error: unknown): string {
  const { name = '', code = '' } = error as { name?: string; code?: string }
  const status = statusOf(error)
  const word = wordOf(code, name)
  if (name === 'AbortError') return 'the store was given up'
  if (name === 'CredentialsProviderError') return 'there are no credentials for the store'
  if (status !== undefined) return `the store refused (${word}, HTTP ${status})`
  return `the store can not be reached (${word})`
}

/** The first of these that is a name and no sentence. */
function wordOf(...names: readonly unknown[]): string {
  const isWord = (one: unknown) => typeof one === 'string' && /^[A-Za-z]\w{2,60}$/.test(one) && one !== 'Error'
  return (names.find(isWord) as string | undefined) ?? 'no reason'
}
