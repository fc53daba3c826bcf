import path from 'node:path'
import type { Variables } from '../config.js'
import type { Fault } from './report.js'

const HOUR_MS = 3_600_000

/** Where files that calls have made are kept for later calls of the same thread. */
export interface FilesConfig {
  readonly store: 'directory' | 's3' | 'off'
  /** null: inside of the state folder. */
  readonly folder: string | null
  /** Of one thread. */
  readonly threadBytes: number
  /** Of all threads, in a directory. */
  readonly totalBytes: number
  readonly expireMs: number
  /** null where files are not kept there. */
  readonly s3: {
    readonly bucket: string
    readonly endpoint: string | null
    readonly region: string
    readonly prefix: string
    readonly pathStyle: boolean
  } | null
}

/** What the FILES variables say together. */
export function filesConfig(values: Variables): { readonly files: FilesConfig; readonly faults: readonly Fault[] } {
  const faults: Fault[] = []
  const bucket = values.FILES_S3_BUCKET
  if (values.FILES === 's3' && bucket === undefined) {
    faults.push({ variable: 'FILES_S3_BUCKET', right: 'give the name of a bucket, since FILES=s3' })
  }
  const totalBytes = values.FILES_TOTAL_MB ?? Math.max(values.FILES_MAX_MB, 512 * 1024 * 1024)
  if (totalBytes < values.FILES_MAX_MB) {
    const right = `give at least FILES_MAX_MB, which is ${values.FILES_MAX_MB / (1024 * 1024)}`
    faults.push({ variable: 'FILES_TOTAL_MB', right })
  }
  const files: FilesConfig = {
    store: values.FILES,
    folder: values.FILES_DIR === undefined ? null : path.resolve(values.FILES_DIR),
    threadBytes: values.FILES_MAX_MB,
    totalBytes,
    expireMs: values.FILES_EXPIRE_HOURS * HOUR_MS,
    s3:
      values.FILES !== 's3' || bucket === undefined
        ? null
        : {
            bucket,
            endpoint: values.FILES_S3_ENDPOINT ?? null,
            region: values.FILES_S3_REGION,
            prefix: values.FILES_S3_PREFIX === undefined ? '' : `${values.FILES_S3_PREFIX.replace(/\/+$/, '')}/`,
            pathStyle: values.FILES_S3_PATH_STYLE,
          },
  }
  return { files, faults }
}
