import { spawn } from 'node:child_process'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ToolFailure } from '../../../src/toolbox/tool-entry.js'
import { events, httpServer, isCall, json } from './support/http-server.js'
import { EVERYTHING, failure, open } from './support/sources.js'

const halfway = { random: () => 0.5 }
const PART = 'x'.repeat(1024 * 1024)

/** Writes 100 MB of an answer's text, as fast as it is taken; stops when the client goes. */
async function writeMuch(write: (text: string) => boolean, drained: () => Promise<void>, closed: () => boolean) {
  for (let i = 0; i < 100 && !closed(); i++) if (!write(PART)) await drained()
}

describe('server-everything over streamable HTTP', () => {
  async function start(port: number) {
    const child = spawn(process.execPath, [EVERYTHING, 'streamableHttp'], {
      env: { PATH: process.env['PATH'], PORT: String(port) },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const stop = () =>
      new Promise<void>(resolve => {
        if (child.exitCode !== null || child.signalCode !== null) return resolve()
        child.once('exit', () => resolve())
        child.kill('SIGKILL')
      })
    onTestFinished(stop)
    await new Promise<void>((resolve, reject) => {
      child.stderr.on('data', chunk => String(chunk).includes('listening on port') && resolve())
      child.once('exit', code => reject(new Error(`exit code ${code}`)))
    })
    return stop
  }

  test('its tools are listed and called; when it is gone they fail with words, and work again when it is back', async () => {
    const port = await freePort()
    let stop = await start(port)
    const { names, call, source, entries } = open({ url: `http://127.0.0.1:${port}/mcp` }, process.env, halfway)
    expect(await names()).toEqual(expect.arrayContaining(['echo', 'get-sum', 'get-structured-content']))
    expect(await call('echo', { message: 'über HTTP' })).toBe('Echo: über HTTP')
    expect(await call('get-structured-content', { location: 'Chicago' })).toMatchObject({ temperature: 36 })
    const sums = await Promise.all(Array.from({ length: 20 }, (_, i) => call('get-sum', { a: i, b: 1 })))
    expect(sums[19]).toBe('The sum of 19 and 1 is 20.')

    const echo = (await entries()).find(entry => entry.name === 'echo')
    await stop()
    const gone = await failure(
      Promise.resolve(echo?.call?.({ message: 'x' }, { signal: new AbortController().signal })),
    )
    expect(gone).toBeInstanceOf(ToolFailure)
    expect(gone.message).toContain("the tool server 'srv' can not be reached: ECONNREFUSED")
    await expect.poll(() => source.problem).toContain('it is connected again')
    stop = await start(port)
    await expect.poll(() => call('echo', { message: 'back' }).catch(() => ''), { timeout: 10_000 }).toBe('Echo: back')
  })
})

describe('over streamable HTTP', () => {
  test('headers come from the environment, the session and version are kept, and the session is ended', async () => {
    const { url, received } = await httpServer(() => false)
    const server = { type: 'http', url, headers: { Authorization: `Bearer \${TOKEN}` } }
    const { source, call } = open(server, { TOKEN: 'a-token-of-some-length' })
    expect(await call('do')).toBe('done')
    await source.close()
    expect(received.every(one => one.headers.authorization === 'Bearer a-token-of-some-length')).toBe(true)
    expect(received.find(isCall)?.headers).toMatchObject({
      'mcp-session-id': 'session-1',
      'mcp-protocol-version': '2025-06-18',
    })
    expect(received.at(-1)?.method).toBe('DELETE')
  })

  test.each(['application/json', 'text/event-stream'])('an answer of 100 MB (%s) fails its call', async type => {
    let sent = 0
    const { url } = await httpServer(async (one, response) => {
      if (!isCall(one) || one.message.params?.name !== 'do') return false
      response
        .on('error', () => {})
        .on('close', () => response.emit('drain'))
        .writeHead(200, { 'content-type': type })
      if (type !== 'application/json') response.write('event: message\ndata: ')
      response.write(`{"jsonrpc":"2.0","id":${one.message.id},"result":{"content":[{"type":"text","text":"`)
      await writeMuch(
        text => {
          sent += text.length
          return response.write(text)
        },
        () => new Promise(resolve => void response.once('drain', resolve)),
        () => response.destroyed,
      )
      response.end('"}]}}\n\n')
      return true
    })
    const { call } = open({ url })
    const error = await failure(call('do'))
    expect(error).toBeInstanceOf(ToolFailure)
    expect(error.message).toContain('gave a result of more than 16 MiB')
    expect(await call('other')).toBe('done')
    expect(sent).toBeLessThan(60 * 1024 * 1024) // the rest is not even read
  })

  test('a stream that ends before its answer fails the call at once; one with event ids is taken up again', async () => {
    const { url, received } = await httpServer((one, response) => {
      if (isCall(one)) {
        const named = one.message.params?.name === 'do'
        events(response).end(named ? ': hello\n\n' : `id: ${one.message.id}\ndata:\n\n`)
        return true
      }
      const resumed = one.headers['last-event-id']
      if (resumed === undefined) return false
      const result = { content: [{ type: 'text', text: 'later' }] }
      events(response).end(`data: ${JSON.stringify({ jsonrpc: '2.0', id: Number(resumed), result })}\n\n`)
      return true
    })
    const { call } = open({ url })
    expect((await failure(call('do'))).message).toContain('ended its answer before the result')
    expect(await call('other')).toBe('later')
    expect(received.filter(one => one.headers['last-event-id'] !== undefined)).toHaveLength(1)
  })

  test('a connection that breaks before the answer is not told as a server that was not reached', async () => {
    const { url, received, close } = await httpServer((one, response) => {
      if (!isCall(one)) return false
      if (one.message.params?.name === 'do') response.socket?.destroy()
      else response.socket?.end('no HTTP\r\n\r\n')
      return true
    })
    const { call } = open({ url })
    const mayHave = /broke off before it answered \(.+\), and may have done what it was asked/
    expect((await failure(call('do'))).message).toMatch(mayHave)
    expect((await failure(call('other'))).message).toMatch(mayHave)
    expect(received.filter(isCall)).toHaveLength(2)
    await close()
    expect((await failure(call('do'))).message).toContain('can not be reached: ECONNREFUSED')
  })

  test('a session that the server has forgotten is opened anew, and the call is sent once more', async () => {
    let forgotten = false
    const { url, received } = await httpServer((one, response) => {
      if (!isCall(one) || forgotten) return false
      forgotten = true
      response.writeHead(404).end()
      return true
    })
    const { call, source } = open({ url })
    expect(await call('do')).toBe('done')
    expect(source.problem).toBeNull()
    expect(received.filter(one => one.message.method === 'initialize')).toHaveLength(2)
  })

  test('refusals and redirects are told in words, without following', async () => {
    const { url, received } = await httpServer((one, response) => {
      if (!isCall(one)) return false
      if (one.message.params?.name === 'do') response.writeHead(503).end('down for\n maintenance')
      else response.writeHead(307, { location: '/mcp/?key=1' }).end()
      return true
    })
    const { call } = open({ url })
    expect((await failure(call('do'))).message).toBe("the tool server 'srv' answered HTTP 503: down for maintenance")
    expect((await failure(call('other'))).message).toContain('answers with a redirect, which is not followed')
    expect(received.filter(isCall)).toHaveLength(2)
    const refusing = await httpServer((_, response) => {
      response.writeHead(401).end('who are you?')
      return true
    })
    const refused = open({ url: refusing.url }, process.env, halfway)
    expect(await refused.names()).toEqual([])
    expect(refused.source.problem).toBe(
      "the tool server 'srv' answered HTTP 401: who are you?, it is connected again when it is used a little later",
    )
    // Where it leads is for operators, and without what may be a secret in it.
    const elsewhere = await httpServer((_, response) => {
      response.writeHead(307, { location: '/mcp/?key=1' }).end()
      return true
    })
    const led = open({ url: elsewhere.url }, process.env, halfway)
    expect(await led.names()).toEqual([])
    expect(led.source.problem).not.toContain('127.0.0.1')
    expect(led.lines).toContainEqual(
      expect.objectContaining({ detail: `a redirect to ${elsewhere.url}/: its configuration has to name that URL` }),
    )
  })

  test('a call that times out is cancelled and its request given up', async () => {
    let closed = false
    const { url, received } = await httpServer((one, response) => {
      if (!isCall(one)) return false
      response.on('close', () => {
        closed = true
      })
      return true // and never answers
    })
    const { call } = open({ url, timeoutMs: 500 })
    expect((await failure(call('do'))).message).toBe("the tool server 'srv' gave no answer within 0.5 s")
    await expect.poll(() => closed).toBe(true)
    await expect.poll(() => received.some(one => one.message.method === 'notifications/cancelled')).toBe(true)
  })

  test('a server that answers no ping is no longer used, and asked again after a pause', async () => {
    let silent = false
    const { url } = await httpServer(one => silent && one.method === 'POST')
    const { names, source } = open({ url, startTimeoutMs: 500 }, process.env, {
      ...halfway,
      pingEveryMs: 200,
      pingLimitMs: 300,
    })
    expect(await names()).toEqual(['do', 'other'])
    silent = true
    await expect.poll(() => source.problem, { timeout: 5_000 }).toContain('does not answer any more')
    silent = false
    await expect.poll(async () => (await names()) && source.problem, { timeout: 5_000 }).toBeNull()
  })

  test('large numbers of a schema are such as a validator takes', async () => {
    const inputSchema = { type: 'object', properties: { id: { type: 'integer', maximum: 2 ** 63 } } }
    const { url } = await httpServer((one, response) => {
      if (one.message.method !== 'tools/list') return false
      json(response, { id: one.message.id, result: { tools: [{ name: 'do', inputSchema }] } })
      return true
    })
    expect(await open({ url }).entries()).toMatchObject([{ parameters: inputSchema }])
  })

  test('changes of the list come on the stream that belongs to no request', async () => {
    let change = () => {}
    let tools = ['do']
    const { url } = await httpServer((one, response) => {
      if (one.method === 'GET') {
        events(response).write(': open\n\n')
        change = () => {
          tools = ['done']
          response.write('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\r\n\r\n')
        }
        return true
      }
      if (one.message.method !== 'tools/list') return false
      const result = { tools: tools.map(name => ({ name, inputSchema: {} })) }
      json(response, { id: one.message.id, result })
      return true
    })
    const { names } = open({ url })
    expect(await names()).toEqual(['do'])
    await expect.poll(() => change.name).toBe('change')
    change()
    await expect.poll(names, { timeout: 10_000 }).toEqual(['done'])
  })
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}
