import { createServer as createRawServer } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import zlib from 'node:zlib'
import { afterEach, describe, expect, test } from 'vitest'
import { fetchPage, type Resolve } from '../../../src/toolbox/web/fetch-page.js'
import { PageError, wordsFor } from '../../../src/toolbox/web/page-error.js'
import { listening, serve, type WebServer } from './support/server.js'

const MIB = 1024 * 1024
const servers: WebServer[] = []

afterEach(async () => {
  await Promise.all(servers.splice(0).map(server => server.close()))
})

async function started(server: Promise<WebServer>): Promise<WebServer> {
  servers.push(await server)
  return await server
}

interface Given {
  readonly exempt?: readonly string[]
  readonly resolve?: Resolve
  readonly ms?: number
}

/** The page, or the words for why there is none. */
async function get(url: string, { exempt = servers.map(({ pair }) => pair), resolve, ms = 10_000 }: Given = {}) {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(new PageError('too late')), ms)
  try {
    const policy = { ports: [80, 443], deniedNetworks: [], exempt }
    const options = { policy, bodyBytesMax: 5 * MIB, signal: controller.signal }
    return await fetchPage(url, resolve === undefined ? options : { ...options, resolve })
  } catch (error) {
    return wordsFor(error)
  } finally {
    clearTimeout(timer)
  }
}

describe('the connection goes to the address that was checked', () => {
  test('a name is looked up once, so that a second answer can not lead elsewhere (DNS rebinding)', async () => {
    const good = await started(serve((_, response) => response.end('good')))
    await started(serve((_, response) => response.end('evil'), { address: '127.0.0.2', port: good.port }))
    const asked: string[] = []
    const resolve: Resolve = async host => {
      asked.push(host)
      return asked.length === 1 ? ['127.0.0.1'] : ['127.0.0.2']
    }
    const page = await get(`http://rebind.test:${good.port}/`, { exempt: [good.pair], resolve })
    expect(page).toMatchObject({ text: 'good' })
    expect(asked).toEqual(['rebind.test'])
    expect(good.hosts).toEqual([`rebind.test:${good.port}`])
  })

  test('a redirect to the same name is looked up and checked again', async () => {
    const server = await started(serve((_, response) => response.writeHead(302, { location: '/again' }).end()))
    let asked = 0
    const resolve: Resolve = async () => (++asked === 1 ? ['127.0.0.1'] : ['10.0.0.1'])
    const words = await get(`http://rebind.test:${server.port}/`, { exempt: [server.pair], resolve })
    expect(words).toBe('the host is not on the public internet')
    expect(server.hosts).toHaveLength(1)
  })

  test('one private address among public ones spoils the host', async () => {
    const server = await started(serve((_, response) => response.end('x')))
    const words = await get(`http://mixed.test:${server.port}/`, { resolve: async () => ['127.0.0.1', '192.168.0.1'] })
    expect(words).toBe('the host is not on the public internet')
    expect(server.hosts).toEqual([])
  })

  test('loopback is refused where nothing is exempt, by address and by name', async () => {
    const server = await started(serve((_, response) => response.end('x')))
    for (const host of ['127.0.0.1', '[::ffff:127.0.0.1]', '2130706433']) {
      const elsewhere = { exempt: [`127.0.0.9:${server.port}`] }
      expect(await get(`http://${host}:${server.port}/`, elsewhere)).toBe('the host is not on the public internet')
    }
    expect(await get('http://localhost/')).toBe('the host is not on the public internet')
    expect(await get('http://localhost./')).toMatch(/not on the public internet|no host of this name|looked up/)
    expect(server.hosts).toEqual([])
  })

  test('the second address is tried where the first takes no connection', async () => {
    const server = await started(serve((_, response) => response.end('second')))
    const exempt = [server.pair, `127.0.0.3:${server.port}`]
    const resolve = async () => ['127.0.0.3', '127.0.0.1']
    expect(await get(`http://two.test:${server.port}/`, { exempt, resolve })).toMatchObject({ text: 'second' })
  })

  test('TLS asks for the name, not for the address', async () => {
    const names: string[] = []
    const tls = createTlsServer({
      SNICallback: (name, done) => {
        names.push(name)
        done(new Error('no certificate'))
      },
    })
    tls.on('tlsClientError', () => {})
    const server = await started(listening(tls, '127.0.0.1', 0))
    const words = await get(`https://secure.test:${server.port}/`, { resolve: async () => ['127.0.0.1'] })
    expect(names).toEqual(['secure.test'])
    expect(words).toMatch(/did not answer in TLS|closed the connection/)
  })

  test('variables that name a proxy change nothing', async () => {
    const server = await started(serve((_, response) => response.end('direct')))
    const before = process.env['http_proxy']
    process.env['http_proxy'] = 'http://127.0.0.1:1/'
    try {
      expect(await get(server.url('/'))).toMatchObject({ text: 'direct' })
    } finally {
      if (before === undefined) delete process.env['http_proxy']
      else process.env['http_proxy'] = before
    }
  })
})

