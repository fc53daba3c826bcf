import { LineReader } from './line-reader.js'

interface StreamEvent {
  readonly data: string
  readonly id: string | null
}

export interface EventListener {
  event(event: StreamEvent): void
  /** An event beyond the bound; the ends of its longest line. */
  oversized(head: Buffer, tail: Buffer): void
  discarded(bytes: number): void
  /**
   * A line, or an end of an event, that brings nothing: a comment, a field without meaning, an empty line too many, each line of data
   * but the first of its event.
   */
  nothing(): void
}

/** Server-sent events, as in the HTML standard, with a bound on the bytes of one; events of other names than "message" are left out. */
export class EventReader {
  readonly #maxBytes: number
  readonly #listener: EventListener
  readonly #lines: LineReader
  #data: string[] = []
  #bytes = 0
  #id: string | null = null
  #name = ''
  #tooLarge: { readonly head: Buffer; readonly tail: Buffer } | null = null

  constructor(maxBytes: number, listener: EventListener) {
    this.#maxBytes = maxBytes
    this.#listener = listener
    this.#lines = new LineReader(maxBytes, {
      line: bytes => this.#line(bytes),
      empty: () => this.#dispatch(),
      oversized: (head, tail) => {
        this.#tooLarge = { head: withoutField(head), tail }
      },
      discarded: bytes => listener.discarded(bytes),
    })
  }

  push(chunk: Buffer): void {
    this.#lines.push(chunk)
  }

  #line(bytes: Buffer): void {
    this.#bytes += bytes.length
    if (this.#tooLarge !== null) {
      this.#listener.discarded(bytes.length)
      this.#listener.nothing()
      return
    }
    if (this.#bytes > this.#maxBytes) {
      const head = Buffer.from(this.#data[0]?.slice(0, 512) ?? '')
      this.#tooLarge = { head, tail: Buffer.from(bytes.subarray(-512)) }
      this.#data = []
      return
    }
    const line = bytes.toString()
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') {
      // A message is one line, with nearly all servers: many of a few letters cost more than their bytes.
      if (this.#data.length > 0) this.#listener.nothing()
      this.#data.push(value)
      return
    }
    this.#listener.nothing()
    if (field === 'id' && !value.includes('\0')) this.#id = value
    else if (field === 'event') this.#name = value
  }

  #dispatch(): void {
    const tooLarge = this.#tooLarge
    const data = this.#data.join('\n')
    const wanted = this.#name === '' || this.#name === 'message'
    this.#data = []
    this.#bytes = 0
    this.#name = ''
    this.#tooLarge = null
    if (tooLarge !== null) this.#listener.oversized(tooLarge.head, tooLarge.tail)
    else if (wanted && data !== '') this.#listener.event({ data, id: this.#id })
    else {
      this.#listener.nothing()
      if (wanted && this.#id !== null) this.#listener.event({ data, id: this.#id })
    }
  }
}

function withoutField(head: Buffer): Buffer {
  return Buffer.from(head.toString('latin1').replace(/^data: ?/, ''), 'latin1')
}
