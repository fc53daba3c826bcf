/** What the JSON of a message is made of, found without making it: what it says may be made to cost memory and stack. */
export interface RequestShape {
  /** Lists and objects inside each other. */
  readonly depth: number
  /** At least as many as it has values, and no more than those and its lists and objects together. */
  readonly values: number
  /** Its `id` where that is a whole number, to answer it by. */
  readonly id: number | null
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** What may follow the name of a number that others are asked by. */
const NUMBER = /^\s*:\s*(\d{1,15})\s*[,}]/

/** One pass over the bytes, whatever they are. */
export function shapeOfRequest(bytes: Buffer): RequestShape {
  let depth = 0
  let deepest = 0
  let values = 1
  let id: number | null = null
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case 0x5b: // [
      case 0x7b: // {
        depth++
        if (depth > deepest) deepest = depth
        values++
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth--
        break
      case 0x2c: // ,
        values++
        break
      case QUOTE: {
        const end = endOfText(bytes, at + 1)
        if (depth === 1 && id === null && isId(bytes, at, end)) id = numberAfter(bytes, end + 1)
        at = end
      }
    }
  }
  return { depth: deepest, values, id }
}

function endOfText(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return at
}

function isId(bytes: Buffer, start: number, end: number): boolean {
  return end - start === 3 && bytes[start + 1] === 0x69 && bytes[start + 2] === 0x64
}

function numberAfter(bytes: Buffer, from: number): number | null {
  const found = NUMBER.exec(bytes.toString('latin1', from, from + 40))
  return found === null ? null : Number(found[1])
}
