import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Channel } from '../../../src/sandbox/channel.js'
import { FRAME, packFrame, packJson } from '../../../src/sandbox/frames.js'
import { Listener } from '../../../src/sandbox/listener.js'

let folder: string
let socketPath: string
let listener: Listener
const clients: net.Socket[] = []

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'l-'))
  socketPath = join(folder, 'w.sock')
  listener = await Listener.open(socketPath)
})

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  await listener.close()
  rmSync(folder, { recursive: true, force: true })
})

async function connect(...bytes: Buffer[]): Promise<net.Socket> {
  const client = net.connect(socketPath)
  client.on('error', () => {})
  clients.push(client)
  await once(client, 'connect')
  for (const piece of bytes) client.write(piece)
  return client
}

/** The next connection that proves itself with a fresh token. */
function expectation(): { token: string; connected: Promise<Channel>; calls: () => number } {
  let calls = 0
  let settle: (channel: Channel) => void = () => {}
  const connected = new Promise<Channel>(resolve => {
    settle = resolve
  })
  const token = listener.expect(channel => {
    calls++
    settle(channel)
  })
  return { token, connected, calls: () => calls }
}

const hello = (token: string) => packJson({ role: 'warden', token })
const closed = (client: net.Socket) => once(client.resume(), 'close')

it('hands over a connection that shows a token', async () => {
  const { token, connected } = expectation()
  const client = await connect(hello(token))
  const channel = await connected
  channel.sendJsonAnd({}, FRAME.code, Buffer.from('x'))
  const [data] = await once(client, 'data')
  expect(data).toEqual(Buffer.concat([packJson({}), packFrame(FRAME.code, Buffer.from('x'))]))
})

it('loses nothing that is sent right behind the token', async () => {
  const heard: string[] = []
  const token = listener.expect(channel => {
    channel.listen(
      frame => heard.push(frame.payload.toString()),
      () => {},
    )
  })
  const client = await connect(Buffer.concat([hello(token), packFrame(FRAME.stdout, Buffer.from('first'))]))
  client.end()
  await closed(client)
  expect(heard).toEqual(['first'])
})

it('closes a connection with a wrong token and keeps the right one valid', async () => {
  const { token, connected } = expectation()
  await closed(await connect(hello('wrong')))
  await connect(hello(token))
  expect(await connected).toBeDefined()
})

it('takes a token once', async () => {
  const { token, connected, calls } = expectation()
  await connect(hello(token))
  await connected
  await closed(await connect(hello(token)))
  expect(calls()).toBe(1)
})

it('does not take a token that was given up', async () => {
  const { token, calls } = expectation()
  listener.forget(token)
  await closed(await connect(hello(token)))
  expect(calls()).toBe(0)
})

it.each([
  ['bytes that are no frame', Buffer.alloc(64, 0xff)],
  ['a frame that is no JSON', packFrame(FRAME.json, Buffer.from('{"role":'))],
  ['JSON of another shape', packJson(['warden'])],
  ['an unknown role', packJson({ role: 'guest', token: 'x' })],
])('closes a connection that sends %s', async (_, bytes) => {
  await closed(await connect(bytes))
})

it('closes a connection that stays silent', async () => {
  await listener.close()
  listener = await Listener.open(socketPath, 50)
  await closed(await connect())
})

it('leaves a connection that has proved itself alone, however long it is silent', async () => {
  await listener.close()
  listener = await Listener.open(socketPath, 50)
  const { token, connected } = expectation()
  const client = await connect(hello(token))
  await connected
  await new Promise(resolve => setTimeout(resolve, 150))
  expect(client.closed).toBe(false)
})

it('makes tokens that nobody guesses', () => {
  const tokens = Array.from({ length: 100 }, () => listener.expect(() => {}))
  expect(new Set(tokens).size).toBe(100)
  expect(tokens.every(token => Buffer.from(token, 'base64url').length >= 16)).toBe(true)
})
