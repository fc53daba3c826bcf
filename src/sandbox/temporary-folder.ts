import { mkdtemp } from 'node:fs/promises'
import path from 'node:path'

/** Nothing can be made in the temporary folder; the message names it and says what would be right. */
export class TemporaryFolderError extends Error {
  override readonly name = 'TemporaryFolderError'
}

/** Makes a folder below `parent`, whose name starts with `prefix`. Errors: TemporaryFolderError. */
export async function makeTemporaryFolder(parent: string, prefix: string): Promise<string> {
  try {
    return await mkdtemp(path.join(parent, prefix))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const from = parent === '/tmp' ? 'the default; see TMPDIR' : 'TMPDIR'
    throw new TemporaryFolderError(
      `the temporary folder ${parent} (${from}) can't be written (${code ?? message}); give one that this user can write`,
    )
  }
}
