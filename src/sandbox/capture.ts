import type { CapturedText } from '../outcome.js'

/** Share of the kept bytes that the beginning gets; the rest goes to the end, where the answer stands. */
const HEAD_SHARE = 0.4

/** How many bytes the warden sends of one stream: the first ones as they come, the last ones at the end. */
export interface Shares {
  readonly firstBytes: number
  readonly lastBytes: number
}

/**
 * What the warden has to pass on for `keptBytes` to be kept and up to `streamedBytes` to be streamed. A little more than
 * is streamed, so that the end of the streaming is noticed; a little more than is kept, for the cut between characters.
 */
export function sharesFor(keptBytes: number, streamedBytes: number): Shares {
  return { firstBytes: Math.max(keptBytes, streamedBytes + 65_536), lastBytes: keptBytes + 16 }
}

/** One output stream of a run: decoded as it comes, and kept with head and tail. */
export class Capture {
  readonly #keptBytes: number
  readonly #onText: ((text: string) => void) | null
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #first: Buffer[] = []
  #last: Buffer = Buffer.alloc(0)

  /** onText gets the text as it comes, with exactly the characters that `finish` gives when nothing is cut. */
  constructor(keptBytes: number, onText: ((text: string) => void) | null) {
    this.#keptBytes = keptBytes
    this.#onText = onText
  }

  push(bytes: Buffer): void {
    this.#first.push(bytes)
    this.#emit(this.#decoder.decode(bytes, { stream: true }))
  }

  /** The last bytes of what was not pushed. */
  setTail(bytes: Buffer): void {
    this.#last = bytes
  }

  /** Ends the stream; `totalBytes` is what the code wrote, or null when nobody can say any more. */
  finish(totalBytes: number | null): CapturedText {
    this.#emit(this.#decoder.decode())
    const first = Buffer.concat(this.#first)
    const total = totalBytes ?? first.length
    if (total <= this.#keptBytes && total <= first.length) {
      return { text: show(first), bytes_total: total, bytes_kept: first.length, truncated: false }
    }
    const head = cutEnd(first.subarray(0, Math.floor(this.#keptBytes * HEAD_SHARE)))
    const room = this.#keptBytes - Math.floor(this.#keptBytes * HEAD_SHARE)
    const passedOver = total - first.length - this.#last.length
    // Where the warden's two pieces meet, they are one text.
    const end = passedOver > 0 ? this.#last : Buffer.concat([first, this.#last])
    const tail = cutStart(end.subarray(Math.max(0, end.length - room)))
    const kept = head.length + tail.length
    return {
      text: `${show(head)}\n[… ${total - kept} bytes left out …]\n${show(tail)}`,
      bytes_total: total,
      bytes_kept: kept,
      truncated: true,
    }
  }

  #emit(text: string): void {
    if (text !== '') this.#onText?.(visible(text))
  }
}

function show(bytes: Buffer): string {
  return visible(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes))
}

/** U+0000 breaks databases behind the backend; its picture does not. */
export function visible(text: string): string {
  return text.replaceAll('\u0000', '\u2400')
}

/** Without a character that is cut off at the end. */
function cutEnd(bytes: Buffer): Buffer {
  let start = bytes.length - 1
  while (start >= 0 && start > bytes.length - 4 && isContinuation(bytes[start])) start--
  const lead = bytes[start]
  if (lead === undefined) return bytes
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1
  return start + length > bytes.length ? bytes.subarray(0, start) : bytes
}

/** Without the rest of a character at the start. */
function cutStart(bytes: Buffer): Buffer {
  let start = 0
  while (start < 3 && isContinuation(bytes[start])) start++
  return bytes.subarray(start)
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}
