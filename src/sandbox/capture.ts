import type { CapturedText } from '../outcome.js'
import { MASK, type MaskedStream, Matcher, type Spans } from '../telemetry/redactor.js'
import { Redraws } from './redraws.js'

/** So much is looked through for lines that are drawn over and over: nine minutes of a bar that is drawn ten times a second. */
const REDRAWN_BYTES = 1 << 20

/** Pieces that are joined at a time. */
const SMALL_MOST = 256

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
  return { firstBytes: Math.max(keptBytes, streamedBytes + 65_536, REDRAWN_BYTES), lastBytes: keptBytes + 16 }
}

/**
 * One output stream of a run: what it drew over is taken out, the rest is decoded and masked as it comes, and kept with head and tail.
 * All counts are of bytes that the code wrote, less what it drew over: of what was passed over nobody can say how much that was.
 */
export class Capture {
  readonly #keptBytes: number
  readonly #onText: ((text: string) => void) | null
  readonly #secrets: Matcher
  readonly #masked: MaskedStream
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #redraws: Redraws
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined
  #pushedBytes = 0
  /** As they are shown. Pieces of a few bytes each are joined: as Buffers of their own they would take a hundred times as much. */
  readonly #first: Buffer[] = []
  #small: Buffer[] = []
  #last: Buffer = Buffer.alloc(0)

  /**
   * onText gets the text as it comes, with exactly the characters that `finish` gives when nothing is cut. secrets: what is masked
   * in both. null: nobody watches, so that of a line that is redrawn the last state alone is kept. now: milliseconds that only grow.
   */
  constructor(
    keptBytes: number,
    onText: ((text: string) => void) | null,
    secrets = new Matcher([]),
    now = () => performance.now(),
  ) {
    this.#keptBytes = keptBytes
    this.#onText = onText
    this.#redraws = new Redraws(onText !== null)
    this.#now = now
    this.#secrets = secrets
    this.#masked = secrets.stream()
  }

  push(bytes: Buffer): void {
    this.#pushedBytes += bytes.length
    this.#show(this.#redraws.push(bytes, this.#now()))
    this.#waitForWhatIsDue()
  }

  /** The last bytes of what was not pushed. */
  setTail(bytes: Buffer): void {
    this.#last = bytes
  }

