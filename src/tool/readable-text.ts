/** Text that is safe to hand to a model, a person and the database behind them. */

/** Well-formed and without U+0000, which databases refuse: it is shown as its symbol. */
export function cleanText(text: string): string {
  const wellFormed = text.isWellFormed() ? text : text.toWellFormed()
  return wellFormed.includes('\0') ? wellFormed.replaceAll('\0', '\u2400') : wellFormed
}

/** The first `maxUnits` UTF-16 units of a text, one less where the cut would split a surrogate pair. */
export function headOf(text: string, maxUnits: number): string {
  if (text.length <= maxUnits) return text
  const last = text.charCodeAt(maxUnits - 1)
  const splits = last >= 0xd800 && last <= 0xdbff
  return text.slice(0, splits ? maxUnits - 1 : maxUnits)
}

/** A short quotation for a message: JSON-quoted, on one line, bounded. */
export function quote(text: string, maxUnits = 60): string {
  const head = headOf(text, maxUnits)
  return head.length < text.length ? `${JSON.stringify(cleanText(head))}…` : JSON.stringify(cleanText(text))
}

// What would let text look different from what it is: controls other than line feed and tab, line separators,
// zero-width and bidirectional marks (but the joiners that emoji and many scripts need), tags.
const INVISIBLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to be made visible
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** Makes characters visible that could hide or reorder what a person reads, as \u{202e}. CR before LF stays. */
export function showInvisible(text: string): string {
  return cleanText(text)
    .replaceAll('\r\n', '\n')
    .replace(INVISIBLE, character => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
}

/** The same on one line, for names that the code chose: a file name must not be able to forge a line of ours. */
export function showOnOneLine(text: string, maxUnits: number): string {
  const head = headOf(text, maxUnits)
  const shown = showInvisible(head).replaceAll('\n', '\\n').replaceAll('\t', '\\t')
  return head.length < text.length ? `${shown}…` : shown
}
