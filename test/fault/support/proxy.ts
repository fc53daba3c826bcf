import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const LOOPBACK = '127.0.0.1'

/** up: from the worker to the backend. down: from the backend to the worker. */
type Direction = 'up' | 'down'

export interface WireProxy {
  readonly port: number
  /** Where the worker finds the backend through this proxy, with a slash at its end. */
  readonly url: string
  /** Monotonic milliseconds of each connection that the worker has opened. */
  readonly attempts: readonly number[]
  /** Connections of which one side at least is still there. */
  readonly open: number
  /** Ends both sides of every connection with a FIN and forgets what was on its way. */
  cut(): void
  /** Ends both sides of every connection with a RST, as a firewall or a crashed machine does. */
  reset(): void
  /** Sends a FIN in this direction on every connection; the other direction lives on. */
  halfClose(direction: Direction): void
  /** Nothing moves any more, in this or in both directions; connections stay open, new ones are taken and hang. */
  freeze(direction?: Direction): void
  thaw(): void
  /** Freezes the connections that there are, for good; new ones work. As a router that has forgotten them. */
  strand(): void
  /** Bytes a second that pass in this or both directions of each connection, from now on; null: all that come. */
  throttle(bytesPerSecond: number | null, direction?: Direction): void
  /** Holds each piece for so long before it is passed on. */
  delay(ms: number, direction?: Direction): void
  /** Nobody listens: a connection is refused. What is open stays open. */
  shut(): void
  /** New connections are taken, counted and reset at once. What is open stays open. */
  refuse(refusing: boolean): void
  /** Listens again on the same port, and undoes all but shut connections: freeze, throttle, delay, refuse. */
  heal(): Promise<void>
  close(): Promise<void>
}

interface Lane {
  frozen: boolean
  bytesPerSecond: number | null
  delayMs: number
}

interface Pair {
  readonly worker: Socket
  readonly backend: Socket
  stranded: boolean
}

/** A TCP proxy on a free loopback port, between a worker and the backend that listens at `backendPort`. */
export async function startProxy(backendPort: number): Promise<WireProxy> {
  const lanes: Record<Direction, Lane> = { up: newLane(), down: newLane() }
  const pairs = new Set<Pair>()
  const attempts: number[] = []
  let refusing = false
  /** Whoever waits for a wire to move again; all look again after each change. */
  const waiting: (() => void)[] = []

  const changed = () => {
    for (const look of waiting.splice(0)) look()
  }
  const change = () => new Promise<void>(resolve => waiting.push(resolve))
  const of = (direction: Direction | undefined) =>
    direction === undefined ? [lanes.up, lanes.down] : [lanes[direction]]

  // Half-open, so that a FIN goes through in its own direction only.
  const server = createServer({ allowHalfOpen: true, noDelay: true }, worker => {
    attempts.push(performance.now())
    worker.on('error', () => {})
    if (refusing) {
      worker.resetAndDestroy()
      return
    }
    const backend = connect({ port: backendPort, host: LOOPBACK, allowHalfOpen: true, noDelay: true })
    backend.on('error', () => {})
    const pair: Pair = { worker, backend, stranded: false }
    pairs.add(pair)
    backend.once('connect', () => {
      void pump(pair, worker, backend, lanes.up)
      void pump(pair, backend, worker, lanes.down)
    })
    // A side that is gone altogether, not merely done, takes the other one along.
    backend.once('close', () => tell(pair, lanes.down, () => leave(pair)))
    worker.once('close', () => tell(pair, lanes.up, () => leave(pair)))
  })

  function leave(pair: Pair): void {
    pair.worker.destroy()
    pair.backend.destroy()
    pairs.delete(pair)
    changed()
  }

  async function unfrozen(pair: Pair, lane: Lane): Promise<void> {
    while (lane.frozen && pairs.has(pair)) await change()
  }

  /**
   * Passes an end on once the wire moves. Of a stranded connection the worker hears nothing any more; the backend does hear that
   * the worker has left it, since one that believed in it would hand it calls.
   */
  async function tell(pair: Pair, lane: Lane, end: () => void): Promise<void> {
    await unfrozen(pair, lane)
    if (!pair.stranded) end()
    else if (lane === lanes.up) leave(pair)
  }

  async function pump(pair: Pair, from: Socket, to: Socket, lane: Lane): Promise<void> {
    try {
      // Not destroyed at the end: the other direction may still be used.
      for await (const piece of from.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        if (lane.delayMs > 0) await sleep(lane.delayMs)
        for (const part of parts(piece, lane.bytesPerSecond)) {
          await unfrozen(pair, lane)
          if (lane.bytesPerSecond !== null) await sleep((1000 * part.length) / lane.bytesPerSecond)
          if (to.destroyed) return
          if (pair.stranded) continue
          if (!to.write(part)) await Promise.race([once(to, 'drain'), once(to, 'close')])
        }
      }
      await tell(pair, lane, () => to.end())
    } catch {
      // One of the two broke off: `close` of it does the rest.
    }
  }

  async function listen(port: number): Promise<number> {
    server.listen(port, LOOPBACK)
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }

  function endAll(end: (socket: Socket) => void): void {
    for (const pair of pairs) {
      pairs.delete(pair)
      end(pair.worker)
      end(pair.backend)
    }
    changed()
  }

  /** At once: what the server waits for before it is closed is its open connections. */
  function shut(): void {
    if (server.listening) server.close()
  }

  const port = await listen(0)

  return {
    port,
    url: `http://${LOOPBACK}:${port}/`,
    attempts,
    get open() {
      return pairs.size
    },
    cut: () => endAll(socket => socket.destroy()),
    reset: () => endAll(socket => socket.resetAndDestroy()),
    halfClose(direction) {
      for (const { worker, backend } of pairs) (direction === 'up' ? backend : worker).end()
    },
    freeze(direction) {
      for (const lane of of(direction)) lane.frozen = true
    },
    thaw() {
      for (const lane of of(undefined)) lane.frozen = false
      changed()
    },
    strand() {
      for (const pair of pairs) pair.stranded = true
    },
    throttle(bytesPerSecond, direction) {
      for (const lane of of(direction)) lane.bytesPerSecond = bytesPerSecond
    },
    delay(ms, direction) {
      for (const lane of of(direction)) lane.delayMs = ms
    },
    shut,
    refuse(next) {
      refusing = next
    },
    async heal() {
      refusing = false
      for (const lane of of(undefined)) Object.assign(lane, newLane())
      changed()
      if (!server.listening) await listen(port)
    },
    async close() {
      const closed = server.listening ? once(server, 'close') : null
      shut()
      endAll(socket => socket.destroy())
      await closed
    },
  }
}

function newLane(): Lane {
  return { frozen: false, bytesPerSecond: null, delayMs: 0 }
}

/** A tenth of a second's worth each, so that a throttled stream trickles. */
function* parts(piece: Buffer, bytesPerSecond: number | null): Generator<Buffer> {
  const size = bytesPerSecond === null ? piece.length : Math.max(1, Math.ceil(bytesPerSecond / 10))
  for (let from = 0; from < piece.length; from += size) yield piece.subarray(from, from + size)
}
