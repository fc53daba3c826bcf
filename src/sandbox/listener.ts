import { randomUUID } from 'node:crypto'
import net from 'node:net'
import { z } from 'zod'
import { Channel } from './channel.js'

const HELLO_TIMEOUT_MS = 10_000
const Hello = z.object({ role: z.enum(['zygote', 'warden']), token: z.string() })

/** The socket on which zygotes and wardens report. Each proves itself with a token that was handed down to it, once. */
export class Listener {
  readonly #server: net.Server
  readonly #expected = new Map<string, (channel: Channel) => void>()
  readonly #open = new Set<net.Socket>()
  readonly #helloTimeoutMs: number

  private constructor(server: net.Server, helloTimeoutMs: number) {
    this.#server = server
    this.#helloTimeoutMs = helloTimeoutMs
    server.on('connection', socket => this.#accept(socket))
  }

  static async open(socketPath: string, helloTimeoutMs = HELLO_TIMEOUT_MS): Promise<Listener> {
    const server = net.createServer()
    const listener = new Listener(server, helloTimeoutMs)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(socketPath, resolve)
    })
    return listener
  }

  /** A fresh token; `onConnect` is called at most once, in the turn in which its first frame came. */
  expect(onConnect: (channel: Channel) => void): string {
    const token = randomUUID() // 122 random bits, of which node keeps some ready
    this.#expected.set(token, onConnect)
    return token
  }

  forget(token: string): void {
    this.#expected.delete(token)
  }

  #accept(socket: net.Socket): void {
    this.#open.add(socket)
    socket.on('close', () => this.#open.delete(socket))
    const channel = new Channel(socket)
    const timer = setTimeout(() => socket.destroy(), this.#helloTimeoutMs)
    channel.listen(
      frame => {
        clearTimeout(timer)
        const hello = Hello.safeParse(parseJson(frame.payload))
        const onConnect = hello.success ? this.#expected.get(hello.data.token) : undefined
        if (!hello.success || onConnect === undefined) {
          socket.destroy()
          return
        }
        this.#expected.delete(hello.data.token)
        onConnect(channel)
      },
      () => clearTimeout(timer),
    )
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy()
    await new Promise<void>(resolve => this.#server.close(() => resolve()))
  }
}

/** The value of JSON bytes, or undefined when they are none. */
export function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}
