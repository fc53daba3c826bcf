import { writeSync } from 'node:fs'

/** What is kept of lines that nobody reads; the oldest go first. */
const KEPT_MOST_BYTES = 4 * 1024 * 1024
const TRY_AGAIN_MS = 10
/** For whoever reads to take the last lines when the process ends. */
const EXIT_FLUSH_MS = 1_000
const EXIT_PAUSE_MS = 10

export interface LogSinkOptions {
  readonly fd: 1 | 2
  /** Nobody reads the lines any more (EPIPE); told once. */
  onBroken(): void
  /** So many lines were lost: nobody read them in time, or they could not be written. Told when lines get through again. */
  onDropped(lines: number): void
  readonly keptMostBytes?: number
}

/** Where log lines go. */
export interface LogSink {
  /** A line with its newline. Never waits, never throws. */
  write(line: string): void
}

/**
 * Writes lines to stdout or stderr at once, so that the last words before an exit are not lost, and never waits for whoever reads
 * them: what a full pipe does not take is kept, at most 4 MiB, and written as soon as it can be, at the end of the process within a
 * second. Lines beyond that are lost, the oldest first. To be made once for each of the two.
 */
export function openLogSink(options: LogSinkOptions): LogSink {
  const { fd, onBroken, onDropped, keptMostBytes = KEPT_MOST_BYTES } = options
  // Node makes pipes and sockets non-blocking when it first makes a stream of them, and has no other way to.
  if (fd === 1) void process.stdout
  else void process.stderr
  const lines: Buffer[] = []
  let bytes = 0
  /** Of the first line something is written already: it is to be completed, whatever comes. */
  let isCut = false
  let dropped = 0
  let broken = false
  let timer: NodeJS.Timeout | null = null

  function flush(): void {
    for (let line = lines[0]; line !== undefined; line = lines[0]) {
      try {
        const written = writeSync(fd, line)
        bytes -= written
        isCut = written < line.length
        if (isCut) lines[0] = line.subarray(written)
        else lines.shift()
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        if (code === 'EPIPE') end()
        if (code === 'EAGAIN' || code === 'EPIPE') return
        lines.shift() // such as a file on a disk that is full
        bytes -= line.length
        isCut = false
        dropped++
        return
      }
    }
    if (dropped === 0) return
    const count = dropped
    dropped = 0
    onDropped(count)
  }

  function end(): void {
    if (broken) return
    broken = true
    lines.length = bytes = 0
    onBroken()
  }

  function tryLater(): void {
    if (lines.length === 0 || timer !== null) return
    timer = setTimeout(() => {
      timer = null
      flush()
      tryLater()
    }, TRY_AGAIN_MS)
    timer.unref()
  }

  process.on('exit', () => {
    const until = performance.now() + EXIT_FLUSH_MS
    for (flush(); lines.length > 0 && performance.now() < until; flush()) pause(EXIT_PAUSE_MS)
  })

  return {
    write(line) {
      if (broken) return
      const data = Buffer.from(line, 'utf8')
      lines.push(data)
      bytes += data.length
      while (bytes > keptMostBytes && lines.length > 1) {
        const [oldest] = lines.splice(isCut ? 1 : 0, 1)
        bytes -= oldest?.length ?? 0
        dropped++
      }
      flush()
      tryLater()
    },
  }
}

/** Holds the whole process, which is ending. */
function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
