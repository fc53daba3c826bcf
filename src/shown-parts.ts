import { createHash } from 'node:crypto'
import { imageHeader } from './image-header.js'
import type { Part } from './outcome.js'

/** Of one answer, whatever the images come from. */
export const IMAGES_MOST = 8
/** What models take: 5 MB of base64, and 8000 pixels on a side. */
const IMAGE_MOST_BYTES = 3_750_000
/** Of all images of one answer: what comes out of matplotlib and Pillow by itself is below it, at about 1 MB each. */
const ALL_IMAGES_MOST_BYTES = 8_000_000
const SIDE_MOST = 8_000
const PIXELS_MOST = 40_000_000
/** Of all texts together, in UTF-16 units, and of the list of what was left out. */
const TEXT_MOST = 50_000
const LEFT_OUT_LISTED = 40
/** Files that are known to hold what was shown. */
const FILES_KNOWN = 1_000

/** Something that was to be shown and is not. Both texts may be the code's own words. */
export interface LeftOut {
  readonly name: string
  /** The rest of a sentence that begins with the name, or with several that have the same. */
  readonly reason: string
}

/** An image that may be shown. */
export interface ImageCandidate {
  /** What it is called in words for the model: "figure 2", or the path in the workspace. */
  readonly name: string
  /** A whole PNG or JPEG file, as it came out of the sandbox. */
  readonly bytes: Buffer
  /** sha256 in hexadecimal of files to which the code has saved the same picture. They are not shown once more. */
  readonly savedAs?: readonly string[]
}

/** Memory that others want as well. */
export interface ImageRoom {
  /** Whether so many bytes more may be held. */
  take(bytes: number): boolean
}

/** What has become of an image; `same`: of the image of that name, which is shown already. */
export type Considered = { readonly part: Part } | { readonly same: string } | LeftOut

/**
 * What a run shows besides its text: figures and texts in the order shown, then images among its files. Every image of an
 * answer goes through `image`, which counts all of them against one limit.
 */
export class ShownParts {
  readonly #parts: Part[] = []
  readonly #leftOut: LeftOut[] = []
  /** By the digest of what was shown, and of files that hold the same picture. */
  readonly #nameOf = new Map<string, string>()
  readonly #room: ImageRoom | null
  #images = 0
  #imageBytes = 0
  #textUnits = 0
  #notListed = 0

  /** room: for the bytes of images, which may be held for as long as the code runs; null: there is enough. */
  constructor(room: ImageRoom | null = null) {
    this.#room = room
  }

  /** In the order shown. Texts next to each other are one part. */
  get parts(): readonly Part[] {
    return this.#parts
  }

  get images(): number {
    return this.#images
  }

  get leftOut(): readonly LeftOut[] {
    if (this.#notListed === 0) return this.#leftOut
    return [...this.#leftOut, { name: `${this.#notListed} more`, reason: 'for such reasons' }]
  }

  /**
   * Shows an image, or says why not. The bytes are data that the code has chosen: kind and size are read from their header,
   * nothing is decoded. What is left out for a reason that the model must know is in `leftOut` as well.
   */
  image({ name, bytes, savedAs = [] }: ImageCandidate): Considered {
    const digest = createHash('sha256').update(bytes).digest('hex')
    const same = this.#nameOf.get(digest)
    if (same !== undefined) {
      this.savedAs(same, savedAs)
      return { same }
    }
    const checked = checkedImage(bytes)
    if ('reason' in checked) return this.leaveOut(name, checked.reason)
    if (this.#images >= IMAGES_MOST) return this.leaveOut(name, `beyond the ${IMAGES_MOST} images that are shown`)
    if (this.#imageBytes + bytes.length > ALL_IMAGES_MOST_BYTES)
      return this.leaveOut(
        name,
        `beyond the ${ALL_IMAGES_MOST_BYTES / 1_000_000} MB of images that are shown: make them smaller`,
      )
    if (this.#room?.take(bytes.length) === false)
      return this.leaveOut(name, 'can not be shown: the worker had no memory for it just then')
    this.#images++
    this.#imageBytes += bytes.length
    this.#nameOf.set(digest, name)
    this.savedAs(name, savedAs)
    this.#parts.push(checked.part)
    return checked
  }

  /** Files with these digests hold the picture that was shown under this name. */
  savedAs(name: string, digests: readonly string[]): void {
    for (const digest of digests) if (this.#nameOf.size < FILES_KNOWN) this.#nameOf.set(digest, name)
  }

  /** Whether an image was shown under this name: of a file, what the code has made of it. */
  shows(name: string): boolean {
    return [...this.#nameOf.values()].includes(name)
  }

  /** Shows a text; of all together a bounded number of characters. */
  text(name: string, text: string): void {
    const last = this.#parts.at(-1)
    const joined = last?.m_type === 'text' ? `${last.m_content}\n${text}` : text
    const units = this.#textUnits + text.length
    if (units > TEXT_MOST) {
      this.leaveOut(name, `is longer than what is left of the ${TEXT_MOST} characters of text that are shown`)
      return
    }
    this.#textUnits = units
    if (last?.m_type === 'text') this.#parts.pop()
    this.#parts.push({ m_type: 'text', m_content: joined })
  }

  leaveOut(name: string, reason: string): LeftOut {
    if (this.#leftOut.length < LEFT_OUT_LISTED) this.#leftOut.push({ name, reason })
    else this.#notListed++
    return { name, reason }
  }
}

function checkedImage(bytes: Buffer): { readonly part: Part } | { readonly reason: string } {
  if (bytes.length > IMAGE_MOST_BYTES) {
    return { reason: `has ${bytes.length} bytes, and at most ${IMAGE_MOST_BYTES} can be shown: make it smaller` }
  }
  const header = imageHeader(bytes)
  if (typeof header === 'string') return { reason: header }
  const { mime, width, height } = header
  if (width === 0 || height === 0) return { reason: `is ${width} x ${height} pixels: there is nothing to be seen` }
  if (width > SIDE_MOST || height > SIDE_MOST || width * height > PIXELS_MOST) {
    const most = `${SIDE_MOST} on a side and ${PIXELS_MOST / 1_000_000} million in all can be shown`
    return { reason: `is ${width} x ${height} pixels, and at most ${most}: make it smaller` }
  }
  return { part: { m_type: mime, m_content: bytes.toString('base64') } }
}
