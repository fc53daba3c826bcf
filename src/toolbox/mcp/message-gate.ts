import {
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js'
import { shapeOfRequest } from '../request-shape.js'

/** The largest message that is taken from a server, in bytes of JSON. */
export const MESSAGE_MAX_BYTES = 16 * 1024 * 1024
/** The code of errors that are made here, in the place of an answer. */
export const OWN_ERROR_CODE = -31_901

/** What one message may be made of: in 16 MiB there is room for so many that making them takes the worker's memory and seconds. */
const VALUES_MAX = 250_000
const ENDS_BYTES = 512

export const TOO_LARGE = `gave a result of more than ${MESSAGE_MAX_BYTES / 1024 / 1024} MiB, which is not taken; ask for less at once`
export const TOO_MANY = `gave a result of more than ${VALUES_MAX} values, which is not taken; ask for less at once`

const REQUESTS_PER_SECOND = 20
const REQUESTS_BURST = 100
const BATCH_MAX = 1_000
const WORDS_CHARS = 4_000

export interface GateOptions {
  /** To the client, checked. */
  readonly deliver: (message: JSONRPCMessage) => void
  /** The server says that its list of tools is another now; may come in floods. */
  readonly onToolsChanged: () => void
  /** Monotonic milliseconds. */
  readonly now: () => number
}

type Received = 'answer' | 'unsolicited' | 'garbage'

/**
 * Stands between a transport and the SDK's client, and lets through answers to requests that still wait and a bounded number of
 * the server's own requests (the client answers pings, and refuses all else). Nothing else: the client would put an answer
 * that it doesn't know, of any size, into the text of an error, and leaves a request waiting whose answer has an unexpected shape.
 */
export class MessageGate {
  readonly #options: GateOptions
  readonly #waiting = new Set<number>()
  #tokens = REQUESTS_BURST
  #tokensAtMs: number

  constructor(options: GateOptions) {
    this.#options = options
    this.#tokensAtMs = options.now()
  }

  /** Has to see all that is sent; returns the id of the request that a cancellation ends. */
  sent(message: JSONRPCMessage): number | null {
    if (isRequest(message)) {
      const id = idOf(message.id)
      if (id !== null) this.#waiting.add(id)
      return null
    }
    if (!('method' in message) || message.method !== 'notifications/cancelled') return null
    const id = idOf(message.params?.['requestId'])
    if (id !== null) this.#waiting.delete(id)
    return id
  }

  waitsFor(id: RequestId): boolean {
    const number = idOf(id)
    return number !== null && this.#waiting.has(number)
  }

  /** Takes what a server sent, parsed. Never throws: nobody above a stream's handler could do anything but end the worker. */
  received(value: unknown): Received {
    try {
      return this.#received(value)
    } catch {
      return 'garbage'
    }
  }

  #received(value: unknown): Received {
    if (Array.isArray(value)) {
      // A batch of an older version of the protocol; never one in another, which could be nested without end.
      if (value.length === 0 || value.length > BATCH_MAX || value.some(Array.isArray)) return 'garbage'
      const kinds = value.map(one => this.#received(one))
      return kinds.find(kind => kind === 'garbage') ?? kinds.find(kind => kind === 'answer') ?? 'unsolicited'
    }
    if (typeof value !== 'object' || value === null || !('jsonrpc' in value)) return 'garbage'
    if ('method' in value) return this.#called(value as { method: unknown })
    if (!('result' in value) && !('error' in value)) return 'garbage'
    const id = 'id' in value ? idOf(value.id) : null
    if (id === null || !this.#waiting.delete(id)) return 'unsolicited'
    if ('error' in value) {
      const { code, message } = (value.error ?? {}) as { code?: unknown; message?: unknown }
      const words = typeof message === 'string' ? message : 'no reason given'
      this.#error(id, Number.isSafeInteger(code) ? (code as number) : -32_603, words)
      return 'answer'
    }
    const answer = { jsonrpc: '2.0', id, result: value.result }
    if (isJSONRPCResultResponse(answer)) this.#deliver(answer)
    else this.#error(id, OWN_ERROR_CODE, 'gave an answer that is no result of the protocol')
    return 'answer'
  }

  /** Whether a message is not even to be parsed. The request that waits for it, if there is one, has failed then. */
  refuses(bytes: Buffer): boolean {
    if (bytes.length <= VALUES_MAX) return false
    const { values, id } = shapeOfRequest(bytes)
    if (values <= VALUES_MAX) return false
    const answered = id ?? answeredBy(bytes.subarray(0, ENDS_BYTES), bytes.subarray(-ENDS_BYTES))
    if (answered !== null) this.fail(answered, TOO_MANY)
    return true
  }

  /** A message was too large and is gone; its ends tell which request waits for it. If they don't, none gets its answer. */
  oversized(head: Buffer, tail: Buffer): void {
    const start = head.toString('latin1')
    if (/^\s*\{\s*("jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"/.test(start)) return
    const found = answeredBy(head, tail)
    for (const id of found === null ? [...this.#waiting] : [found]) this.fail(id, TOO_LARGE)
  }

  /** Ends a request that waits, with words of ours that follow "the tool server 'x' ". */
  fail(id: RequestId, words: string): void {
    const number = idOf(id)
    if (number !== null && this.#waiting.delete(number)) this.#error(number, OWN_ERROR_CODE, words)
  }

  #error(id: number, code: number, words: string): void {
    const message = words.length > WORDS_CHARS ? `${words.slice(0, WORDS_CHARS).toWellFormed()}…` : words
    this.#deliver({ jsonrpc: '2.0', id, error: { code, message } })
  }

  #deliver(message: JSONRPCMessage): void {
    try {
      this.#options.deliver(message)
    } catch {
      // Of the client: its request ends at its time limit.
    }
  }

  #called(message: { method: unknown }): 'unsolicited' {
    if (message.method === 'notifications/tools/list_changed') this.#options.onToolsChanged()
    else if ('id' in message && this.#takeToken() && isJSONRPCRequest(message)) this.#deliver(message)
    return 'unsolicited'
  }

  #takeToken(): boolean {
    const nowMs = this.#options.now()
    const more = ((nowMs - this.#tokensAtMs) / 1_000) * REQUESTS_PER_SECOND
    this.#tokens = Math.min(REQUESTS_BURST, this.#tokens + more)
    this.#tokensAtMs = nowMs
    if (this.#tokens < 1) return false
    this.#tokens -= 1
    return true
  }
}

export function isRequest(message: JSONRPCMessage): message is JSONRPCMessage & { id: RequestId; method: string } {
  return 'method' in message && 'id' in message
}

/** Of the request that a message answers, by the ends of its JSON. */
function answeredBy(head: Buffer, tail: Buffer): number | null {
  const found =
    /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,15})\b/.exec(head.toString('latin1')) ??
    /"id"\s*:\s*"?(\d{1,15})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(tail.toString('latin1'))
  return found === null ? null : Number(found[1])
}

/** The SDK's client numbers its requests; some servers answer with the number as a string. Anything else can be any value of JSON. */
function idOf(id: unknown): number | null {
  if (typeof id === 'string' && /^\d{1,15}$/.test(id)) return Number(id)
  return typeof id === 'number' && Number.isSafeInteger(id) ? id : null
}
