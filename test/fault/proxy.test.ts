import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../backend/support/servers.js'
import { startProxy, type WireProxy } from './support/proxy.js'

/** One end of a connection, and what came over it. */
interface End {
  readonly socket: Socket
  text: string
  /** How it ended: 'fin', an error's code, or null while it is open for reading. */
  ended: string | null
}

let server: Server
let proxy: WireProxy
let served: End[] = []
let clients: End[] = []

function watch(socket: Socket): End {
  const end: End = { socket, text: '', ended: null }
  socket.setEncoding('utf8').on('data', (text: string) => {
    end.text += text
  })
  socket.on('end', () => {
    end.ended ??= 'fin'
  })
  socket.on('error', error => {
    end.ended = (error as NodeJS.ErrnoException).code ?? 'error'
  })
  socket.on('close', () => {
    end.ended ??= 'closed'
  })
  return end
}

beforeEach(async () => {
  served = []
  clients = []
  server = createServer({ allowHalfOpen: true }, socket => served.push(watch(socket)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  proxy = await startProxy((server.address() as AddressInfo).port)
})

afterEach(async () => {
  await proxy.close()
  for (const { socket } of [...served, ...clients]) socket.destroy()
  server.close()
  await once(server, 'close')
})

async function open(): Promise<{ client: End; backend: End }> {
  const before = served.length
  const client = watch(connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true }))
  clients.push(client)
  client.socket.write('hello')
  await until(() => served[before]?.text === 'hello')
  const backend = served[before]
  if (backend === undefined) throw new Error('nothing was connected')
  return { client, backend }
}

describe('the proxy', () => {
  it('passes on what both sides say, and each FIN in its own direction', async () => {
    const { client, backend } = await open()
    backend.socket.write('welcome')
    await until(() => client.text === 'welcome')
    client.socket.end('bye')
    await until(() => backend.text === 'hellobye' && backend.ended === 'fin')
    backend.socket.end('at last')
    await until(() => client.text === 'welcomeat last' && client.ended === 'fin')
    await until(() => proxy.open === 0)
  })

  it('passes a megabyte to a slow reader whole', async () => {
    const { client, backend } = await open()
    client.socket.pause()
    backend.socket.write('x'.repeat(1_000_000))
    await sleep(50)
    client.socket.resume()
    await until(() => client.text.length === 1_000_000)
  })

  it('counts each connection with its time', async () => {
    const from = performance.now()
    await open()
    await open()
    expect(proxy.attempts).toHaveLength(2)
    expect(proxy.attempts.every(at => at >= from && at <= performance.now())).toBe(true)
    expect(proxy.open).toBe(2)
  })

  it('cuts: both sides read the end, and new connections work', async () => {
    const { client, backend } = await open()
    proxy.cut()
    await until(() => client.ended === 'fin' && backend.ended === 'fin')
    await open()
  })

  it('resets: both sides get a RST', async () => {
    const { client, backend } = await open()
    proxy.reset()
    await until(() => client.ended === 'ECONNRESET' && backend.ended === 'ECONNRESET')
  })

  it.each(['up', 'down'] as const)('closes half of it: a FIN goes %s, the other direction lives', async direction => {
    const { client, backend } = await open()
    proxy.halfClose(direction)
    const [told, other] = direction === 'up' ? [backend, client] : [client, backend]
    await until(() => told.ended === 'fin')
    expect(other.ended).toBe(null)
    told.socket.write('still here')
    await until(() => other.text.endsWith('still here'))
  })

  it('freezes: nothing passes, nobody is told, and all of it comes after the thaw', async () => {
    const { client, backend } = await open()
    proxy.freeze()
    client.socket.write(' up')
    backend.socket.end('down')
    const late = watch(connect({ port: proxy.port, host: '127.0.0.1' }))
    clients.push(late)
    late.socket.write('late')
    await until(() => proxy.attempts.length === 2)
    await sleep(50)
    expect([backend.text, client.text, client.ended, late.ended]).toEqual(['hello', '', null, null])
    expect(served.every(end => end.text !== 'late')).toBe(true)
    proxy.thaw()
    await until(() => backend.text === 'hello up' && client.text === 'down' && client.ended === 'fin')
    await until(() => served.some(end => end.text === 'late'))
  })

  it('freezes one direction alone', async () => {
    const { client, backend } = await open()
    proxy.freeze('down')
    client.socket.write(' again')
    backend.socket.write('not seen')
    await until(() => backend.text === 'hello again')
    expect(client.text).toBe('')
  })

  it('strands what is open, while new connections work', async () => {
    const { client, backend } = await open()
    proxy.strand()
    client.socket.write(' lost')
    backend.socket.destroy()
    await open()
    await sleep(50)
    expect([backend.text, client.ended]).toEqual(['hello', null])
    client.socket.destroy()
    await until(() => proxy.open === 1)
  })

  it('throttles to so many bytes a second', async () => {
    const { client, backend } = await open()
    proxy.throttle(20_000, 'down')
    const from = performance.now()
    backend.socket.write('x'.repeat(10_000))
    await until(() => client.text.length === 10_000)
    expect(performance.now() - from).toBeGreaterThan(400)
  })

  it('delays each piece', async () => {
    const { client, backend } = await open()
    proxy.delay(100, 'up')
    const from = performance.now()
    client.socket.write('!')
    await until(() => backend.text === 'hello!')
    expect(performance.now() - from).toBeGreaterThan(90)
  })

  it('shut it refuses connections and leaves what is open; healed it takes them at the same port', async () => {
    const { client, backend } = await open()
    proxy.shut()
    const refused = watch(connect({ port: proxy.port, host: '127.0.0.1' }))
    clients.push(refused)
    await until(() => refused.ended === 'ECONNREFUSED')
    client.socket.write('!')
    await until(() => backend.text === 'hello!')
    await proxy.heal()
    await open()
  })

  it('told to refuse it resets what comes, and counts it', async () => {
    proxy.refuse(true)
    const refused = watch(connect({ port: proxy.port, host: '127.0.0.1' }))
    clients.push(refused)
    await until(() => refused.ended === 'ECONNRESET')
    expect(proxy.attempts).toHaveLength(1)
    await proxy.heal()
    await open()
  })

  it('hangs up on a worker whose backend does not listen', async () => {
    server.close()
    await once(server, 'close')
    const client = watch(connect({ port: proxy.port, host: '127.0.0.1' }))
    clients.push(client)
    await until(() => client.ended !== null)
    server.listen(0, '127.0.0.1') // for afterEach
    await once(server, 'listening')
  })
})
