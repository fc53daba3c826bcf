import { readFileSync } from 'node:fs'

/** EX_OSERR of sysexits.h. */
export const EXIT_OS = 71
/** With fewer, loading the program already fails, and not always with a word of why. */
const ENOUGH = 128

/** How many files this process may have open; null where that can't be read, as when none is left. */
export function openFilesMost(): number | null {
  try {
    const most = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return most === undefined ? null : Number(most)
  } catch {
    return null
  }
}

/** What to do where this process may not open as many files as it needs; null for any other error. */
export function tooManyFiles(error: unknown): string | null {
  const code = (error as NodeJS.ErrnoException | null)?.code
  if (code === 'ENFILE') return inWords('ENFILE: the whole machine has no more')
  return code === 'EMFILE' ? inWords('EMFILE') : null
}

/** The same for an error of loading the program, where `most` was read before: some of them then say that a file is not there. */
export function tooFewToLoad(error: unknown, most: number | null): string | null {
  if (most !== null && most < ENOUGH) return inWords(`this process may have ${most}`)
  return tooManyFiles(error)
}

function inWords(why: string): string {
  return `too many open files (${why}); give it 1024 at least (ulimit -n 1024, docker run --ulimit nofile=1024:1024)`
}
