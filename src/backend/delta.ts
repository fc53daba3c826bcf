import type { Logger } from 'pino'
import WebSocket from 'ws'
import { createDeltaText } from './delta-text.js'
import { type DeltaTarget, deltaFrame, loggedId } from './protocol.js'

/** What is printed, shown to the person who watches, while it is printed. A courtesy: it can fail, the call can't. */
export interface DeltaStream {
  /** Never throws and never waits. */
  push(text: string): void
  /** Sends what waits and closes; resolves when the peer has it, or after `endWaitMs`. Never rejects. */
  end(): Promise<void>
  readonly stats: DeltaStats
}

interface DeltaStats {
  readonly messages: number
  /** UTF-8 bytes handed to a socket; what the socket then lost is not known. */
  readonly sentBytes: number
  /** UTF-8 bytes that were never sent: over the cap, or nowhere to send them. */
  readonly droppedBytes: number
}

export interface DeltaStreamOptions {
  /** From deltaEndpoint(). No credentials are sent, as in the reference client. */
  readonly url: string
  readonly call: DeltaTarget
  /** Cap on the UTF-8 bytes of text in all; then one note says that live output stops. 0: nothing is opened or sent. */
  readonly maxBytes: number
  readonly log: Logger
  /** The first text goes at once, the rest is gathered into at most so many messages; the last one at end() is extra. */
  readonly maxMessagesPerSecond?: number
  readonly connectTimeoutMs?: number
  readonly endWaitMs?: number
  readonly pingEveryMs?: number
  /** A lost or refused connection is tried once more, when there is text and this time has passed. */
  readonly reconnectAfterMs?: number
  /** Bytes that may wait while connecting or for a peer that does not read. */
  readonly maxPendingBytes?: number
  /** With this many bytes unread by the peer nothing more is handed to the socket. */
  readonly maxUnreadBytes?: number
}

/** How often a peer that does not read is looked at again. */
const SLOW_PEER_MS = 50

/** Opens nothing until the first text comes. */
export function openDeltaStream(options: DeltaStreamOptions): DeltaStream {
  const { url, call, log, maxMessagesPerSecond = 20, connectTimeoutMs = 5_000, endWaitMs = 1_000 } = options
  const { pingEveryMs = 20_000, reconnectAfterMs = 1_000, maxUnreadBytes = 256 * 1024 } = options
  const spacingMs = 1_000 / maxMessagesPerSecond
  const text = createDeltaText(options.maxBytes, options.maxPendingBytes ?? 1024 * 1024)
  if (options.maxBytes === 0) text.drop() // switched off: not even the note is worth a connection

  let socket: WebSocket | null = null
  let connectionsLeft = 2
  let connectNotBeforeMs = 0
  let lastSentMs = Number.NEGATIVE_INFINITY
  let messages = 0
  let sentBytes = 0
  let ending = false
  let ended: Promise<void> | null = null
  let timer: NodeJS.Timeout | null = null
  /** Resolved when an ending stream has nothing left to do. */
  let finished: (() => void) | null = null

  function connect(): void {
    connectionsLeft -= 1
    let opened: WebSocket
    try {
      opened = new WebSocket(url, {
        handshakeTimeout: connectTimeoutMs,
        maxPayload: 64 * 1024,
        perMessageDeflate: false,
      })
    } catch {
      // Only a URL that is none throws; a second attempt would as well. Its text quotes the URL and adds nothing.
      log.debug({ code: 'ERR_INVALID_URL' }, 'delta socket failed')
      connectionsLeft = 0
      giveUp()
      return
    }
    socket = opened
    let alive = true
    const pings = setInterval(() => {
      if (!alive) opened.terminate()
      alive = false
      if (opened.readyState === WebSocket.OPEN) opened.ping()
    }, pingEveryMs)
    // The handshake's own limit counts silence only; a peer that answers byte by byte would outlast it.
    const handshake = setTimeout(() => opened.terminate(), connectTimeoutMs)
    opened.on('open', () => {
      clearTimeout(handshake)
      work()
    })
    opened.on('pong', () => {
      alive = true
    })
    // Only to have a listener: each error is followed by a close.
    opened.on('error', error => log.debug({ code: (error as NodeJS.ErrnoException).code }, 'delta socket failed'))
    opened.on('close', () => {
      clearInterval(pings)
      clearTimeout(handshake)
      if (socket === opened) socket = null
      connectNotBeforeMs = performance.now() + reconnectAfterMs
      work()
    })
  }

  function giveUp(): void {
    text.drop()
    finished?.()
  }

  /** Does whatever can be done now, and sets a timer for what can't yet. */
  function work(): void {
    if (timer !== null) clearTimeout(timer)
    timer = null
    if (text.pendingBytes === 0) {
      if (ending) close()
      return
    }
    if (socket === null) {
      // At the end there is no time to wait: the second attempt is made at once, or not at all.
      const waitMs = ending ? 0 : connectNotBeforeMs - performance.now()
      if (connectionsLeft === 0) giveUp()
      else if (waitMs > 0) again(waitMs)
      else connect()
      return
    }
    if (socket.readyState !== WebSocket.OPEN) return
    const spacingLeftMs = ending ? 0 : lastSentMs + spacingMs - performance.now()
    if (socket.bufferedAmount > maxUnreadBytes) again(SLOW_PEER_MS)
    else if (spacingLeftMs > 0) again(spacingLeftMs)
    else {
      send(socket)
      if (ending) close()
    }
  }

  function again(ms: number): void {
    timer = setTimeout(work, Math.ceil(ms))
  }

  function send(open: WebSocket): void {
    const bytes = text.pendingBytes
    const taken = text.take()
    if (taken === null) return
    lastSentMs = performance.now()
    messages += 1
    sentBytes += bytes
    // A failed send is followed by a close; what it took may have arrived, so it is not sent again.
    open.send(deltaFrame(call, taken), () => {})
  }

  /** The peer answers our close after it has read all before it, so its close says that everything arrived. */
  function close(): void {
    if (socket === null) finished?.()
    else if (socket.readyState === WebSocket.OPEN) socket.close(1000)
    else if (socket.readyState === WebSocket.CONNECTING) socket.terminate()
  }

  return {
    push(more) {
      if (ending || more === '') return
      text.push(more)
      if (timer === null) work()
    },
    end() {
      ended ??= finish()
      return ended
    },
    get stats() {
      return { messages, sentBytes, droppedBytes: text.droppedBytes }
    },
  }

  function finish(): Promise<void> {
    ending = true
    text.finish()
    return new Promise(resolve => {
      const limit = setTimeout(() => {
        giveUp()
        socket?.terminate()
      }, endWaitMs)
      finished = () => {
        finished = null
        clearTimeout(limit)
        if (timer !== null) clearTimeout(timer)
        if (text.droppedBytes > 0) {
          log.debug(
            { fcall_id: loggedId(call.fcall_id), messages, sentBytes, droppedBytes: text.droppedBytes },
            'deltas dropped',
          )
        }
        resolve()
      }
      work()
    })
  }
}
