import { createReadStream } from 'node:fs'

export type Script = { readonly ok: true; readonly code: string } | { readonly ok: false; readonly problem: string }

/** The file cannot be read; the message names it and says why. */
export class ScriptUnreadable extends Error {
  override readonly name = 'ScriptUnreadable'
}

/**
 * Reads a script from a file, or from standard input for "-". No more than `maxBytes` are kept, whatever is piped in: what is
 * larger, or is no UTF-8, is a problem to be told. Rejects with ScriptUnreadable for a file that cannot be read, and with the
 * signal's reason when that aborts.
 */
export async function readScript(file: string, maxBytes: number, signal: AbortSignal): Promise<Script> {
  const input = file === '-' ? process.stdin : createReadStream(file)
  const stop = () => input.destroy(new Error(String(signal.reason)))
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of input) {
      chunks.push(chunk as Buffer)
      bytes += (chunk as Buffer).length
      if (bytes > maxBytes) {
        input.destroy()
        return { ok: false, problem: `the script is larger than ${maxBytes} bytes (ARGUMENTS_MAX_BYTES)` }
      }
    }
  } catch (error) {
    if (signal.aborted || !(error instanceof Error)) throw error
    throw new ScriptUnreadable(whyUnreadable(file, error), { cause: error })
  } finally {
    signal.removeEventListener('abort', stop)
  }
  try {
    return { ok: true, code: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks)) }
  } catch {
    return { ok: false, problem: 'the script is not UTF-8 text' }
  }
}

function whyUnreadable(file: string, error: NodeJS.ErrnoException): string {
  const name = file === '-' ? 'standard input' : file
  switch (error.code) {
    case 'EISDIR':
      return `${name} is a folder, not a file`
    case 'ENOENT':
      return `there is no file ${name}`
    case 'EACCES':
      return `${name} may not be read: permission denied`
    default:
      return `${name} cannot be read: ${error.message}`
  }
}
