import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { type Json, ToolFailure } from '../tool-entry.js'
import { CALL_RESULT, resultValue } from './call-result.js'
import { CannotStart, type Connection, type ConnectionOptions, NotSent, SessionLost } from './connection.js'
import { HttpConnection } from './http-connection.js'
import { OWN_ERROR_CODE, TOO_LARGE, TOO_MANY } from './message-gate.js'
import type { McpServerConfig } from './server-config.js'
import { StdioConnection } from './stdio-connection.js'
import { listTools, PAGE, type ToolList } from './tool-list.js'

/** The SDK's own limit for a request, which never comes first: every request here is ended by its signal. */
const NEVER_MS = 2 ** 31 - 1

/** A call was cut off by the end of its session, or could not be sent; the message follows "the tool server 'x' ". */
export class CallCutOff extends Error {
  override readonly name = 'CallCutOff'
}

/** No answer in time; the server has been told that nobody waits any more. */
export class CallTimedOut extends Error {
  override readonly name = 'CallTimedOut'
}

class LimitReached extends Error {
  override readonly name = 'LimitReached'
}

/** One initialised connection to a server, from its start to its end. */
export class Session {
  readonly connection: Connection
  readonly #client: Client
  readonly #config: McpServerConfig
  #words: string | null = null

  constructor(config: McpServerConfig, options: ConnectionOptions, version: string) {
    this.#config = config
    const { connection } = config
    this.connection =
      connection.kind === 'stdio' ? new StdioConnection(connection, options) : new HttpConnection(connection, options)
    // No roots, sampling or elicitation: a server gets nothing of ours but the arguments of calls.
    this.#client = new Client({ name: 'python-execute-worker', version }, { capabilities: {} })
    this.#client.onerror = () => {} // every request has its own end; what is left over is nobody's
    void this.connection.ended.then(words => {
      this.#words = words
    })
  }

  /** Why it is over, or null. */
  get endedWords(): string | null {
    return this.#words
  }

  /** Starts the server and its session. Rejects with an Error whose message follows "the tool server 'x' "; see detailOf. */
  async open(): Promise<void> {
    const limitMs = this.#config.startTimeoutMs
    try {
      await limited(limitMs, null, signal => this.#client.connect(this.connection, { signal, timeout: NEVER_MS }))
    } catch (error) {
      // A server that dies at its start says more by its exit code than the request that it leaves unanswered.
      const seconds = `gave no answer to initialize within ${limitMs / 1_000} s`
      const words = error instanceof LimitReached ? seconds : wordsOf(error)
      const ended = await this.#endAfter(error, words)
      throw new Error(ended, { cause: error })
    }
  }

  /** Rejects with an Error in words, as open(). */
  async listTools(): Promise<ToolList> {
    if (this.#client.getServerCapabilities()?.tools === undefined) return { tools: [], leftOut: [] }
    const limitMs = this.#config.startTimeoutMs
    try {
      return await limited(limitMs, null, signal =>
        listTools(cursor =>
          this.#client.request({ method: 'tools/list', params: cursor === undefined ? {} : { cursor } }, PAGE, {
            signal,
            timeout: NEVER_MS,
          }),
        ),
      )
    } catch (error) {
      const words = error instanceof LimitReached ? `gave no list of tools within ${limitMs / 1_000} s` : wordsOf(error)
      throw new Error(this.#words ?? words, { cause: error })
    }
  }

  /**
   * Calls a tool. Rejects with ToolFailure in the tool's or the server's words, CallTimedOut, CallCutOff, or SessionLost where the
   * call did not reach a session; when the signal aborts the server is told, and it rejects with CallCutOff.
   */
  async call(tool: string, args: { readonly [name: string]: Json }, signal: AbortSignal): Promise<Json> {
    const { name, timeoutMs } = this.#config
    try {
      const result = await limited(timeoutMs, signal, limit =>
        this.#client.request({ method: 'tools/call', params: { name: tool, arguments: args } }, CALL_RESULT, {
          signal: limit,
          timeout: NEVER_MS,
        }),
      )
      return resultValue(result)
    } catch (error) {
      if (error instanceof ToolFailure || error instanceof SessionLost) throw error
      if (signal.aborted) throw new CallCutOff('was told that the call is cancelled')
      if (error instanceof LimitReached) throw new CallTimedOut(`gave no answer within ${timeoutMs / 1_000} s`)
      if (this.#words !== null) throw new CallCutOff(this.#words)
      if (error instanceof NotSent) throw new CallCutOff(error.message)
      if (error instanceof McpError && error.code === OWN_ERROR_CODE) {
        const words = wordsOf(error)
        throw new ToolFailure(`the tool server '${name}' ${words}`, words === TOO_LARGE || words === TOO_MANY)
      }
      if (error instanceof McpError) {
        throw new ToolFailure(`the tool server '${name}' refuses the call: ${wordsOf(error)} (code ${error.code})`)
      }
      throw new ToolFailure(`the tool server '${name}' gave an answer that is no result of a tool`)
    }
  }

  /** null where the server answers a ping, or sends anything at all, within the time; else words. */
  async silence(limitMs: number): Promise<string | null> {
    const before = this.connection.heardAtMs
    try {
      await limited(limitMs, null, signal =>
        this.#client.request({ method: 'ping' }, z.looseObject({}), { signal, timeout: NEVER_MS }),
      )
      return null
    } catch (error) {
      if (error instanceof NotSent || error instanceof SessionLost) return error.message
      // Refused is answered too.
      if (this.#words === null && !(error instanceof LimitReached)) return null
      return this.connection.heardAtMs > before ? null : 'does not answer any more'
    }
  }

  end(words: string): Promise<void> {
    return this.connection.end(words)
  }

  async #endAfter(error: unknown, words: string): Promise<string> {
    const closed = error instanceof McpError && error.code === CONNECTION_CLOSED
    await this.connection.end(words)
    return closed ? await this.connection.ended : words
  }
}

/** What operators are told of an error of open() or listTools(), beside its message; null: nothing. */
export function detailOf(error: unknown): string | null {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return cause instanceof CannotStart || cause instanceof NotSent ? cause.detail : null
}

const CONNECTION_CLOSED = -32_000

/** Without the SDK's "MCP error -32602: " before them. */
function wordsOf(error: unknown): string {
  // Not instanceof: the SDK may bring a zod of its own.
  if (error instanceof Error && 'issues' in error) return 'gave an answer that is not as the protocol wants it'
  const words = error instanceof Error ? error.message : String(error)
  return words.replace(/^MCP error -?\d+: /, '')
}

/** Runs `work` with a signal that aborts after `ms`, or with the caller's; rejects at once then. */
async function limited<T>(
  ms: number,
  caller: AbortSignal | null,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  // One of its own per request: the SDK leaves its listeners on the signal, and would cancel what is long answered.
  const controller = new AbortController()
  const forward = () => controller.abort(new Error('the run has ended'))
  if (caller?.aborted) throw new Error('the run has ended')
  caller?.addEventListener('abort', forward, { once: true })
  let late = false
  const timer = setTimeout(() => {
    late = true
    controller.abort(new Error('no answer in time'))
  }, ms)
  try {
    return await work(controller.signal)
  } catch (error) {
    throw late ? new LimitReached('no answer in time') : error
  } finally {
    clearTimeout(timer)
    caller?.removeEventListener('abort', forward)
  }
}
