import type { Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type DeltaStreamOptions, openDeltaStream } from '../../src/backend/delta.js'
import { CUT_NOTE, createDeltaText } from '../../src/backend/delta-text.js'
import { captureLog, sampleCall } from './support/fixtures.js'
import { rawServer } from './support/raw-server.js'
import { startWs, type TestWsServer, until } from './support/servers.js'

let cleanup: (() => unknown)[] = []

afterEach(async () => {
  for (const close of cleanup) await close()
  cleanup = []
})

async function serve(...args: Parameters<typeof startWs>): Promise<TestWsServer> {
  const server = await startWs(...args)
  cleanup.push(server.close)
  return server
}

function open(url: string, options: Partial<DeltaStreamOptions> = {}) {
  const stream = openDeltaStream({ url, call: sampleCall(), maxBytes: 256 * 1024, log: captureLog().log, ...options })
  cleanup.push(() => stream.end())
  return stream
}

function textsOf(server: TestWsServer): string[] {
  return server.received.map(frame => (frame['delta'] as { ftm_content: string }).ftm_content)
}

const nothing = () => {}
const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

describe('a delta stream', () => {
  it('connects only when there is text', async () => {
    const server = await serve(nothing)
    const stream = open(server.url)
    await stream.end()
    await pause(30)
    expect(server.connections).toBe(0)
  })

  it('sends the first text at once, with the coordinates of the result', async () => {
    const server = await serve(nothing)
    open(server.url, { maxMessagesPerSecond: 0.01 }).push('hello')
    await until(() => server.received.length === 1)
    expect(server.received[0]).toMatchObject({ ftm_num: 4, delta: { ftm_content: 'hello', ftm_call_id: 'c1' } })
  })

  it('gathers what comes quickly, and loses none of it', async () => {
    const server = await serve(nothing)
    const stream = open(server.url)
    let pushed = ''
    const startedMs = performance.now()
    for (let line = 0; line < 200; line += 1) {
      stream.push(`line ${line}\n`)
      pushed += `line ${line}\n`
      if (line % 20 === 0) await pause(20)
    }
    await stream.end()
    const seconds = (performance.now() - startedMs) / 1_000
    expect(textsOf(server).join('')).toBe(pushed)
    expect(server.received.length).toBeGreaterThan(1)
    // One at once, 20 in each second, and the last one.
    expect(server.received.length).toBeLessThanOrEqual(seconds * 20 + 2)
  })

  it('sends text that comes slowly as it comes', async () => {
    const server = await serve(nothing)
    const stream = open(server.url, { maxMessagesPerSecond: 100 })
    for (const text of ['a', 'b', 'c']) {
      stream.push(text)
      await until(() => textsOf(server).join('').endsWith(text))
    }
    expect(textsOf(server)).toEqual(['a', 'b', 'c'])
  })

  it('has delivered everything when its end resolves, also of a call that ended before it was connected', async () => {
    const server = await serve(nothing)
    const stream = open(server.url)
    stream.push('short')
    await stream.end()
    expect(textsOf(server)).toEqual(['short'])
    expect(stream.stats).toEqual({ messages: 1, sentBytes: 5, droppedBytes: 0 })
  })

  it('sends no empty texts, and nothing after its end', async () => {
    const server = await serve(nothing)
    const stream = open(server.url)
    stream.push('')
    stream.push('a')
    await stream.end()
    stream.push('b')
    await stream.end()
    expect(textsOf(server)).toEqual(['a'])
  })

  it('sends no credentials', async () => {
    const headers: string[] = []
    const { url } = await listen(socket => socket.on('data', chunk => headers.push(String(chunk))))
    open(url, { endWaitMs: 30 }).push('a')
    await until(() => headers.length > 0)
    expect(headers.join('')).not.toMatch(/authorization|flexus/i)
  })

  it('with a cap of 0 opens nothing and sends nothing, not even the note', async () => {
    const server = await serve(nothing)
    const stream = open(server.url, { maxBytes: 0 })
    stream.push('hello')
    await stream.end()
    await pause(30)
    expect(server.connections).toBe(0)
    expect(stream.stats).toEqual({ messages: 0, sentBytes: 0, droppedBytes: 5 })
  })

  it('stops at its cap with one note', async () => {
    const server = await serve(nothing)
    const stream = open(server.url, { maxBytes: 10 })
    for (const text of ['12345', '6789é', 'more', 'and more']) stream.push(text)
    await stream.end()
    expect(textsOf(server).join('')).toBe(`123456789${CUT_NOTE}`)
    expect(stream.stats.droppedBytes).toBe(2 + 'moreand more'.length)
  })

  it('keeps little for a peer that does not read, and its end is not delayed', async () => {
    const server = await serve(nothing, { onConnect: socket => socket.pause() })
    const limits = { maxBytes: 1e9, maxPendingBytes: 1_000_000, maxUnreadBytes: 100_000, endWaitMs: 100 }
    const stream = open(server.url, { ...limits, maxMessagesPerSecond: 1_000 })
    stream.push('connected')
    await until(() => stream.stats.messages === 1)
    const chunk = 'x'.repeat(100_000)
    for (let n = 0; n < 400; n += 1) {
      stream.push(chunk.slice(n))
      await pause(1)
    }
    expect(stream.stats.droppedBytes).toBeGreaterThan(0)
    // Of 40 MB, what the kernel holds for both ends and little more.
    expect(stream.stats.sentBytes).toBeLessThan(20e6)
    const startedMs = performance.now()
    await stream.end()
    expect(performance.now() - startedMs).toBeLessThan(2_000)
  })

  it('without a server drops the text, and its end neither fails nor waits', async () => {
    const server = await startWs(nothing)
    await server.close()
    const stream = open(server.url, { endWaitMs: 20_000 })
    stream.push('lost')
    const startedMs = performance.now()
    await stream.end()
    expect(performance.now() - startedMs).toBeLessThan(5_000)
    expect(stream.stats).toEqual({ messages: 0, sentBytes: 0, droppedBytes: 4 })
  })

  it('with a server that never answers the upgrade ends in time', async () => {
    const { url } = await listen(nothing)
    const stream = open(url, { endWaitMs: 50 })
    stream.push('lost')
    await stream.end()
    expect(stream.stats.droppedBytes).toBe(4)
  })

  it('with an address that is none drops the text', async () => {
    const stream = open('nonsense')
    stream.push('lost')
    await stream.end()
    expect(stream.stats.droppedBytes).toBe(4)
  })

  it('connects once more when the connection breaks, and sends nothing twice', async () => {
    const server = await serve((_frame, socket) => socket.terminate())
    const stream = open(server.url, { reconnectAfterMs: 10, maxMessagesPerSecond: 1_000 })
    for (const text of ['a', 'b']) {
      stream.push(text)
      await until(() => textsOf(server).includes(text))
      await until(() => server.sockets.size === 0)
      await pause(50)
    }
    stream.push('c')
    await stream.end()
    expect(textsOf(server)).toEqual(['a', 'b'])
    expect(server.connections).toBe(2)
    expect(stream.stats.droppedBytes).toBe(1)
  })

  it('terminates a peer that answers no ping', async () => {
    let closed = false
    const server = await serve(nothing, {
      onConnect: socket => {
        socket.pause()
        socket.on('close', () => {
          closed = true
        })
      },
    })
    open(server.url, { pingEveryMs: 30, endWaitMs: 50 }).push('a')
    await until(() => server.connections === 1)
    await pause(150)
    for (const socket of server.sockets) socket.resume()
    await until(() => closed)
  })
})

