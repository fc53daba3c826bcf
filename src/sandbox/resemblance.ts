/**
 * Whether a text after a carriage return draws over the one before it, or whether both are lines of a text whose lines end in a
 * carriage return, as old files have them: nothing of such a text may vanish. Only what they say decides, never when they came.
 */

/** More than fits in a line of a terminal: nobody draws over that. */
const STATE_MOST_CHARS = 500

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are not what a text says
const SEQUENCES = /\u001b\[[0-?]*[ -/]*[@-~]/g
/** What progress is shown with: per cent, n of m, bars, a rate, a value with its name. */
const PROGRESS =
  /\d\s?%|\d\s?(?:\/|of)\s?\d|[#=>.·•\u2500-\u28ff-]{3}|\d\s?\w{1,8}\/s\b|\beta\b|[a-z_]\s?[=:]\s?-?[\d.]/i
/** Letters of any script, and neither signs nor the pieces that bars are made of. */
const WORDS = /[A-Za-z\u00aa-\u1fff\u2c00-\uffff]+/g
/** Fields with a separator; a comma between groups of three digits, or before a space, is none. */
const FIELDS = /\t|\S;\S|[^\s\d],\S|\d,(?!\d{3}(?!\d))\S/

export function redraws(before: string, after: string): boolean {
  const a = said(before)
  const b = said(after)
  if (a === '' || b === '') return true
  if (a.length > STATE_MOST_CHARS || b.length > STATE_MOST_CHARS) return false
  if (PROGRESS.test(a) && PROGRESS.test(b)) return true
  if (FIELDS.test(a) && FIELDS.test(b)) return false
  const ofA = a.match(WORDS)
  const ofB = b.match(WORDS)
  // Counters and spinners; two numbers beside each other are a row of a table.
  if (ofA === null || ofB === null) return !/\s/.test(a) && !/\s/.test(b)
  const inB = new Set(ofB)
  const inA = new Set(ofA)
  return [...inA].filter(word => inB.has(word)).length * 2 >= Math.min(inA.size, inB.size)
}

function said(text: string): string {
  return (text.includes('\u001b') ? text.replace(SEQUENCES, '') : text).trim()
}
