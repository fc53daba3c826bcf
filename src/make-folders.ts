import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'

/**
 * Makes a folder of mode 0700, and those above it, where they are not there. Not mkdir's own `recursive`: below a folder in which nothing can be
 * made although it is there (/proc, /sys) Node 20 tries that for ever. Errors: those of the file system.
 */
export async function makeFolders(folder: string): Promise<void> {
  const made = await make(folder)
  if (made === 'there') return
  const parent = path.dirname(folder)
  // The parent is there, and does not take it.
  if (parent === folder || (await isThere(parent))) throw made
  await makeFolders(parent)
  const again = await make(folder)
  if (again !== 'there') throw again
}

/** Or the error that says that something above it is missing, or seems to be. */
async function make(folder: string): Promise<'there' | NodeJS.ErrnoException> {
  try {
    await mkdir(folder, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return error as NodeJS.ErrnoException
    if (code !== 'EEXIST') throw error
  }
  return 'there'
}

async function isThere(folder: string): Promise<boolean> {
  return await stat(folder).then(
    () => true,
    () => false,
  )
}
