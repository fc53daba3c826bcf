import { createHash } from 'node:crypto'
import type { ThreadKey } from './store.js'

const PATH_MOST_BYTES = 512
const DEPTH_MOST = 16
/** What could make a name look like another, or break the line that it stands in. */
const ODD = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

/** Why a file with this path is not kept, as a phrase for the model; null: it can be. The path is what the code has chosen. */
export function pathProblem(path: string): string | null {
  if (!path.isWellFormed()) return 'its name is not valid Unicode'
  if (Buffer.byteLength(path) > PATH_MOST_BYTES) return `its path is longer than ${PATH_MOST_BYTES} bytes`
  if (ODD.test(path)) return 'its name has control characters'
  if (path !== path.normalize('NFC')) return 'its name is not in Unicode normal form C'
  const names = path.split('/')
  if (names.length > DEPTH_MOST) return `it is more than ${DEPTH_MOST} folders deep`
  return names.some(name => name === '' || name === '.' || name === '..') ? 'its path is not plain' : null
}

/** The name of a thread's folder: 64 hexadecimal digits, whatever group and thread are called. */
export function threadName({ group, thread }: ThreadKey): string {
  return sha256(JSON.stringify([group, thread]))
}

export function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}
