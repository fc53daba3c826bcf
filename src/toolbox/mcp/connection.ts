import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { Logger } from 'pino'

/** What a transport needs to know of its surroundings. */
export interface ConnectionOptions {
  readonly server: string
  readonly log: Logger
  /** Replaces secrets in what is logged of a server's own words. */
  readonly mask: (text: string) => string
  /** The worker's, of which a server that is started gets PATH, HOME, LANG and TMPDIR. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Monotonic milliseconds. */
  readonly now: () => number
  /** The server's list of tools is another now; may be called very often. */
  readonly onToolsChanged: () => void
}

/** A transport that is bounded in what it takes, and says in words how it ended. */
export interface Connection extends Transport {
  /** When it is over, whoever ended it: words that follow "the tool server 'x' ". Never rejects. */
  readonly ended: Promise<string>
  /** When anything came from the server for the last time, on the clock that was given. */
  readonly heardAtMs: number
  /** Ends it with these words; resolves when nothing of it is left. */
  end(words: string): Promise<void>
}

/** A server can not be started; `detail` is for the log: it may name what is nothing to the code. */
export class CannotStart extends Error {
  override readonly name = 'CannotStart'
  readonly detail: string

  constructor(detail: string) {
    super('could not start')
    this.detail = detail
  }
}

/** A request could not be sent, or gets no answer; the message follows "the tool server 'x' ". `detail`: as above. */
export class NotSent extends Error {
  override readonly name = 'NotSent'
  readonly detail: string | null

  constructor(message: string, detail: string | null = null) {
    super(message)
    this.detail = detail
  }
}

/** The server has forgotten its session, before it looked at the request: in a new one it can be sent again. */
export class SessionLost extends Error {
  override readonly name = 'SessionLost'
}
