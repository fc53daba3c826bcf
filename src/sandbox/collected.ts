import type { CollectedFile, CollectedFiles } from '../outcome.js'
import type { RunEnd } from './messages.js'
import { mimeOf } from './mime.js'

const MIB = 1024 * 1024
/** What the files, and what the shown images, of all runs may take of the worker's memory at the same time. */
const ROOM_BYTES = 128 * MIB
const INDEX_BYTES = 4
/**
 * What is taken of one run: of images alone, which are shown; of all files, to be kept for later calls; of all files, to be saved by a program
 * that has one run. python/core/collect.py holds it, and so does this.
 */
const MOST = {
  images: { files: 16, file_bytes: 8 * MIB, bytes: 16 * MIB },
  kept: { files: 100, file_bytes: 16 * MIB, bytes: 32 * MIB },
  saved: { files: 200, file_bytes: ROOM_BYTES, bytes: ROOM_BYTES },
}
/** Which contents are wanted. */
export type WantedContents = keyof typeof MOST

/** What the warden is to hand over. */
export interface CollectOrder {
  readonly all: boolean
  readonly files: number
  readonly file_bytes: number
  readonly bytes: number
}

export function collectOrder(wanted: WantedContents): CollectOrder {
  return { all: wanted !== 'images', ...MOST[wanted] }
}

/** Room in memory that all runs share. */
export class CollectRoom {
  #left: number

  constructor(bytes = ROOM_BYTES) {
    this.#left = bytes
  }

  take(bytes: number): boolean {
    if (bytes > this.#left) return false
    this.#left -= bytes
    return true
  }

  give(bytes: number): void {
    this.#left += bytes
  }
}

/** The contents of files as the warden hands them over: of any number, in pieces. No more is held than was ordered. */
export class Collecting {
  readonly #order: CollectOrder
  readonly #room: CollectRoom
  readonly #pieces = new Map<number, Buffer[]>()
  #bytes = 0
  #isFull = false

  constructor(order: CollectOrder, room: CollectRoom) {
    this.#order = order
    this.#room = room
  }

  /** payload: 4 bytes with the file's number, then some of its bytes. */
  push(payload: Buffer): void {
    if (payload.length < INDEX_BYTES) return
    const index = payload.readUInt32LE(0)
    const bytes = payload.subarray(INDEX_BYTES)
    const isNew = !this.#pieces.has(index)
    if (isNew && this.#pieces.size >= this.#order.files) return
    if (this.#bytes + bytes.length > this.#order.bytes) return
    if (!this.#room.take(bytes.length)) {
      this.#isFull = true
      return
    }
    this.#bytes += bytes.length
    const pieces = this.#pieces.get(index)
    if (pieces === undefined) this.#pieces.set(index, [bytes])
    else pieces.push(bytes)
  }

  /** All that the listing names, with the contents that have come whole. */
  finish(end: RunEnd): CollectedFiles {
    const files = end.files.map(file => this.#file(file))
    this.#pieces.clear()
    return {
      files,
      isAll: end.files_more === 0 && end.files_partial === null && end.files_other.hard_links === 0,
      gone: end.files_gone,
      unlisted: end.files_unlisted,
      release: () => this.drop(),
    }
  }

  /** Nothing of it is needed any more. */
  drop(): void {
    this.#pieces.clear()
    this.#room.give(this.#bytes)
    this.#bytes = 0
  }

  #file({ path, bytes, index, why }: RunEnd['files'][number]): CollectedFile {
    const file = { path, bytes, mime: mimeOf(path) }
    if (why !== undefined) return { ...file, content: null, why: this.#phrase(why) }
    if (index === undefined) return { ...file, content: null, why: null }
    const content = Buffer.concat(this.#pieces.get(index) ?? [])
    if (content.length === bytes) return { ...file, content, why: null }
    const lost = this.#isFull ? 'the worker had no memory for it just then' : 'it did not come whole'
    return { ...file, content: null, why: lost }
  }

  #phrase(why: NonNullable<RunEnd['files'][number]['why']>): string {
    const { files, file_bytes, bytes } = this.#order
    switch (why) {
      case 'name':
        return 'its name is not UTF-8'
      case 'too_large':
        return `larger than ${file_bytes / MIB} MiB`
      case 'too_many':
        return `more than ${files} files in one call`
      case 'no_room':
        return `more than ${bytes / MIB} MiB in one call`
      case 'late':
        return 'there was no time to read it'
      case 'unreadable':
        return 'it can not be read'
      case 'changed':
        return 'it changed while it was read'
    }
  }
}