describe('redirects', () => {
  const to = (location: string, status = 302) =>
    started(serve((_, response) => response.writeHead(status, { location }).end()))

  test.each([
    ['to a private address', 'http://192.168.1.1/', 'the host is not on the public internet'],
    ['to the metadata service', 'http://169.254.169.254/latest/meta-data/', 'the host is not on the public internet'],
    ['to a decimal loopback', 'http://2130706433/', 'the host is not on the public internet'],
    ['without a scheme, to loopback', '//127.0.0.1/', 'the host is not on the public internet'],
    ['to a file', 'file:///etc/passwd', 'only http and https addresses can be read'],
    ['to credentials', 'http://a:b@example.com/', 'an address with a user name or password in it is not read'],
    ['to another port', 'http://127.0.0.1:6379/', 'port 6379 is not allowed, only 80, 443'],
    ['to nonsense', 'http://[', 'this is no address of a page: give a URL such as https://example.com/'],
  ])('%s are refused', async (_, location, words) => {
    const server = await to(location)
    expect(await get(server.url('/'))).toBe(words)
  })

  test('are followed five times, and the page knows where it was found', async () => {
    const server = await started(
      serve((request, response) => {
        const n = Number(request.url?.slice(1))
        if (n === 0) response.end('here')
        else response.writeHead([301, 302, 303, 307, 308][n % 5] ?? 302, { location: `${n - 1}` }).end()
      }),
    )
    expect(await get(server.url('/5'))).toMatchObject({ url: server.url('/0'), text: 'here' })
    expect(await get(server.url('/6'))).toBe('the page redirects more than 5 times')
  })
})

describe('what a server sends is bounded', () => {
  const bomb = Buffer.alloc(64 * MIB)
  test.each([
    ['gzip', zlib.gzipSync(bomb)],
    ['deflate', zlib.deflateSync(bomb)],
    ['br', zlib.brotliCompressSync(bomb, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } })],
    ['gzip, gzip', zlib.gzipSync(zlib.gzipSync(bomb))],
  ])('a bomb of %s', async (encoding, body) => {
    const server = await started(
      serve((_, response) => response.writeHead(200, { 'content-encoding': encoding }).end(body)),
    )
    expect(body.length).toBeLessThan(MIB)
    const before = process.memoryUsage().arrayBuffers
    expect(await get(server.url('/'))).toBe('the page is larger than 5 MiB')
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(40 * MIB)
  })

  test('compressed ten times over', async () => {
    const server = await started(
      serve((_, response) => response.writeHead(200, { 'content-encoding': Array(10).fill('gzip').join() }).end('x')),
    )
    expect(await get(server.url('/'))).toBe('the answer is compressed too many times over')
  })

  test('an endless body', async () => {
    let ended = false
    const server = await started(
      serve((_, response) => {
        const chunk = Buffer.alloc(256 * 1024, 'a')
        const more = () => {
          while (!response.destroyed && response.write(chunk));
        }
        response.on('drain', more).on('close', () => {
          ended = true
        })
        more()
      }),
    )
    expect(await get(server.url('/'))).toBe('the page is larger than 5 MiB')
    await expect.poll(() => ended, { timeout: 5_000 }).toBe(true)
  })

  test('a body that says it has 100 MB is not even begun', async () => {
    const server = await started(
      serve((_, response) => response.writeHead(200, { 'content-length': 100_000_000 }).write('x')),
    )
    expect(await get(server.url('/'))).toBe('the page is larger than 5 MiB')
  })

  test.each([
    ['a body that comes one byte at a time', 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n', 'x'],
    ['headers that come one byte at a time', 'HTTP/1.1 200 OK\r\nx: ', 'x'],
    ['interim answers without end', '', 'HTTP/1.1 102 Processing\r\n\r\n'],
    ['no answer at all', '', ''],
  ])('%s', async (_, first, then) => {
    const raw = createRawServer(socket => {
      socket.write(first)
      const timer = setInterval(() => socket.write(then), 20)
      socket.on('close', () => clearInterval(timer))
    })
    await started(listening(raw, '127.0.0.1', 0))
    expect(await get(servers[0]?.url('/') ?? '', { ms: 500 })).toBe('too late')
  })

  test('headers of more than 16 KiB', async () => {
    const server = await started(serve((_, response) => response.writeHead(200, { x: 'y'.repeat(20_000) }).end()))
    expect(await get(server.url('/'))).toBe('the headers of the answer are larger than 16 KiB')
  })

  test('a look-up that never ends is left alone', async () => {
    expect(await get('http://slow.test/', { ms: 200, resolve: () => new Promise(() => {}) })).toBe('too late')
  })
})

