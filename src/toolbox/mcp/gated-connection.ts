import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import type { Connection, ConnectionOptions } from './connection.js'
import { MessageGate } from './message-gate.js'
import { Pace } from './pace.js'

/** What connections have in common, whatever carries the messages: what comes passes a gate, at a pace, and it ends with words. */
export abstract class GatedConnection implements Connection {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JSONRPCMessage) => void) | undefined
  readonly ended: Promise<string>
  heardAtMs: number

  protected readonly options: ConnectionOptions
  protected readonly gate: MessageGate
  protected readonly pace: Pace
  #resolveEnded: (words: string) => void = () => {}

  constructor(options: ConnectionOptions) {
    this.options = options
    this.heardAtMs = options.now()
    this.pace = new Pace(options.now)
    this.gate = new MessageGate({
      deliver: message => this.onmessage?.(message),
      onToolsChanged: options.onToolsChanged,
      now: options.now,
    })
    this.ended = new Promise(resolve => {
      this.#resolveEnded = resolve
    })
  }

  abstract start(): Promise<void>
  abstract send(message: JSONRPCMessage): Promise<void>
  abstract end(words: string): Promise<void>

  close(): Promise<void> {
    return this.end('is closed')
  }

  /** To be called once, when nothing of it is left. */
  protected tellEnded(words: string): void {
    this.#resolveEnded(words)
    this.onclose?.()
  }
}
