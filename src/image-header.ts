import { crc32 } from 'node:zlib'

/** What the bytes of an image say of themselves. Nothing is decoded: they may come from code that wants the decoder to fail. */
export interface ImageHeader {
  readonly mime: 'image/png' | 'image/jpeg'
  readonly width: number
  readonly height: number
}

/**
 * Reads kind and size of a whole PNG or JPEG file; or says, as the end of a sentence that begins with its name, why it is none.
 * A file that is cut off or damaged is refused: a backend that hands it to a model would have the whole conversation refused.
 */
export function imageHeader(bytes: Buffer): ImageHeader | string {
  if (bytes.subarray(0, 8).equals(PNG_SIGNATURE)) return pngHeader(bytes)
  if (bytes.length > 3 && bytes.readUIntBE(0, 3) === 0xffd8ff) return jpegHeader(bytes)
  if (bytes.length === 0) return 'is empty'
  const other = OTHER_KINDS.find(([, at, magic]) => bytes.subarray(at, at + magic.length).equals(Buffer.from(magic)))
  return `is ${other === undefined ? 'no image that is known here' : `a ${other[0]} image`}: save it as PNG or JPEG`
}

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const OTHER_KINDS = [
  ['GIF', 0, 'GIF8'],
  ['WebP', 8, 'WEBP'],
  ['TIFF', 0, 'II*\0'],
  ['TIFF', 0, 'MM\0*'],
  ['BMP', 0, 'BM'],
  ['AVIF', 4, 'ftypavif'],
  ['HEIC', 4, 'ftypheic'],
] as const

/** Length, type and checksum around what a chunk holds. */
const CHUNK_BYTES = 12
/** Bit depths that a colour type may have: greyscale, RGB, palette, greyscale with alpha, RGB with alpha. */
const PNG_DEPTHS = new Map([
  [0, [1, 2, 4, 8, 16]],
  [2, [8, 16]],
  [3, [1, 2, 4, 8]],
  [4, [8, 16]],
  [6, [8, 16]],
])

function pngHeader(bytes: Buffer): ImageHeader | string {
  let size: ImageHeader | null = null
  let hasPixels = false
  for (let at = PNG_SIGNATURE.length; at + CHUNK_BYTES <= bytes.length; ) {
    const length = bytes.readUInt32BE(at)
    const end = at + CHUNK_BYTES + length
    if (end > bytes.length) break
    const type = bytes.toString('latin1', at + 4, at + 8)
    if (crc32(bytes.subarray(at + 4, end - 4)) !== bytes.readUInt32BE(end - 4)) return 'is a damaged PNG file'
    if (size === null) {
      size = type === 'IHDR' && length === 13 ? headerChunk(bytes.subarray(at + 8, at + 21)) : null
      if (size === null) return 'is a damaged PNG file'
    }
    hasPixels ||= type === 'IDAT'
    if (type === 'IEND') return hasPixels ? size : 'is a PNG file without pixels'
    at = end
  }
  return 'is a PNG file that is cut off'
}

function headerChunk(chunk: Buffer): ImageHeader | null {
  const [depth = 0, colour = 0, compression, filter, interlace = 2] = chunk.subarray(8)
  const isValid = PNG_DEPTHS.get(colour)?.includes(depth) && compression === 0 && filter === 0 && interlace <= 1
  if (!isValid) return null
  return { mime: 'image/png', width: chunk.readUInt32BE(0), height: chunk.readUInt32BE(4) }
}

/** How far behind the end of the picture there may be other bytes, such as padding. */
const AFTER_JPEG = 64
const END_OF_IMAGE = Buffer.from([0xff, 0xd9])

function jpegHeader(bytes: Buffer): ImageHeader | string {
  let size: ImageHeader | null = null
  let at = 2
  while (at + 4 <= bytes.length) {
    if (bytes[at] !== 0xff) return 'is a damaged JPEG file'
    const marker = bytes.readUInt8(at + 1)
    if (marker === 0xff) {
      at++ // a marker may have any number of these before it
      continue
    }
    const length = bytes.readUInt16BE(at + 2)
    if (length < 2) return 'is a damaged JPEG file'
    if (marker === 0xda) break // the scan: what follows is the picture
    if (at + 2 + length > bytes.length) break
    if (isFrame(marker)) {
      if (size !== null || length < 11) return 'is a damaged JPEG file'
      size = { mime: 'image/jpeg', height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) }
    }
    at += 2 + length
  }
  const isWhole = bytes.lastIndexOf(END_OF_IMAGE) >= Math.max(at, bytes.length - AFTER_JPEG)
  if (!isWhole) return 'is a JPEG file that is cut off'
  return size ?? 'is a damaged JPEG file'
}

/** SOF0 to SOF15, without the three numbers among them that mean something else. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
}