  /**
   * Ends the stream; `totalBytes` is what the code wrote, or null when nobody can say any more. isCutOff: the code was ended from
   * outside, perhaps while it wrote a secret.
   */
  finish(totalBytes: number | null, isCutOff = totalBytes === null): CapturedText {
    clearTimeout(this.#timer)
    const written = totalBytes ?? this.#pushedBytes
    const passedOver = Math.max(0, written - this.#pushedBytes - this.#last.length)
    const last = this.#endOfRedraws(passedOver > 0)
    const first = Buffer.concat([...this.#first, ...this.#small])
    const total = first.length + passedOver + last.length
    // Where more was written than came, neither half a character nor what may be half a secret is shown.
    if (passedOver === 0) {
      this.#emit(this.#masked.push(isCutOff ? '' : this.#decoder.decode()) + this.#masked.end(isCutOff))
    }
    if (total <= this.#keptBytes && passedOver === 0) {
      const whole = this.#secrets.stream()
      const text = visible(whole.push(decoded(first, isCutOff)) + whole.end(isCutOff))
      return { text, bytes_total: total, bytes_kept: first.length, truncated: false }
    }
    const end = passedOver > 0 ? last : first
    const room = this.#keptBytes - Math.floor(this.#keptBytes * HEAD_SHARE)
    const head = this.#keepHead(first, Math.floor(this.#keptBytes * HEAD_SHARE), passedOver > 0)
    const tail = this.#keepTail(end, Math.max(0, end.length - room), passedOver > 0, isCutOff)
    const kept = head.bytes + tail.bytes
    return {
      text: `${head.text}\n[… ${total - kept} bytes left out …]\n${tail.text}`,
      bytes_total: total,
      bytes_kept: kept,
      truncated: true,
    }
  }

  /** What waits is shown. Returns the last bytes as they are shown; none where they were the end of what came before. */
  #endOfRedraws(isPassedOver: boolean): Buffer {
    if (!isPassedOver) {
      // Where the warden's two pieces meet, they are one text.
      this.#show(this.#redraws.push(this.#last, this.#now()))
      this.#show(this.#redraws.end())
      return Buffer.alloc(0)
    }
    this.#show(this.#redraws.end())
    const redraws = new Redraws(false)
    return Buffer.concat([redraws.push(this.#last, 0), redraws.end()])
  }

  #waitForWhatIsDue(): void {
    clearTimeout(this.#timer)
    const { dueMs } = this.#redraws
    if (dueMs === null) return
    this.#timer = setTimeout(
      () => {
        this.#show(this.#redraws.tick(this.#now()))
        this.#waitForWhatIsDue()
      },
      Math.max(1, Math.ceil(dueMs - this.#now())),
    )
  }

  #show(bytes: Buffer): void {
    if (bytes.length === 0) return
    this.#small.push(bytes)
    if (this.#small.length >= SMALL_MOST) {
      this.#first.push(Buffer.concat(this.#small))
      this.#small = []
    }
    this.#emit(this.#masked.push(this.#decoder.decode(bytes, { stream: true })))
  }

  /** isCut: there was more behind `bytes`, which nobody has seen. */
  #keepHead(bytes: Buffer, most: number, isCut: boolean): Kept {
    const cutOff = isCut ? this.#secrets.cutOffBytes(bytes) : 0
    const spans = withSpan(this.#secrets.byteSpans(bytes), bytes.length - cutOff, bytes.length)
    const end = cutEnd(bytes.subarray(0, most)).length
    const through = spans.find(([start, after]) => start < end && after > end)
    if (through === undefined) return { text: showWithout(bytes, 0, end, spans), bytes: end }
    return { text: showWithout(bytes, 0, through[0], spans) + MASK, bytes: through[0] }
  }

  /** isCut: there was more before `bytes`. isCutOff: see finish. */
  #keepTail(bytes: Buffer, from: number, isCut: boolean, isCutOff: boolean): Kept {
    const cutInto = isCut ? this.#secrets.cutIntoBytes(bytes) : 0
    const half = isCutOff ? this.#secrets.halfAtEnd(bytes) : 0
    const found = withSpan(this.#secrets.byteSpans(bytes), bytes.length - half, bytes.length)
    const spans = withSpan(found, 0, cutInto)
    const start = bytes.length - cutStart(bytes.subarray(from)).length
    const through = spans.find(([before, end]) => before < start && end > start)
    if (through === undefined) {
      return { text: showWithout(bytes, start, bytes.length, spans), bytes: bytes.length - start }
    }
    return { text: MASK + showWithout(bytes, through[1], bytes.length, spans), bytes: bytes.length - through[1] }
  }

  #emit(text: string): void {
    if (text !== '') this.#onText?.(visible(text))
  }
}

/** A text, and how many bytes of what was written it stands for. */
interface Kept {
  readonly text: string
  readonly bytes: number
}

/** With one more, which may overlap others. */
function withSpan(spans: Spans, start: number, end: number): Spans {
  if (start >= end) return spans
  const apart = spans.filter(span => span[1] <= start || span[0] >= end)
  const joined = spans.filter(span => span[1] > start && span[0] < end)
  const whole = [
    Math.min(start, ...joined.map(span => span[0])),
    Math.max(end, ...joined.map(span => span[1])),
  ] as const
  return [...apart, whole].toSorted((a, b) => a[0] - b[0])
}

/** The text of bytes from `start` to `end`, with a mask in the place of each secret that lies within. */
function showWithout(bytes: Buffer, start: number, end: number, spans: Spans): string {
  let text = ''
  let at = start
  for (const [from, to] of spans) {
    if (from < start || to > end) continue
    text += decoded(bytes.subarray(at, from)) + MASK
    at = to
  }
  return visible(text + decoded(bytes.subarray(at, end)))
}

/** isCutOff: without a character of which only the first bytes are there. */
function decoded(bytes: Buffer, isCutOff = false): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: isCutOff })
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
