import type { Part } from '../outcome.js'
import { fileSize } from '../quantities.js'
import { cleanText, showOnOneLine } from './readable-text.js'

/**
 * An answer as ftm_content: JSON text of a string, or of an array of parts where the content is parts. Well-formed,
 * without U+0000, and at most `maxBytes` long in UTF-8: what is larger loses its largest parts first and then the
 * middle of its text, and says so. docs/protocol.md, "Answering".
 */
export function wireContent(content: string | readonly Part[], maxBytes: number): string {
  const isText = typeof content === 'string'
  const whole = isText ? JSON.stringify(cleanText(content)) : JSON.stringify(content.map(cleanPart))
  if (Buffer.byteLength(whole, 'utf8') <= maxBytes) return whole
  return isText ? shortenedText(cleanText(content), maxBytes) : shortenedParts(content.map(cleanPart), maxBytes)
}

function cleanPart({ m_type, m_content }: Part): Part {
  return { m_type: cleanText(m_type), m_content: cleanText(m_content) }
}

/** What surrounds m_type and m_content in an array of parts: {"m_type":,"m_content":}, */
const PART_FRAME_BYTES = 25

function shortenedParts(parts: readonly Part[], maxBytes: number): string {
  const text = parts[0]?.m_type === 'text' ? parts[0].m_content : ''
  const others = (parts[0]?.m_type === 'text' ? parts.slice(1) : parts).map(part => ({ part, bytes: partBytes(part) }))
  const kept = new Set(others)
  const dropped: Part[] = []
  const textBytes = partBytes({ m_type: 'text', m_content: text })
  let room = maxBytes - '[]'.length - textBytes - others.reduce((sum, { bytes }) => sum + bytes, 0)
  for (const largest of others.toSorted((a, b) => b.bytes - a.bytes)) {
    if (room >= jsonBytes(droppedNote(dropped))) break
    kept.delete(largest)
    dropped.push(largest.part)
    room += largest.bytes
  }
  const note = droppedNote(dropped)
  const said = text === '' ? note.trimStart() : text + note
  if (kept.size === 0) return wireContent(said, maxBytes)
  return JSON.stringify([{ m_type: 'text', m_content: said }, ...[...kept].map(({ part }) => part)])
}

function partBytes(part: Part): number {
  return jsonBytes(part.m_type) + jsonBytes(part.m_content) + PART_FRAME_BYTES
}

function droppedNote(parts: readonly Part[]): string {
  if (parts.length === 0) return ''
  const named = parts
    .slice(0, 10)
    .map(part => `${showOnOneLine(part.m_type, 60)} (${fileSize(Buffer.byteLength(part.m_content, 'utf8'))})`)
  const more = parts.length > named.length ? ` and ${parts.length - named.length} more` : ''
  return `\n[left out, as the answer would be too large: ${named.join(', ')}${more}]`
}

/** Head and tail of a text, 40 % to 60 % as everywhere, with a word on what is missing; the facts at its end survive. */
function shortenedText(text: string, maxBytes: number): string {
  const note = `\n[the middle of this answer was left out: ${Buffer.byteLength(text, 'utf8')} bytes are too many]\n`
  const room = maxBytes - jsonBytes(note)
  if (room <= 0) return JSON.stringify('[too large]')
  const headEnd = unitsFromStart(text, Math.floor(room * 0.4))
  const tailStart = Math.max(headEnd, unitsFromEnd(text, Math.floor(room * 0.6)))
  return JSON.stringify(text.slice(0, headEnd) + note + text.slice(tailStart))
}

/** UTF-8 bytes of a text as a JSON string, quotes included. */
function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text), 'utf8')
}

function unitsFromStart(text: string, budget: number): number {
  let spent = 0
  for (let i = 0; i < text.length; ) {
    const codePoint = text.codePointAt(i) ?? 0
    spent += codePointJsonBytes(codePoint)
    if (spent > budget) return i
    i += codePoint > 0xffff ? 2 : 1
  }
  return text.length
}

function unitsFromEnd(text: string, budget: number): number {
  let spent = 0
  for (let i = text.length; i > 0; ) {
    const unit = text.charCodeAt(i - 1)
    const start = unit >= 0xdc00 && unit <= 0xdfff ? i - 2 : i - 1
    spent += codePointJsonBytes(text.codePointAt(start) ?? 0)
    if (spent > budget) return i
    i = start
  }
  return 0
}

/** What JSON.stringify and UTF-8 make of one character of well-formed text. */
function codePointJsonBytes(codePoint: number): number {
  if (codePoint < 0x20) return [0x08, 0x09, 0x0a, 0x0c, 0x0d].includes(codePoint) ? 2 : 6
  if (codePoint === 0x22 || codePoint === 0x5c) return 2
  if (codePoint < 0x80) return 1
  if (codePoint < 0x800) return 2
  return codePoint > 0xffff ? 4 : 3
}
