import pLimit from 'p-limit'
import type { Channel } from './channel.js'
import { FRAME } from './frames.js'

/** A file of an earlier call that is put in the workspace before the code starts. */
export interface InputFile {
  /** Relative, of names that are neither empty nor "." nor "..". */
  readonly path: string
  /** Its content; null where it can't be had, of which whoever offered it tells. Never rejects. */
  read(): Promise<Buffer | null>
}

const CHUNK_BYTES = 256 * 1024

/** Of all runs together: so many files are in memory at once, of up to 16 MiB each. */
const atOnce = pLimit(8)

/** Sends files to the warden, one at a time and no faster than it takes them. */
export async function sendInputs(channel: Channel, inputs: readonly InputFile[], isOver: () => boolean): Promise<void> {
  for (const input of inputs) {
    if (isOver()) break
    await atOnce(() => sendInput(channel, input, isOver))
  }
  channel.send(FRAME.inputsEnd, Buffer.alloc(0))
}

async function sendInput(channel: Channel, input: InputFile, isOver: () => boolean): Promise<void> {
  const content = isOver() ? null : await input.read()
  if (content === null) return
  channel.send(FRAME.input, Buffer.from(JSON.stringify({ path: input.path })))
  for (let at = 0; at < content.length && !isOver(); at += CHUNK_BYTES) {
    channel.send(FRAME.inputBytes, content.subarray(at, at + CHUNK_BYTES))
    await channel.drained()
  }
}
