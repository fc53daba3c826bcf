import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Logger } from 'pino'
import type { Config } from '../config.js'
import { DirectoryStore } from '../files/directory-store.js'
import type { FileStore } from '../files/store.js'
import { FilesOfThreads } from '../files/thread-files.js'
import type { Redactor } from '../telemetry/redactor.js'

export interface OpenFiles {
  readonly files: FilesOfThreads
  close(): Promise<void>
}

/** Where a directory of files is unless FILES_DIR says so: in the state folder, or for as long as this process lives. */
export type FilesPlace = 'state' | 'temporary'

/** Keeps files as the configuration says; null: it does not. What can't be used now is tried again with each call. */
export async function openFiles(
  config: Config,
  where: FilesPlace,
  log: Logger,
  redactor?: Redactor,
): Promise<OpenFiles | null> {
  const { files } = config
  if (files.store === 'off') return null
  const temporary =
    files.store === 'directory' && files.folder === null && where === 'temporary'
      ? path.join(tmpdir(), `python-execute-files-${randomBytes(6).toString('hex')}`)
      : null
  const folder = temporary ?? files.folder ?? path.join(config.stateDir, 'files')
  const store = await storeOf(config, folder, redactor)
  const place = files.s3 === null ? folder : `s3://${files.s3.bucket}`
  const kept = new FilesOfThreads({ store, bounds: boundsOf(config), log: log.child({ place }) })
  // Begun now, so that no call waits for it, and whoever has given a folder that can't be used hears of it at once.
  const opened = store instanceof DirectoryStore ? store.open().catch(error => kept.tell(error)) : null
  return {
    files: kept,
    close: async () => {
      kept.close()
      if (temporary === null) return // nor does a disk that hangs keep anybody
      await opened // else it makes the folder that is removed
      await rm(temporary, { recursive: true, force: true })
    },
  }
}

async function storeOf({ files }: Config, folder: string, redactor?: Redactor): Promise<FileStore> {
  if (files.s3 === null) return new DirectoryStore({ ...files, folder })
  const { AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = process.env
  redactor?.know('files', ...[AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN].filter(secret => secret !== undefined))
  const { S3Store } = await import('../files/s3-store.js') // slow to import, and seldom needed
  return new S3Store({ ...files, ...files.s3 })
}

/** Half of what a workspace holds, so that there is room for what the code makes of it; files count in its memory. */
function boundsOf({ sandbox }: Config): { bytes: number; fileBytes: number; files: number } {
  return {
    bytes: Math.floor(Math.min(sandbox.workspaceBytes / 2, sandbox.memoryBytes / 4)),
    fileBytes: sandbox.fileBytes,
    files: Math.floor(sandbox.workspaceFiles / 4),
  }
}
