/** What programs write to a terminal, as text with a byte in each unit (latin1): its tokens, and what draws over anything. */

// Escape sequences that are longer than these are text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
export const TOKEN = /[\r\n\b]|\u001b\[[0-?]{0,24}[ -/]{0,4}[@-~]|\u001b|[^\r\n\b\u001b]+/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: as before
export const SEQUENCE = /^\u001b\[([0-?]*)[ -/]*([@-~])$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: as before
export const UNFINISHED = /\u001b(?:\[[0-?]{0,24}[ -/]{0,4})?$/
/** In latin1: the first bytes of a character of UTF-8, at the end of a text. */
export const HALF_CHARACTER = /(?:[\u00c2-\u00df]|[\u00e0-\u00ef][\u0080-\u00bf]?|[\u00f0-\u00f4][\u0080-\u00bf]{0,2})$/
const CARRIAGE = 0x0d
const BACKSPACE = 0x08
const ESCAPE = 0x1b
const BEYOND_ASCII = /[\u0080-\u00ff]/

export function drawsOver(bytes: Buffer): boolean {
  return bytes.includes(CARRIAGE) || bytes.includes(BACKSPACE) || bytes.includes(ESCAPE)
}

export function decoded(text: string): string {
  return BEYOND_ASCII.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text
}
