import { once } from 'node:events'
import net from 'node:net'
import { describe, expect, it } from 'vitest'
import { startHealthServer } from '../../../src/telemetry/health-server.js'

/** 5 s, the second in which node looks, and a busy machine. */
const WITHIN_MS = 12_000

/** With the test's own `onTestFinished`: these tests run side by side. */
async function server(onTestFinished: (end: () => void | Promise<void>) => void) {
  const started = await startHealthServer({ host: '127.0.0.1', port: 0, view: () => null })
  onTestFinished(() => started.close())
  const port = Number(new URL(started.url).port)
  const connect = async () => {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {})
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  return { url: started.url, connect }
}

/** Milliseconds until the server has closed it. */
async function lasted(socket: net.Socket): Promise<number> {
  const from = performance.now()
  if (!socket.closed) await once(socket, 'close')
  return performance.now() - from
}

const REQUEST = 'GET /livez HTTP/1.1\r\nHost: w\r\n\r\n'

describe.concurrent('a connection to the health server', () => {
  it('is closed within seconds when it sends nothing, never ends its request, or does not go on', async ({
    onTestFinished,
  }) => {
    const { connect } = await server(onTestFinished)
    const silent = await connect()
    const dribbling = await connect()
    dribbling.write('GET /livez HTTP/1.1\r\nHost: w\r\nX: ')
    const drops = setInterval(() => dribbling.write('x'), 200)
    onTestFinished(() => clearInterval(drops))
    const body = await connect()
    body.write('POST / HTTP/1.1\r\nHost: w\r\nContent-Length: 1000000\r\n\r\n')
    const bytes = setInterval(() => body.write('x'), 200)
    onTestFinished(() => clearInterval(bytes))
    const idle = await connect()
    idle.write(REQUEST)
    const all = [silent, dribbling, body, idle]
    for (const socket of all) socket.resume()
    const times = await Promise.all(all.map(lasted))
    expect(times.filter(ms => ms > WITHIN_MS)).toEqual([])
  })

  it('is closed within seconds when it asks again and again and reads nothing', async ({ onTestFinished }) => {
    const { connect } = await server(onTestFinished)
    const deaf = await connect()
    deaf.pause()
    // More answers than the kernel keeps for a peer that does not read.
    for (let n = 0; n < 400; n++) deaf.write(REQUEST.replace('/livez', '/').repeat(100))
    const from = performance.now()
    const asking = setInterval(() => deaf.write(REQUEST), 100)
    onTestFinished(() => clearInterval(asking))
    await new Promise(resolve => deaf.once('error', resolve).once('close', resolve))
    expect(performance.now() - from).toBeLessThan(2 * WITHIN_MS)
  })

  it('that is one of too many costs the oldest its place, and no probe', async ({ onTestFinished }) => {
    const { url, connect } = await server(onTestFinished)
    const sockets: net.Socket[] = []
    for (let n = 0; n < 200; n++) sockets.push((await connect()).resume())
    expect((await fetch(`${url}/livez`)).status).toBe(200)
    await expect.poll(() => sockets.filter(socket => !socket.closed).length, { timeout: 4_000 }).toBeLessThan(64)
    expect(sockets[0]?.closed).toBe(true)
  })
})
