/**
 * The text side of a delta stream: what may still be shown, held until it is sent. Pure, so that the socket side has nothing
 * to do with characters.
 */

export const CUT_NOTE = '\n[live output stops here; the result shows the beginning and the end]'

export interface DeltaText {
  /** Takes what fits under the cap, cut at a character; the first text that does not fit is followed by one note. */
  push(text: string): void
  /** Everything that waits, or null. A character of which only half has come is kept back. */
  take(): string | null
  /** No more text comes: half a character becomes U+FFFD. */
  finish(): void
  /** UTF-8 bytes of what waits. */
  readonly pendingBytes: number
  /** UTF-8 bytes that will never be shown. */
  readonly droppedBytes: number
  /** Throws away what waits and all that comes, counting it. */
  drop(): void
}

/** `maxBytes` in all, and at most `maxPendingBytes` waiting for a slow peer; whichever is met first ends the text. */
export function createDeltaText(maxBytes: number, maxPendingBytes: number): DeltaText {
  let pending = ''
  let pendingBytes = 0
  let acceptedBytes = 0
  let droppedBytes = 0
  /** A high surrogate whose other half has not come. */
  let half = ''
  let cut = false

  function accept(text: string): void {
    if (text === '') return
    const bytes = Buffer.byteLength(text)
    if (cut) {
      droppedBytes += bytes
      return
    }
    const roomBytes = Math.min(maxBytes - acceptedBytes, maxPendingBytes - pendingBytes)
    if (bytes <= roomBytes) {
      add(text, bytes)
      return
    }
    cut = true
    const head = headOfBytes(text, Math.max(0, roomBytes))
    const headBytes = Buffer.byteLength(head)
    add(head, headBytes)
    droppedBytes += bytes - headBytes
    pending += CUT_NOTE
    pendingBytes += CUT_NOTE.length
  }

  function add(text: string, bytes: number): void {
    pending += text
    pendingBytes += bytes
    acceptedBytes += bytes
  }

  return {
    push(text) {
      const whole = half + text
      half = endsWithHighSurrogate(whole) ? whole.slice(-1) : ''
      accept((half === '' ? whole : whole.slice(0, -1)).toWellFormed())
    },
    take() {
      if (pending === '') return null
      const text = pending
      pending = ''
      pendingBytes = 0
      return text
    },
    finish() {
      if (half !== '') accept('\ufffd')
      half = ''
    },
    get pendingBytes() {
      return pendingBytes
    },
    get droppedBytes() {
      return droppedBytes
    },
    drop() {
      droppedBytes += pendingBytes
      pending = ''
      pendingBytes = 0
      cut = true
    },
  }
}

function endsWithHighSurrogate(text: string): boolean {
  const last = text.charCodeAt(text.length - 1)
  return last >= 0xd800 && last <= 0xdbff
}

/** The longest beginning of well-formed `text` that is at most `maxBytes` in UTF-8 and ends at a character. */
function headOfBytes(text: string, maxBytes: number): string {
  // encodeInto writes whole characters only, and says how many UTF-16 units it read.
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes))
  return text.slice(0, read)
}
