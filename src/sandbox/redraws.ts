/**
 * What a terminal would show of bytes that draw over themselves (carriage return, backspace, erase, cursor up), as text that
 * can only be appended to. Byte for byte, so that what goes in and what comes out can be counted; knows no timers: its clock is given.
 * Rules and examples are in docs/results.md, "Progress".
 */
import { emptyRow, type Row, withoutLast, withoutPadding } from './redrawn-row.js'
import { redraws } from './resemblance.js'
import { decoded, drawsOver, HALF_CHARACTER, SEQUENCE, TOKEN, UNFINISHED } from './terminal-text.js'

/** A line that is open, as of print(…, end=''), waits so long for what would draw over it: well within the 100 ms of the streaming. */
const OPEN_MS = 30
/** A state of a redrawn line that stood for so long is shown, as a line of its own. */
const STOOD_MS = 1_000
/** A longer line is no progress: it is passed on as it comes. */
const LINE_MOST_BYTES = 4_096
/** Rows that are redrawn together and wait for their last state; beyond, the top one is let go. */
const ROWS_MOST = 32
/** What moves or erases is carried out so often in one stream, a hundred times a second for nine minutes. Then the rest is passed on. */
const MOVES_MOST = 1 << 16

/** Of a long line: no beginning of any other text. */
const LONG = '\n'

export class Redraws {
  readonly #isLive: boolean
  #rows: Row[] = [emptyRow()]
  /** The row of the cursor. */
  #at = 0
  /** The cursor has gone up among these rows: all of them are drawn over, whatever they say. */
  #isBlock = false
  /** The row whose text is the output's unfinished last line. */
  #open: Row | null = null
  #out = ''
  /** An escape sequence of which the end has not come. */
  #rest = ''
  /** When the oldest text that waits came, or null. */
  #waitsSinceMs: number | null = null
  #changedAtMs = 0
  #moves = 0

  /** isLive: somebody watches, to whom a line's state is shown when it stood; else only the last one of each is. */
  constructor(isLive: boolean) {
    this.#isLive = isLive
  }

  /** What is to be shown now. */
  push(bytes: Buffer, nowMs: number): Buffer {
    const late = this.tick(nowMs)
    const row = this.#row
    if (this.#isPlain(row) && this.#rest === '' && !drawsOver(bytes)) {
      const end = bytes.lastIndexOf(0x0a) + 1
      if (end > 0) {
        const start = this.#open === row ? row.text.slice(row.sent?.length ?? 0) : row.text
        const whole = Buffer.concat([late, Buffer.from(start, 'latin1'), bytes.subarray(0, end)])
        this.#start(emptyRow())
        const rest = this.#read(bytes.subarray(end), nowMs)
        return rest.length === 0 ? whole : Buffer.concat([whole, rest])
      }
    }
    const shown = this.#read(bytes, nowMs)
    return late.length === 0 ? shown : Buffer.concat([late, shown])
  }

  /** What is due by now. */
  tick(nowMs: number): Buffer {
    const dueMs = this.dueMs
    if (dueMs === null || nowMs < dueMs) return this.#taken()
    this.#show(true)
    return this.#taken()
  }

