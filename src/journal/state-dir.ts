import { spawn } from 'node:child_process'
import { closeSync, constants, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const LOCK_WITHIN_MS = 10_000
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
}

/**
 * Makes the folder where it is not there, and holds it for this process alone until that ends. `python` runs the lock's few lines. Returns what
 * lets another worker have it before. Errors: StateDirError where another worker holds it (which is named), or where it can't be made,
 * opened or locked.
 */
export async function holdStateDir(folder: string, python: string): Promise<() => void> {
  // A number, not a FileHandle: that one closes when nothing refers to it any more.
  const fd = openLock(folder)
  // Both, since the file can be removed, and some network file systems lock no folder.
  const folderFd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY)
  const { code, stderr } = await runLock([fd, folderFd], python)
  const release = () => {
    closeSync(fd)
    closeSync(folderFd)
  }
  if (code === 0) {
    sign(fd)
    return release
  }
  const holder = holderOf(fd)
  release()
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

function openLock(folder: string): number {
  const file = path.join(folder, 'lock')
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return openSync(file, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  } catch (error) {
    // A disk that is read-only for now can be locked all the same, and the journal says what it can't do.
    if ((error as NodeJS.ErrnoException).code === 'EROFS') {
      try {
        return openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
      } catch {
        // There is none yet.
      }
    }
    throw new StateDirError(
      `STATE_DIR: ${folder} can not be used (${(error as Error).message}); give a folder that uid ${process.getuid?.()} may write to, one for each worker`,
    )
  }
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
function sign(fd: number): void {
  try {
    ftruncateSync(fd)
    writeSync(fd, `pid ${process.pid} on ${os.hostname()} since ${new Date().toISOString()}\n`, 0)
  } catch {
    // Full or read-only.
  }
}

function holderOf(fd: number): string {
  try {
    const buffer = Buffer.alloc(HOLDER_SHOWN_BYTES)
    const line = buffer.toString('utf8', 0, readSync(fd, buffer, 0, HOLDER_SHOWN_BYTES, 0)).split('\n')[0] ?? ''
    if (/^[\x20-\x7e]+$/.test(line)) return line
  } catch {
    // As below.
  }
  return 'which has not said who it is'
}
