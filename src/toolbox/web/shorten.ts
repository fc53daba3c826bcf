const HEAD_SHARE = 0.7

/**
 * At most `max` UTF-16 units of a text: its head and its tail with a note between them that says how much is missing. `max` has to
 * leave room for the note: 200 do.
 */
export function shorten(text: string, max: number): string {
  if (text.length <= max) return text
  const note = (missing: number) =>
    `\n\n[… ${missing} of ${text.length} characters left out here: ask for more with char_limit …]\n\n`
  const room = Math.max(0, max - note(text.length).length)
  const head = Math.floor(room * HEAD_SHARE)
  const tail = room - head
  return `${cutBefore(text, head)}${note(text.length - room)}${cutAfter(text, text.length - tail)}`
}

/** Never half of a surrogate pair. */
function cutBefore(text: string, end: number): string {
  return text.slice(0, isHigh(text, end - 1) ? end - 1 : end)
}

function cutAfter(text: string, start: number): string {
  return text.slice(isHigh(text, start - 1) ? start + 1 : start)
}

function isHigh(text: string, at: number): boolean {
  const unit = text.charCodeAt(at)
  return unit >= 0xd800 && unit <= 0xdbff
}
