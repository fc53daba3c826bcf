/** How far from its beginning a document may name its charset, as browsers have it. */
const PRESCAN_BYTES = 1_024

/**
 * The text of a body: by its byte order mark, else by the charset of the Content-Type, else by what the document says of itself
 * (`<meta charset>`, `<?xml encoding>`), else as UTF-8, or windows-1252 where it is not that. A charset that nobody knows is
 * passed over. Bytes that are wrong in their charset become U+FFFD.
 */
export function decodeText(bytes: Buffer, contentType: string): string {
  const text =
    decodeAs(byteOrderMark(bytes), bytes) ??
    decodeAs(/;\s*charset\s*=\s*["']?([^\s"';]+)/i.exec(contentType)?.[1], bytes) ??
    decodeAs(declared(bytes), bytes) ??
    decodeAs('utf-8', bytes, true) ??
    decodeAs('windows-1252', bytes) ??
    bytes.toString('latin1')
  return text.toWellFormed()
}

function byteOrderMark(bytes: Buffer): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8'
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be'
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le'
  return undefined
}

function declared(bytes: Buffer): string | undefined {
  const head = bytes.subarray(0, PRESCAN_BYTES).toString('latin1')
  const label =
    /<meta[^>]{1,500}?charset\s*=\s*["']?\s*([^\s"'/>;]+)/i.exec(head)?.[1] ??
    /^\s*<\?xml[^>]{1,200}?encoding\s*=\s*["']([^"']+)/i.exec(head)?.[1]
  // Whoever can read this as ASCII has no UTF-16 before him.
  return label !== undefined && /^utf-?16/i.test(label) ? 'utf-8' : label
}

function decodeAs(label: string | undefined, bytes: Buffer, fatal = false): string | undefined {
  if (label === undefined) return undefined
  try {
    return new TextDecoder(label, { fatal }).decode(bytes)
  } catch {
    // RangeError: no such charset. TypeError: not in it.
    return undefined
  }
}