describe('delta text', () => {
  it('never parts a character that came in halves', () => {
    const text = createDeltaText(1_000, 1_000)
    text.push('a\ud83d')
    expect(text.take()).toBe('a')
    text.push('\ude00b')
    expect(text.take()).toBe('😀b')
  })

  it('counts a character that came in halves once', () => {
    const text = createDeltaText(4, 1_000)
    text.push('\ud83d')
    text.push('\ude00')
    expect(text.take()).toBe('😀')
    expect(text.droppedBytes).toBe(0)
  })

  it('is well-formed even if the end of a character never comes', () => {
    const text = createDeltaText(1_000, 1_000)
    text.push('x\udc00y\ud83d')
    text.finish()
    expect(text.take()).toBe('x\ufffdy\ufffd')
  })

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8])('is cut at a character when its cap is %i bytes', cap => {
    const text = createDeltaText(cap, 1_000)
    const whole = 'aé😀z!'
    text.push(whole)
    const taken = text.take() ?? ''
    const head = taken.replace(CUT_NOTE, '')
    expect(whole.startsWith(head)).toBe(true)
    expect(head.isWellFormed()).toBe(true)
    expect(Buffer.byteLength(head)).toBeLessThanOrEqual(cap)
    expect(text.droppedBytes).toBe(9 - Buffer.byteLength(head))
  })
})

async function listen(onSocket: (socket: Socket) => void): Promise<{ url: string }> {
  const server = await rawServer(onSocket)
  cleanup.push(server.close)
  return server
}
