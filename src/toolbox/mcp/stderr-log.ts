import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import { LineReader } from './line-reader.js'
import { Pace } from './pace.js'

const LINE_MAX_BYTES = 8 * 1024
const SHOWN_CHARS = 1_000
const LINES_PER_SECOND = 10
const LINES_BURST = 50

/**
 * Puts a server's stderr into the log: line by line, masked, bounded in length and number. What comes in floods is read as slowly as
 * what nobody asked for on stdout; the server waits meanwhile, if it writes on.
 */
export function logStderr(
  stream: Readable,
  { server, log, mask, now }: { server: string; log: Logger; mask: (text: string) => string; now: () => number },
): void {
  let tokens = LINES_BURST
  let atMs = now()
  let dropped = 0
  const tell = (text: string) => {
    const nowMs = now()
    tokens = Math.min(LINES_BURST, tokens + ((nowMs - atMs) / 1_000) * LINES_PER_SECOND)
    atMs = nowMs
    if (tokens < 1) {
      dropped += 1
      return
    }
    tokens -= 1
    // Masked before it is cut, so that no half of a secret is left.
    log.info({ server, line: bounded(mask(text)), ...(dropped > 0 ? { dropped } : {}) }, 'tool server says')
    dropped = 0
  }
  const pace = new Pace(now)
  const reader = new LineReader(LINE_MAX_BYTES, {
    line: bytes => {
      pace.unsolicited(bytes.length)
      tell(bytes.toString())
    },
    empty: () => pace.nothing(),
    // Not its beginning: that may end within a secret.
    oversized: () => tell(`(a line of more than ${LINE_MAX_BYTES} bytes)`),
    discarded: bytes => pace.discarded(bytes),
  })
  let resume: NodeJS.Timeout | undefined
  stream.on('data', (chunk: Buffer) => {
    reader.push(chunk)
    const pauseMs = pace.pauseMs
    if (pauseMs === 0 || stream.isPaused()) return
    stream.pause()
    resume = setTimeout(() => stream.resume(), pauseMs)
  })
  stream.once('close', () => clearTimeout(resume))
  stream.once('end', () => reader.end())
}

function bounded(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS).toWellFormed()}…` : text
}
