import { chmod, mkdir, readdir, rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { makeTemporaryFolder } from './temporary-folder.js'

const PREFIX = 'pyx-'

/** The worker's own scratch folder: the socket that its processes connect to, and the landlock tier's workspaces. */
export interface RuntimeDir {
  readonly path: string
  /** 0700: nobody else can reach the socket. */
  readonly socketDir: string
  readonly socketPath: string
  /** Mount point of the namespaces tier's file tree. */
  readonly rootDir: string
  /** Passable for other uids, not listable: each sandbox's folder in it is its own. */
  readonly boxesDir: string
  readonly zygoteDir: string
  remove(): Promise<void>
}

/** Makes it below the temporary folder, and removes those that workers killed earlier have left. Errors: TemporaryFolderError. */
export async function makeRuntimeDir(): Promise<RuntimeDir> {
  // The path of a Unix socket holds 107 bytes.
  const parent = os.tmpdir().length <= 60 ? os.tmpdir() : '/tmp'
  await removeOrphans(parent)
  const base = await makeTemporaryFolder(parent, PREFIX)
  await chmod(base, 0o711)
  const folders = { socketDir: 's', rootDir: 'root', boxesDir: 'boxes', zygoteDir: 'zygote' }
  const at = (name: string) => path.join(base, name)
  for (const name of Object.values(folders)) await mkdir(at(name), { mode: 0o700 })
  await chmod(at(folders.boxesDir), 0o711)
  return {
    path: base,
    socketDir: at(folders.socketDir),
    socketPath: path.join(at(folders.socketDir), 'w.sock'),
    rootDir: at(folders.rootDir),
    boxesDir: at(folders.boxesDir),
    zygoteDir: at(folders.zygoteDir),
    remove: () => rm(base, { recursive: true, force: true, maxRetries: 3 }),
  }
}

async function removeOrphans(parent: string): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    if (!name.startsWith(PREFIX)) continue
    const folder = path.join(parent, name)
    if (await hasListener(path.join(folder, 's', 'w.sock'))) continue
    await rm(folder, { recursive: true, force: true }).catch(() => {}) // another user's
  }
}

/** Whether a worker still listens there. A pid would not tell: it may be of another container with the same /tmp. */
function hasListener(socketPath: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = net.connect(socketPath)
    socket.once('connect', () => resolve(true))
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'ECONNREFUSED'))
    socket.once('connect', () => socket.destroy())
  })
}