describe('what can not be read has words', () => {
  test.each([
    ['a missing page', 404, {}, 'x', 'the server answered 404 Not Found'],
    ['a broken server', 500, {}, 'x', 'the server answered 500 Internal Server Error'],
    ['a redirect to nowhere', 302, {}, '', 'the server answered 302 Found'],
    ['a PDF', 200, { 'content-type': 'application/pdf' }, '%PDF-1.7', 'this is a PDF, which can not be read here'],
    ['a PDF that hides', 200, { 'content-type': 'text/html' }, '%PDF-1.7', 'this is a PDF, which can not be read here'],
    ['an image', 200, { 'content-type': 'image/png' }, 'x', 'this is an image, not a text'],
    ['binary data', 200, { 'content-type': 'text/html' }, 'a\0b', 'this is binary data, not a text'],
    ['an archive', 200, { 'content-type': 'application/zip' }, 'PK', 'this is not a text'],
    ['a false gzip', 200, { 'content-encoding': 'gzip' }, 'no gzip', 'the answer can not be decompressed'],
    ['an unknown compression', 200, { 'content-encoding': 'lzma' }, 'x', 'the answer is compressed in a way that'],
  ])('%s', async (_, status, headers, body, words) => {
    const server = await started(serve((_, response) => response.writeHead(status, headers).end(body)))
    const got = await get(server.url('/'))
    expect(got).toBeTypeOf('string')
    expect(String(got).startsWith(words)).toBe(true)
  })

  test('something else than HTTP, a closed port, a name that does not exist, a connection that breaks', async () => {
    const ssh = await started(
      listening(
        createRawServer(socket => socket.end('SSH-2.0-x\r\n')),
        '127.0.0.1',
        0,
      ),
    )
    expect(await get(ssh.url('/'))).toBe('the server did not answer in HTTP')
    const cut = await started(
      serve((_, response) => {
        response.writeHead(200, { 'content-length': 100 }).write('half')
        setTimeout(() => response.destroy(), 50)
      }),
    )
    expect(await get(cut.url('/'))).toBe('the server closed the connection before the answer was complete')
    const missing = async () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' }))
    expect(await get('http://none.test/', { resolve: missing })).toBe('there is no host of this name')
    const { pair } = ssh
    await servers.splice(0, 1)[0]?.close()
    expect(await get(ssh.url('/'), { exempt: [pair] })).toBe('the connection was refused')
  })
})

describe('text', () => {
  const utf16 = Buffer.from('\ufeffnaïve', 'utf16le')
  test.each([
    ['the charset of the header', 'text/plain; charset=iso-8859-1', Buffer.from('naïve', 'latin1'), 'naïve'],
    ['the charset of a meta element', 'text/html', Buffer.from('<meta charset=windows-1252>naïve', 'latin1'), 'naïve'],
    ['the mark of UTF-16', 'text/plain', utf16, 'naïve'],
    ['a charset that nobody knows', 'text/plain; charset=klingon', Buffer.from('naïve'), 'naïve'],
    ['a meta element that lies about UTF-16', 'text/html', Buffer.from('<meta charset="utf-16">naïve'), 'naïve'],
    ['no charset, not UTF-8', 'text/plain', Buffer.from('naïve', 'latin1'), 'naïve'],
    ['UTF-8 that is not', 'text/plain; charset=utf-8', Buffer.from('na\xefve', 'latin1'), 'na\ufffdve'],
    ['Shift_JIS', 'text/html; charset=shift_jis', Buffer.from([0x93, 0xfa, 0x96, 0x7b]), '日本'],
  ])('is read by %s', async (_, type, body, text) => {
    const server = await started(serve((_, response) => response.writeHead(200, { 'content-type': type }).end(body)))
    const page = await get(server.url('/'))
    expect(page).toMatchObject({ text: expect.stringContaining(text) })
  })

  test.each([
    ['gzip', zlib.gzipSync('hello')],
    ['deflate', zlib.deflateSync('hello')],
    ['br', zlib.brotliCompressSync('hello')],
    ['br, gzip', zlib.gzipSync(zlib.brotliCompressSync('hello'))],
    ['identity', Buffer.from('hello')],
    ['gzip', zlib.gzipSync('hello').subarray(0, -8)],
  ])('is decompressed from %s', async (encoding, body) => {
    const headers = { 'content-encoding': encoding, 'content-type': 'text/plain' }
    const server = await started(serve((_, response) => response.writeHead(200, headers).end(body)))
    expect(await get(server.url('/'))).toMatchObject({ text: 'hello', kind: 'text' })
  })
})
