import { spawn } from 'node:child_process'
import { close, constants, ftruncate, open, read, write } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { makeFolders } from '../make-folders.js'
import { TimeLimitError, withTimeLimit } from '../time-limit.js'

// Descriptors as numbers, not FileHandles: those close when nothing refers to them any more.
const fs = {
  open: promisify(open),
  close: promisify(close),
  read: promisify(read),
  write: promisify(write),
  ftruncate: promisify(ftruncate),
}

/** For all of it; a disk that does not answer counts as one that can't be used. */
const HOLD_WITHIN_MS = 10_000
const LOCK_WITHIN_MS = 9_000
const HOLDER_SHOWN_BYTES = 300
/** The program's exit codes; Python's own are 1 and 2. */
const HELD = 10
const NO_LOCKS = 11

/**
 * Node has no flock(2). The lock belongs to the open file, not to the process that asks for it: so a child asks, through a descriptor that it
 * inherits, and the lock stays with ours when it has gone. The kernel lets go of it when this process ends, however that comes about.
 */
const LOCK = `
import fcntl, sys
for fd in (3, 4):
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(${HELD})
    except OSError as error:
        if fd == 3:
            print(error, file=sys.stderr)
            sys.exit(${NO_LOCKS})
`

/** STATE_DIR can't be used; the message says why and what would be right. */
export class StateDirError extends Error {
  override readonly name = 'StateDirError'
  /** The disk does not answer: an operation on it holds a thread of this process, perhaps for ever. */
  readonly isStuck: boolean

  constructor(message: string, isStuck = false) {
    super(message)
    this.isStuck = isStuck
  }
}

/** What becomes of an error of STATE_DIR's disk at the start. `right`: what to give instead, as a phrase. */
export function stateDirError(folder: string, error: unknown, right: string): StateDirError {
  const isStuck = error instanceof TimeLimitError
  const why = isStuck ? `its disk gave ${error.message}` : error instanceof Error ? error.message : String(error)
  return new StateDirError(`STATE_DIR: ${folder} can not be used (${why}); ${right}`, isStuck)
}

/**
 * Makes the folder where it is not there, and holds it for this process alone until that ends. `python` runs the lock's few lines. Returns what
 * lets another worker have it before. Errors: StateDirError where another worker holds it (which is named), or where it can't be made,
 * opened or locked.
 */
export async function holdStateDir(folder: string, python: string): Promise<() => Promise<void>> {
  try {
    return await withTimeLimit(HOLD_WITHIN_MS, null, () => hold(folder, python))
  } catch (error) {
    if (error instanceof StateDirError) throw error
    const uid = process.getuid?.()
    throw stateDirError(
      folder,
      error,
      `give a folder that uid ${uid} may write to, one for each worker${groupHint(error)}`,
    )
  }
}

async function hold(folder: string, python: string): Promise<() => Promise<void>> {
  const fd = await openLock(folder)
  // Both, since the file can be removed, and some network file systems lock no folder.
  const folderFd = await fs.open(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  const { code, stderr } = await runLock([fd, folderFd], python)
  const release = async () => {
    await fs.close(fd)
    await fs.close(folderFd)
  }
  if (code === 0) {
    void sign(fd) // whoever waited for that would wait for a disk that can't be written
    return release
  }
  const holder = await holderOf(fd)
  await release()
  if (code === HELD) {
    throw new StateDirError(
      `STATE_DIR: ${folder} is in use by another worker (${holder}); give each worker a folder of its own, or stop that one first`,
    )
  }
  const why = stderr.trim() || `${python} ended with ${code}`
  throw new StateDirError(
    `STATE_DIR: ${folder} can not be locked (${why}); it has to be on a file system with flock(2)`,
  )
}

async function openLock(folder: string): Promise<number> {
  const file = path.join(folder, 'lock')
  try {
    await makeFolders(folder)
    return await fs.open(file, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  } catch (error) {
    // A disk that is read-only for now can be locked all the same, and the journal says what it can't do.
    if ((error as NodeJS.ErrnoException).code !== 'EROFS') throw error
    return await fs.open(file, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => {
      throw error // there is none yet
    })
  }
}

/** The image's folder belongs to group 0, which an engine gives where a user is named without a group. */
function groupHint(error: unknown): string {
  const isRefused = (error as NodeJS.ErrnoException).code === 'EACCES'
  if (!isRefused || process.getgroups?.().includes(0) === true) return ''
  const uid = process.getuid?.()
  return `; where it is the image’s own it belongs to group 0: docker run --user ${uid}:0`
}

function runLock(fds: readonly number[], python: string): Promise<{ code: number | null; stderr: string }> {
  return new Promise(resolve => {
    const child = spawn(python, ['-I', '-S', '-c', LOCK], {
      stdio: ['ignore', 'ignore', 'pipe', ...fds],
      timeout: LOCK_WITHIN_MS,
    })
    let stderr = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(0, 1_000)
    })
    child.once('error', error => resolve({ code: null, stderr: error.message }))
    child.once('close', code => resolve({ code, stderr }))
  })
}

/** For whoever is refused: who holds it. Not worth failing for. */
async function sign(fd: number): Promise<void> {
  try {
    await fs.ftruncate(fd)
    await fs.write(fd, `pid ${process.pid} on ${os.hostname()} since ${new Date().toISOString()}\n`, 0)
  } catch {
    // Full or read-only.
  }
}

async function holderOf(fd: number): Promise<string> {
  try {
    const buffer = Buffer.alloc(HOLDER_SHOWN_BYTES)
    const { bytesRead } = await fs.read(fd, buffer, 0, HOLDER_SHOWN_BYTES, 0)
    const line = buffer.toString('utf8', 0, bytesRead).split('\n')[0] ?? ''
    if (/^[\x20-\x7e]+$/.test(line)) return line
  } catch {
    // As below.
  }
  return 'which has not said who it is'
}
