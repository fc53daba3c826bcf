import { constants } from 'node:fs'
import { chmod, lstat, open, readdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { makeFolders } from '../make-folders.js'
import { type CallRecord, parseAnswer, parseRecord } from './record.js'

/** Larger than any answer that is accepted; what is larger is not ours. */
const RECORD_MOST_BYTES = 64 * 1024 * 1024
/** A link, or a file that is not ours to read. */
const NOT_OURS = ['ELOOP', 'EACCES', 'EPERM']

/** All of it, or an error and what was there before. While it is written it has its name with a number behind it. */
export async function writeWhole(file: string, text: string): Promise<void> {
  const data = Buffer.from(text, 'utf8')
  await writeFileAtomic(file, data, {
    mode: 0o600,
    // It writes once and does not look whether all was taken: on a disk that is nearly full the record would be cut. So the room
    // is taken first.
    tmpfileCreated: temporary => writeFile(temporary, Buffer.alloc(data.length)),
  })
}

/** Errors: those of the file system; one that is a link, or not ours: who made it may have had something else in mind. */
export async function makeFolder(folder: string): Promise<void> {
  await makeFolders(folder)
  const status = await lstat(folder)
  const uid = process.getuid?.() ?? status.uid
  if (!status.isDirectory() || status.uid !== uid) {
    throw new Error(
      `${folder} is ${status.isDirectory() ? `owned by uid ${status.uid}` : 'no folder'}, it has to be a folder of uid ${uid}`,
    )
  }
  if ((status.mode & 0o777) !== 0o700) await chmod(folder, 0o700)
}

/** The answer in a file that a link does not lead to; null where it holds none. Errors: those of the file system. */
export async function readAnswer(file: string): Promise<CallRecord['answer']> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    return parseAnswer(await handle.readFile('utf8'))
  } finally {
    await handle.close()
  }
}

/** Errors: those of the file system that say nothing of this file. */
export async function readRecord(file: string): Promise<{ record: CallRecord } | { fault: string }> {
  try {
    // Neither a link that somebody put there is followed, nor a FIFO waited for.
    const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
    try {
      const status = await handle.stat()
      if (!status.isFile()) return { fault: 'is no file' }
      if (status.size > RECORD_MOST_BYTES) return { fault: 'is too large' }
      return parseRecord(path.basename(file), await handle.readFile('utf8'))
    } finally {
      await handle.close()
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    // Somebody else's; any other error says something of the disk and nothing of the file.
    if (!NOT_OURS.includes(code)) throw error
    return { fault: `can not be read: ${code}` }
  }
}

/**
 * Removes what has been changed longest ago until the rest is within both bounds; the last one changed stays. Returns the names of what went.
 * Errors: those of the file system.
 */
export async function keepNewest(
  folder: string,
  most: { readonly files: number; readonly bytes: number },
): Promise<string[]> {
  const entries = await Promise.all(
    (await readdir(folder)).map(async name => {
      const file = path.join(folder, name)
      const status = await lstat(file).catch(() => null) // gone meanwhile
      return { file, at: status?.mtimeMs ?? 0, bytes: status?.size ?? 0 }
    }),
  )
  entries.sort((a, b) => b.at - a.at)
  const gone: string[] = []
  let bytes = 0
  for (const [n, entry] of entries.entries()) {
    bytes += entry.bytes
    if (n === 0 || (n < most.files && bytes <= most.bytes)) continue
    await rm(entry.file, { recursive: true, force: true })
    gone.push(path.basename(entry.file))
  }
  return gone
}

/** Removes what a worker that has died was writing: files of these names. What can't be removed does no harm. */
export async function sweep(folder: string, name: RegExp): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  for (const one of names.filter(one => name.test(one)))
    await rm(path.join(folder, one), { force: true }).catch(() => {})
}