  /** When `tick` will have something to show, on the clock of nowMs; null: nothing waits. */
  get dueMs(): number | null {
    if (!this.#isLive || this.#waitsSinceMs === null) return null
    const row = this.#row
    const isFresh = row.text === '' && !row.isAtStart && this.#isLast
    if (isFresh) return this.#changedAtMs + OPEN_MS
    return this.#isLast && !row.isRedrawn && !row.isAtStart
      ? this.#waitsSinceMs + OPEN_MS
      : this.#changedAtMs + STOOD_MS
  }

  /** What waits, at the end of the output. */
  end(): Buffer {
    if (this.#rest !== '') this.#print(this.#rest)
    this.#rest = ''
    this.#show(false)
    return this.#taken()
  }

  #read(bytes: Buffer, nowMs: number): Buffer {
    if (bytes.length === 0) return this.#taken()
    const text = this.#rest + bytes.toString('latin1')
    const cut = UNFINISHED.exec(text)?.index ?? text.length
    this.#rest = text.slice(cut)
    TOKEN.lastIndex = 0
    for (let at = 0; at < cut; at = TOKEN.lastIndex) {
      if (this.#moves >= MOVES_MOST) {
        this.#passOn(text.slice(at))
        return this.#taken()
      }
      TOKEN.test(text) // all that is not a token of its own is text: one always follows
      this.#take(text.slice(at, TOKEN.lastIndex))
    }
    this.#changedAtMs = nowMs
    const row = this.#row
    // What is appended to a line that is shown already is shown at once.
    if (this.#open === row && this.#isPlain(row)) this.#emitWhole(row, '')
    this.#waitsSinceMs = this.#waits() ? (this.#waitsSinceMs ?? nowMs) : null
    return this.#taken()
  }

  /** Work without end is what code could make of it: what is shown so far stands, and all that follows is a long line. */
  #passOn(text: string): void {
    this.#rest = ''
    this.#show(false)
    if (this.#open !== null && !this.#open.isLong) this.#out += '\n'
    this.#out += text
    this.#start({ ...emptyRow(), isLong: true, sent: LONG })
  }

  #take(token: string): void {
    const row = this.#row
    if (token === '\r' || token === '\b' || (token.startsWith('\u001b') && !token.endsWith('m'))) this.#moves += 1
    if (token === '\n') this.#lineFeed()
    else if (token === '\r') {
      row.isAtStart = true
      row.back = 0
    } else if (token === '\b') {
      if (!row.isAtStart && !row.isLong) row.back += 1
    } else if (token.startsWith('\u001b')) {
      const [, numbers = '', kind] = SEQUENCE.exec(token) ?? []
      if (kind === undefined) this.#print(token)
      else this.#control(token, numbers, kind)
    } else this.#print(token)
  }

  /** An escape sequence: those that move and erase are carried out, those of colour and all others are text. */
  #control(token: string, numbers: string, kind: string): void {
    const count = Math.max(1, Number.parseInt(numbers, 10) || 1)
    if (kind === 'K') this.#erase(numbers)
    else if (kind === 'A' || kind === 'F') this.#up(count, kind === 'F')
    else if (kind === 'B' || kind === 'E') this.#down(count)
    else if (kind === 'G' && count === 1) this.#row.isAtStart = true
    else if (kind === 'J' && Number(numbers) === 0) this.#eraseBelow()
    else if ((kind === 'h' || kind === 'l') && numbers.startsWith('?')) return
    else this.#print(token)
  }

