import type { StoredAnswer } from './journal/journal.js'
import type { Part } from './outcome.js'
import { leastProvenance } from './tool/provenance.js'
import { wireContent } from './tool/wire-content.js'

/** A content that was refused as too large is cut to this share of its size, again and again, but not below LEAST_BYTES. */
const SHORTER_SHARE = 1 / 4
const LEAST_BYTES = 2_048
/** Provenance that takes more of what an answer may have is cut to the least. */
const PROVENANCE_SHARE = 1 / 2

/** An answer of at most `maxBytes`, its provenance included. */
export function answerWithin(
  maxBytes: number,
  content: string | readonly Part[],
  rest: Omit<StoredAnswer, 'content'>,
): StoredAnswer {
  const isLong = Buffer.byteLength(rest.provenance, 'utf8') > maxBytes * PROVENANCE_SHARE
  const provenance = (isLong ? leastProvenance(rest.provenance) : null) ?? rest.provenance
  return { ...rest, provenance, content: wireContent(content, maxBytes - Buffer.byteLength(provenance, 'utf8')) }
}

export function cutTo(maxBytes: number, { content, ...rest }: StoredAnswer): StoredAnswer {
  return answerWithin(maxBytes, JSON.parse(content) as string | readonly Part[], rest)
}

/** A shorter version that says what was left out, by way of what takes most of it; null if it is short already. */
export function shortened(answer: StoredAnswer): StoredAnswer | null {
  const bytes = Buffer.byteLength(answer.content, 'utf8')
  const provenance = leastProvenance(answer.provenance)
  const isContentShort = bytes <= Math.max(LEAST_BYTES, Buffer.byteLength(answer.provenance, 'utf8'))
  if (provenance !== null && isContentShort) return { ...answer, provenance }
  if (bytes <= LEAST_BYTES) return null
  const content = JSON.parse(answer.content) as string | readonly Part[]
  return { ...answer, content: wireContent(content, Math.max(LEAST_BYTES, Math.floor(bytes * SHORTER_SHARE))) }
}
