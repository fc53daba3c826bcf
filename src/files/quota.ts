import type { StoredFile } from './store.js'

/** Files of one thread: their number does not hang on their size. */
const FILES_MOST = 200

/**
 * Which files of a thread have to go so that `incoming` ones have room, the oldest first; and which of these find none even so. A file that is
 * replaced does not count.
 */
export function planRoom(
  existing: readonly Pick<StoredFile, 'path' | 'bytes' | 'at'>[],
  incoming: readonly { readonly path: string; readonly bytes: number }[],
  mostBytes: number,
): { readonly evict: readonly string[]; readonly refuse: readonly string[] } {
  const refuse: string[] = []
  const accepted = new Set<string>()
  let bytes = 0
  for (const file of incoming) {
    if (bytes + file.bytes > mostBytes || accepted.size >= FILES_MOST) refuse.push(file.path)
    else {
      accepted.add(file.path)
      bytes += file.bytes
    }
  }
  const evict: string[] = []
  let count = accepted.size
  const others = existing.filter(file => !accepted.has(file.path)).toSorted((a, b) => b.at - a.at)
  let isFull = false
  for (const file of others) {
    isFull ||= bytes + file.bytes > mostBytes || count >= FILES_MOST
    if (isFull) evict.push(file.path)
    else {
      bytes += file.bytes
      count++
    }
  }
  return { evict, refuse }
}
