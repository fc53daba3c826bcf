import type { ChildProcess } from 'node:child_process'
import { killPageProcess } from './page-process.js'

/** A process that waits costs 80 MB, one that is started costs a call 0.4 s of CPU time. */
const IDLE_MS = 60_000

/** One process that is started already when the next call comes. No process ever serves two calls. */
export interface SpareProcess {
  /** The one that waits, or a new one. */
  take(): ChildProcess
  /** Starts one, unless one waits already; it is ended when nobody takes it for a minute. */
  prepare(): void
  close(): void
}

export function createSpareProcess(start: () => ChildProcess, idleMs = IDLE_MS): SpareProcess {
  let waiting: ChildProcess | null = null
  let idle: NodeJS.Timeout | undefined
  let closed = false
  const release = (): ChildProcess | null => {
    const child = waiting
    clearTimeout(idle)
    waiting = null
    return child !== null && child.exitCode === null && child.signalCode === null ? child : null
  }
  const end = () => {
    const child = release()
    if (child !== null) killPageProcess(child)
  }
  return {
    take: () => release() ?? start(),
    prepare() {
      if (closed || waiting !== null) return
      const child = start()
      // It may fail to start, or be killed by anyone: the call that takes it, or the next, finds that out.
      child.on('error', () => {})
      child.once('exit', () => {
        if (waiting === child) release()
      })
      waiting = child
      idle = setTimeout(end, idleMs)
      idle.unref()
    },
    close() {
      closed = true
      end()
    },
  }
}
