import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import type { ToolCall } from '../../../src/backend/protocol.js'
import { runSession, type SessionOptions } from '../../../src/backend/session.js'
import type { SessionEnd } from '../../../src/backend/session-end.js'
import { captureLog, keyCredentials } from './fixtures.js'
import { rawServer } from './raw-server.js'
import { startWs, type TestWsServer } from './servers.js'

let cleanup: (() => unknown)[] = []

/** Stops all sessions and servers of a test; for afterEach. */
export async function closeSessions(): Promise<void> {
  for (const close of cleanup) await close()
  cleanup = []
}

/** Something else that is to be closed with them. */
export function alsoClose(close: () => unknown): void {
  cleanup.push(close)
}

interface Running {
  readonly end: Promise<SessionEnd>
  readonly calls: ToolCall[]
  readonly malformed: [string, string | null][]
  subscribed: number
  stop(): void
  logged(): string
}

/** A session with that address, and what has come of it so far. */
export function start(url: string, options: Partial<SessionOptions> = {}): Running {
  const controller = new AbortController()
  const captured = captureLog()
  const running: Running = {
    calls: [],
    malformed: [],
    subscribed: 0,
    stop: () => controller.abort(),
    logged: captured.text,
    end: runSession(
      {
        url,
        toolNames: ['python_execute'],
        fgroupId: null,
        fuserId: null,
        credentials: keyCredentials(),
        log: captured.log,
        onSubscribed: () => {
          running.subscribed += 1
        },
        onCall: call => running.calls.push(call),
        onMalformed: (reason, fcallId) => running.malformed.push([reason, fcallId]),
        ...options,
      },
      controller.signal,
    ),
  }
  cleanup.push(() => controller.abort())
  return running
}

/** A websocket server that is closed after the test. */
export async function serve(...args: Parameters<typeof startWs>): Promise<TestWsServer> {
  const server = await startWs(...args)
  cleanup.push(server.close)
  return server
}

export function sendNext(socket: WebSocket, id: string, payload: unknown): void {
  socket.send(JSON.stringify({ id, type: 'next', payload }))
}

export const nothing = () => {}
export const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** A server of bare sockets that is closed after the test. */
export async function listen(onSocket: (socket: Socket) => void): Promise<{ url: string }> {
  const server = await rawServer(socket => {
    socket.on('data', nothing)
    onSocket(socket)
  })
  cleanup.push(server.close)
  return server
}
