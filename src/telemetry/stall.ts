import type { Logger } from 'pino'

const EVERY_MS = 250
const STALLED_MS = 1_000

/** Logs each time that this process has done nothing for over a second: its own code, or a machine that gave it no time. Returns the way to end that. */
export function watchForStalls(log: Logger): () => void {
  let last = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    const stalledMs = Math.round(now - last - EVERY_MS)
    last = now
    if (stalledMs > STALLED_MS) log.warn({ stalledMs }, 'the event loop stood still')
  }, EVERY_MS)
  timer.unref()
  return () => clearInterval(timer)
}