  /** To the line's end (which the cursor is at, unless it is at the start), or all of it. */
  #erase(numbers: string): void {
    const row = this.#row
    if (row.isLong || (numbers !== '2' && !row.isAtStart)) return
    if (row.text === '' && row.before === '') return
    row.text = ''
    row.before = ''
    row.isAtStart = true
    row.isRedrawn = true
  }

  #eraseBelow(): void {
    this.#erase('0')
    for (const row of this.#rows.slice(this.#at + 1)) row.text = ''
  }

  #up(count: number, isToStart: boolean): void {
    if (isToStart) this.#row.isAtStart = true
    this.#isBlock = true
    this.#settle(this.#row)
    for (let n = 0; n < Math.min(count, ROWS_MOST); n++) {
      // What stood there is in the output for good: what is drawn over it comes below.
      if (this.#at > 0) this.#at -= 1
      else if (this.#rows.length < ROWS_MOST) this.#rows.unshift({ ...emptyRow(), isRedrawn: true })
    }
    this.#row.isAtStart = true
    this.#row.back = 0
  }

  /** To the last row, or one below it: a terminal makes no lines for that, and five bytes are not to become a screen of them. */
  #down(count: number): void {
    const below = this.#rows.length - 1 - this.#at
    for (let n = 0; n < Math.min(count, Math.max(1, below)); n++) this.#lineFeed()
  }

  #lineFeed(): void {
    const row = this.#row
    if (!this.#isLast) {
      this.#settle(row)
      this.#at += 1
      this.#row.isAtStart = true
      return
    }
    const end = row.isAtStart && !row.isRedrawn ? '\r\n' : '\n'
    this.#settle(row)
    row.isAtStart = false
    row.back = 0
    if (!row.isRedrawn || row.isLong) {
      this.#letGo(this.#at)
      this.#emit(row, end)
      this.#start(emptyRow())
      return
    }
    this.#rows.push(emptyRow())
    this.#at += 1
    if (this.#rows.length > ROWS_MOST) this.#letGo(1)
  }

  #print(text: string): void {
    const row = this.#row
    // A line that follows redrawn ones and begins as any other does: those are done.
    if (this.#at > 0 && this.#isLast && row.text === '' && !row.isAtStart && !row.isRedrawn) this.#letGo(this.#at)
    if (row.isAtStart) this.#newState(row)
    else if (row.back > 0) {
      row.text = withoutLast(row.text, row.back)
      row.back = 0
      row.isRedrawn = true
    }
    if (row.isLong) {
      this.#out += text
      return
    }
    const room = LINE_MOST_BYTES - row.text.length
    if (text.length < room) {
      row.text += text
      return
    }
    row.text += text.slice(0, room)
    this.#settle(row)
    this.#rows = [...this.#rows.filter(other => other !== row), row]
    this.#at = this.#rows.length - 1
    this.#letGo(this.#at)
    row.isRedrawn = false
    this.#emit(row, '')
    this.#out += text.slice(room)
    row.isLong = true
    row.text = ''
    row.sent = LONG
  }

  #newState(row: Row): void {
    this.#settle(row)
    // Drawn twice without going up in between: those above are done.
    if (!this.#isBlock && this.#isLast && row.text !== '') this.#letGo(this.#at)
    row.before = row.text
    row.text = ''
    row.isAtStart = false
    row.back = 0
    row.isRedrawn = true
    row.isLong = false
  }

  /** The state before this one is drawn over by it, or was a line of its own: text whose lines end in a carriage return. */
  #settle(row: Row): void {
    const { before } = row
    row.before = ''
    if (before === '' || this.#isBlock || redraws(decoded(before), decoded(row.text))) return
    this.#letGo(this.#at)
    const { text, isRedrawn } = row
    row.text = before
    row.isRedrawn = false
    this.#emit(row, '\n')
    row.text = text
    row.isRedrawn = isRedrawn
    row.sent = null
  }

  /** The first `count` rows become lines of the output. */
  #letGo(count: number): void {
    if (count === 0) return
    for (const row of this.#rows.splice(0, count)) this.#emit(row, '\n')
    this.#at -= count
    if (this.#rows.length === 1) this.#isBlock = false
  }

  /** All rows as they stand. They stay, since they may be drawn over still. */
  #show(isGoingOn: boolean): void {
    const current = this.#row
    this.#settle(current)
    const last = this.#rows.length - 1
    for (const [n, row] of this.#rows.entries()) {
      const end = n === last ? '' : '\n'
      if (isGoingOn && row === current) this.#emitWhole(row, end)
      else this.#emit(row, end)
    }
    // Those above a line that has not begun are lines now, unless the cursor goes up again, which then begins new ones.
    if (this.#isLast && this.#rows.length > 1 && this.#row.text === '') {
      this.#rows = [this.#row]
      this.#at = 0
      this.#isBlock = false
    }
    this.#waitsSinceMs = null
  }

  /** Without a character of which only the first bytes are there: what comes in between would tear it. */
  #emitWhole(row: Row, end: string): void {
    const half = HALF_CHARACTER.exec(row.text)?.[0] ?? ''
    row.text = row.text.slice(0, row.text.length - half.length)
    this.#emit(row, end)
    row.text += half
  }

  #emit(row: Row, end: string): void {
    if (row.isLong) {
      this.#out += end
      if (end !== '') this.#open = null
      return
    }
    const text = row.isRedrawn ? withoutPadding(row.text) : row.text
    if (this.#open === row && row.sent !== null && (text === '' || text.startsWith(row.sent))) {
      this.#out += text.slice(row.sent.length) + end
      if (text !== '') row.sent = text
      if (end !== '') this.#open = null
      return
    }
    // It stands there already; or it is a row that was only passed over.
    if (row.isRedrawn && (row.sent === text || (text === '' && (end === '' || this.#isBlock)))) return
    if (text === '' && end === '') return
    if (this.#open !== null) this.#out += '\n'
    this.#out += text + end
    row.sent = text
    this.#open = end === '' ? row : null
  }

  #start(row: Row): void {
    this.#rows = [row]
    this.#at = 0
    this.#isBlock = false
    this.#open = null
    this.#waitsSinceMs = null
  }

  #taken(): Buffer {
    if (this.#out === '') return NOTHING
    const bytes = Buffer.from(this.#out, 'latin1')
    this.#out = ''
    return bytes
  }

  /** Whether `#show` would show anything. */
  #waits(): boolean {
    return this.#rows.some(row => row.text !== '' && row.sent !== row.text)
  }

  get #row(): Row {
    return this.#rows[this.#at] as Row
  }

  get #isLast(): boolean {
    return this.#at === this.#rows.length - 1
  }

  /** The only row, with nothing in it that draws over anything. */
  #isPlain(row: Row): boolean {
    return this.#rows.length === 1 && !row.isRedrawn && !row.isAtStart && row.back === 0 && !row.isLong
  }
}

const NOTHING = Buffer.alloc(0)
