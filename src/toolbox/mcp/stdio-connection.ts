import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { parseExactly } from '../../exact-json.js'
import { type ConnectionOptions, NotSent } from './connection.js'
import { GatedConnection } from './gated-connection.js'
import { LineReader } from './line-reader.js'
import { isRequest, MESSAGE_MAX_BYTES } from './message-gate.js'
import type { StdioConnection as StdioConfig } from './server-config.js'
import { type ServerProcess, startServerProcess } from './server-process.js'
import { logStderr } from './stderr-log.js'

const SHOWN_CHARS = 200
/** What may wait for a server that does not read. */
const UNREAD_MAX_BYTES = 32 * 1024 * 1024

/** A server that is a child process and speaks one JSON message a line. The SDK's own transport keeps lines of any length. */
export class StdioConnection extends GatedConnection {
  readonly #config: StdioConfig
  #process: ServerProcess | null = null
  #words: string | null = null
  #over = false
  #garbageTold = false
  #floodTold = false
  #resume: NodeJS.Timeout | undefined

  constructor(config: StdioConfig, options: ConnectionOptions) {
    super(options)
    this.#config = config
  }

  async start(): Promise<void> {
    const started = startServerProcess(this.#config, this.options.environment)
    this.#process = started
    logStderr(started.stderr, this.options)
    const reader = new LineReader(MESSAGE_MAX_BYTES, {
      line: bytes => this.#line(bytes),
      empty: () => this.pace.nothing(),
      oversized: (head, tail) => this.gate.oversized(head, tail),
      discarded: bytes => this.pace.discarded(bytes),
    })
    started.stdout.on('data', (chunk: Buffer) => {
      this.heardAtMs = this.options.now()
      reader.push(chunk)
      this.#slowDown(started)
    })
    started.stdout.once('end', () => reader.end())
    void started.ended.then(words => this.#finish(this.#words ?? words))
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#process?.stdin
    if (stdin === undefined || !stdin.writable) throw new NotSent('has ended')
    if (stdin.writableLength > UNREAD_MAX_BYTES) {
      // Its own requests are simply not answered then.
      if (!isRequest(message)) return
      throw new NotSent('does not read what it is sent')
    }
    this.gate.sent(message)
    stdin.write(`${JSON.stringify(message)}\n`)
  }

  async end(words: string): Promise<void> {
    this.#words ??= words
    await this.#process?.stop()
    this.#finish(this.#words)
  }

  #finish(words: string): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#resume)
    this.tellEnded(words)
  }

  #line(bytes: Buffer): void {
    if (this.gate.refuses(bytes)) {
      this.pace.discarded(bytes.length)
      return
    }
    const value = parsed(bytes)
    const kind = value === undefined ? 'garbage' : this.gate.received(value)
    if (kind !== 'answer') this.pace.unsolicited(bytes.length)
    if (kind !== 'garbage' || this.#garbageTold) return
    this.#garbageTold = true
    const { server, log, mask } = this.options
    const line = mask(bytes.subarray(0, 4 * SHOWN_CHARS).toString()).slice(0, SHOWN_CHARS)
    log.warn({ server, line: line.toWellFormed() }, 'a tool server writes to stdout what is no message')
  }

  /** What is not read fills the pipe, where the server waits. */
  #slowDown({ stdout }: ServerProcess): void {
    const pauseMs = this.pace.pauseMs
    if (pauseMs === 0 || this.#over || stdout.isPaused()) return
    const { server, log } = this.options
    if (!this.#floodTold) log.warn({ server }, 'a tool server sends more than is read')
    this.#floodTold = true
    stdout.pause()
    this.#resume = setTimeout(() => stdout.resume(), pauseMs)
  }
}

function parsed(bytes: Buffer): unknown {
  const first = bytes[0]
  // Most garbage is told by its first byte: "{", "[", or white space before them.
  if (first !== 0x7b && first !== 0x5b && first !== 0x20 && first !== 0x09) return undefined
  try {
    return parseExactly(bytes.toString())
  } catch {
    return undefined
  }
}
