/** One line that may be drawn over. Its texts hold a byte in each unit (latin1). */
export interface Row {
  text: string
  /** The state before, until it is known whether this one draws over it. */
  before: string
  /** The cursor is at the line's start: what is printed next is a new state. */
  isAtStart: boolean
  /** Characters that the cursor stands before the line's end. */
  back: number
  isRedrawn: boolean
  /** What of it is in the output: null: nothing. */
  sent: string | null
  /** Too long to be kept: all of it is in the output. */
  isLong: boolean
}

export function emptyRow(): Row {
  return { text: '', before: '', isAtStart: false, back: 0, isRedrawn: false, sent: null, isLong: false }
}

/** Without the blanks at its end, with which programs cover what stood there before. */
export function withoutPadding(text: string): string {
  let end = text.length
  while (text.charAt(end - 1) === ' ') end -= 1
  return text.slice(0, end)
}

/** Without the last `count` characters of UTF-8. */
export function withoutLast(text: string, count: number): string {
  let end = text.length
  for (let left = count; left > 0 && end > 0; left--) {
    end -= 1
    while (end > 0 && (text.charCodeAt(end) & 0xc0) === 0x80) end -= 1
  }
  return text.slice(0, end)
}
