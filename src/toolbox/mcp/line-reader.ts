import { Pieces } from '../pieces.js'

/** What is kept of each end of a line that is too long: enough to see which request it answers. */
const ENDS_BYTES = 512
const NEWLINE = 10

export interface LineListener {
  /** Without its line end; not empty. */
  line(bytes: Buffer): void
  empty?(): void
  /** A line beyond the bound has ended; all but its ends is gone. */
  oversized(head: Buffer, tail: Buffer): void
  /** So many bytes of a line beyond the bound were thrown away. */
  discarded?(bytes: number): void
}

/** Splits bytes into lines and never holds more than `maxBytes` of one. */
export class LineReader {
  readonly #maxBytes: number
  readonly #listener: LineListener
  readonly #line = new Pieces()
  #discarding: { readonly head: Buffer; tail: Buffer } | null = null

  constructor(maxBytes: number, listener: LineListener) {
    this.#maxBytes = maxBytes
    this.#listener = listener
  }

  push(chunk: Buffer): void {
    let start = 0
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start)
      if (end === -1) break
      this.#add(chunk.subarray(start, end))
      this.#endLine()
      start = end + 1
    }
    if (start < chunk.length) this.#add(chunk.subarray(start))
  }

  /** The stream is over: what stands without a line end is a line too. */
  end(): void {
    this.#endLine()
  }

  #add(part: Buffer): void {
    if (part.length === 0) return
    if (this.#discarding === null) {
      this.#line.add(part)
      if (this.#line.bytes <= this.#maxBytes) return
      const start = this.#line.take()
      // Copies: a slice would keep the whole memory alive.
      this.#discarding = { head: Buffer.from(start.subarray(0, ENDS_BYTES)), tail: lastOf(start) }
      this.#listener.discarded?.(start.length)
      return
    }
    const { tail } = this.#discarding
    this.#discarding.tail = lastOf(part.length >= ENDS_BYTES ? part : Buffer.concat([tail, part]))
    this.#listener.discarded?.(part.length)
  }

  #endLine(): void {
    const line = this.#line.take()
    const discarding = this.#discarding
    this.#discarding = null
    if (discarding !== null) {
      this.#listener.oversized(discarding.head, discarding.tail)
      return
    }
    const content = line.at(-1) === 13 ? line.subarray(0, -1) : line
    if (content.length > 0) this.#listener.line(content)
    else this.#listener.empty?.()
  }
}

function lastOf(bytes: Buffer): Buffer {
  return Buffer.from(bytes.subarray(-ENDS_BYTES))
}
