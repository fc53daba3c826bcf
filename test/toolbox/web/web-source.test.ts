import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Json } from '../../../src/toolbox/tool-entry.js'
import type { PageLimits } from '../../../src/toolbox/web/page-messages.js'
import type { WebConfig } from '../../../src/toolbox/web/web-config.js'
import { createWebSource } from '../../../src/toolbox/web/web-source.js'
import { buildReader } from './support/page-reader.js'
import { serve, type WebServer } from './support/server.js'

const MIB = 1024 * 1024
const reader = buildReader()
let server: WebServer
const closing: (() => Promise<void>)[] = []
let logged: unknown[] = []

/** By path. */
const PAGES: Readonly<
  Record<string, { readonly type?: string; readonly body: string | Buffer; readonly status?: number }>
> = {
  '/article': {
    body: `<title>Hello</title><article><h1>Hello</h1>${'<p>Some <b>words</b>, in a sentence, of an article.</p>'.repeat(20)}</article>`,
  },
  '/text': { type: 'text/plain', body: 'plain' },
  '/json': { type: 'application/json', body: '{"a": 1}' },
  '/feed': { type: 'application/rss+xml', body: '<rss/>' },
  '/pdf': { type: 'application/pdf', body: '%PDF-1.4' },
  '/image': { type: 'image/png', body: 'x' },
  '/long': { type: 'text/plain', body: 'é'.repeat(500_000) },
  '/huge': { body: Buffer.alloc(100 * MIB, '<p>x</p>') },
  '/deep': { body: `<title>deep</title>${'<div>'.repeat(20_000)}bottom` },
  '/deepest': { body: `<title>deepest</title>${'<b>'.repeat(1_000_000)}bottom` },
  '/wide': { body: `<table>${'<tr><td>a<td>b'.repeat(30_000)}</table>end` },
  '/quadratic': { body: `<p>start ${'<a href=x><p>'.repeat(50_000)}` },
  '/empty': { body: '' },
}

beforeEach(async () => {
  logged = []
  server = await serve((request, response) => {
    if (request.url === '/hang') return
    const page = PAGES[request.url ?? '']
    response.writeHead(page?.status ?? (page === undefined ? 404 : 200), { 'content-type': page?.type ?? 'text/html' })
    response.end(page?.body ?? 'missing')
  })
  closing.push(server.close)
})
afterEach(async () => {
  await Promise.all(closing.splice(0).map(close => close()))
})
afterAll(() => reader.remove())

const CONFIG = { mode: 'allow', search: null, ports: [80], deniedNetworks: [] } as const

function source(config: Partial<WebConfig> = {}, limits: Partial<PageLimits> = {}) {
  const web = createWebSource({
    config: { ...CONFIG, ...config } as WebConfig & { mode: 'allow' },
    log: { warn: (...line: unknown[]) => void logged.push(line) } as never,
    limits: { wallMs: 60_000, fetchMs: 30_000, pageMs: 20_000, ...limits },
    exempt: [server.pair],
    entry: reader.entry,
  })
  closing.push(() => web.close())
  return web
}

interface Result {
  readonly url: string
  readonly title: string
  readonly content: string
  readonly error: string | null
}

async function call(web: ReturnType<typeof source>, tool: string, args: Record<string, Json>, signal?: AbortSignal) {
  const entry = (await web.tools(AbortSignal.timeout(1_000))).find(({ name }) => name === tool)
  return (await entry?.call?.(args, { signal: signal ?? new AbortController().signal }))?.value
}

async function extract(paths: readonly string[], more: Record<string, Json> = {}, web = source()) {
  const urls = paths.map(path => (path.startsWith('/') ? server.url(path) : path))
  const { results } = (await call(web, 'web_extract', { urls, ...more })) as unknown as { results: Result[] }
  expect(results.map(({ url }) => url)).toEqual(urls)
  return results
}

describe('web_extract', () => {
  test('gives pages as markdown and as text, and an error of its own to each that can not be read', async () => {
    const results = await extract([
      '/article',
      '/text',
      '/json',
      '/feed',
      '/missing',
      '/pdf',
      '/image',
      'http://10.0.0.1/',
      '/empty',
    ])
    expect(results[0]).toMatchObject({ title: 'Hello', error: null })
    expect(results[0]?.content).toContain('Some **words**, in a sentence')
    expect(results.map(({ error, content }) => error ?? content).slice(1)).toEqual([
      'plain',
      '{"a": 1}',
      '<rss/>',
      'the server answered 404 Not Found',
      'this is a PDF, which can not be read here; look for the text as a page',
      'this is an image, not a text',
      'the host is not on the public internet',
      '',
    ])
    expect(logged).toEqual([])
  })

  test('cuts content at char_limit, which has a default and a maximum', async () => {
    const web = source()
    for (const [limit, length] of [
      [undefined, 15_000],
      [1_000, 1_000],
      [1, 200],
      [10 ** 9, 200_000],
    ] as const) {
      const [result] = await extract(['/long'], limit === undefined ? {} : { char_limit: limit }, web)
      expect(result?.content.length).toBe(length)
      expect(result?.content).toMatch(/characters left out here/)
    }
  })

  test('is not brought down by 100 MB, nor by what nests without end', async () => {
    const results = await extract(['/huge', '/deep', '/deepest', '/wide', '/quadratic', '/text'], { char_limit: 1_000 })
    expect(results.map(({ error }) => error)).toEqual(['the page is larger than 5 MiB', null, null, null, null, null])
    expect(results[1]).toMatchObject({ title: 'deep' })
    expect(results[1]?.content).toContain('bottom')
    expect(results[2]).toMatchObject({ title: 'deepest', content: 'bottom' })
    expect(results[3]?.content).toContain('end')
    expect(logged).toEqual([])
  })

  test('keeps what arrived where other pages hang', async () => {
    const results = await extract(['/hang', '/text'], {}, source({}, { pageMs: 1_000 }))
    expect(results).toMatchObject([{ error: 'the page did not arrive within 1 s' }, { content: 'plain', error: null }])
  })

  test('keeps what arrived when its process has to be killed', async () => {
    const results = await extract(['/hang', '/text'], {}, source({}, { wallMs: 4_000 }))
    expect(results[0]?.error).toBe(
      'the pages of this call were not read within 4 s: ask for this page alone, or leave it out',
    )
    expect(results[1]).toMatchObject({ content: 'plain', error: null })
    expect(logged).toEqual([[{ why: 'time', pages: 2, read: 1 }, 'reading web pages ended early']])
  })

  test('serves many calls at once', async () => {
    const web = source()
    const all = await Promise.all(Array.from({ length: 8 }, () => extract(['/text'], {}, web)))
    expect(all.flat().map(({ content }) => content)).toEqual(Array(8).fill('plain'))
  })

  test('ends with its run, and with its worker', async () => {
    const web = source()
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 300)
    const args = { urls: [server.url('/hang')] }
    await expect(call(web, 'web_extract', args, controller.signal)).rejects.toThrow('the run is over')
    const hanging = call(web, 'web_extract', args)
    setTimeout(() => void web.close(), 300)
    await expect(hanging).rejects.toThrow('the run is over')
    await expect(call(web, 'web_extract', args)).rejects.toThrow('the run is over')
  })

  test.each([
    ['no urls', {}, 'urls has to be a list of 1 to 10 addresses'],
    ['an empty list', { urls: [] }, 'urls has to be a list of 1 to 10 addresses'],
    ['eleven', { urls: Array(11).fill('http://a.example/') }, 'urls has to be a list of 1 to 10 addresses'],
    ['numbers', { urls: [1] }, 'urls has to be a list of 1 to 10 addresses'],
    ['half a limit', { urls: ['x'], char_limit: 1.5 }, 'char_limit has to be a whole number'],
    ['more', { urls: ['x'], proxy: 'y' }, 'Unrecognized key: "proxy"'],
  ])('refuses %s', async (_, args, words) => {
    await expect(call(source(), 'web_extract', args)).rejects.toThrow(words)
  })
})

describe('the catalog', () => {
  test('has web_search only where a provider is configured', async () => {
    const names = async (web: ReturnType<typeof source>) =>
      (await web.tools(AbortSignal.timeout(1_000))).map(({ name, consent }) => `${name} ${consent}`)
    expect(await names(source())).toEqual(['web_extract free'])
    const search = { url: server.url('/search'), key: null }
    expect(await names(source({ mode: 'ask', search }))).toEqual(['web_extract ask', 'web_search ask'])
  })
})

describe('web_search', () => {
  const asked: { url: string; key: string | undefined }[] = []
  async function provider(body: string, { status = 200, path = '/search', key = false } = {}) {
    asked.length = 0
    const at = await serve((request, response) => {
      asked.push({ url: request.url ?? '', key: request.headers['x-key'] as string | undefined })
      response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end(body)
    })
    closing.push(at.close)
    const header = key ? { header: 'x-key', value: 'a-secret-of-ours' } : null
    return source({ search: { url: at.url(path), key: header } })
  }

  const hit = { url: 'https://a.example/', title: 'A', content: 'about a' }
  const found = { data: { web: [{ url: 'https://a.example/', title: 'A', description: 'about a' }] } }

  test.each([
    ['SearXNG', { query: 'x', results: [hit] }],
    ['Brave', { web: { results: [{ ...hit, description: 'about a' }] } }],
    ['our own shape', found],
  ])('understands what %s answers', async (_, answer) => {
    const web = await provider(JSON.stringify(answer), { key: true })
    expect(await call(web, 'web_search', { query: 'a & b' })).toEqual(found)
    expect(asked).toEqual([{ url: '/search?q=a+%26+b&format=json', key: 'a-secret-of-ours' }])
  })

  test('fills in a template', async () => {
    const web = await provider(JSON.stringify({ results: [] }), { path: '/api?count={limit}&text={query}' })
    expect(await call(web, 'web_search', { query: 'a&b {limit}', limit: 99 })).toEqual({ data: { web: [] } })
    expect(asked).toEqual([{ url: '/api?count=20&text=a%26b%20%7Blimit%7D', key: undefined }])
  })

  test('gives at most what was asked for, and leaves out what is no address of a page', async () => {
    const results = [
      { url: 'javascript:1' },
      { title: 'x' },
      null,
      ...Array(30).fill({ ...hit, title: 't'.repeat(999) }),
    ]
    const web = await provider(JSON.stringify({ results }))
    const { data } = (await call(web, 'web_search', { query: 'x', limit: 2 })) as never as typeof found
    expect(data.web.map(({ title }) => title.length)).toEqual([300, 300])
  })

  test.each([
    ['a refusal', 'x', 403, 'the search provider answered 403'],
    ['a redirect, which is not followed with the key', 'x', 302, 'the search provider answered 302'],
    ['HTML', '<html>', 200, 'the search provider did not answer in JSON'],
    ['another shape', '{"a":1}', 200, 'the search provider answered something else than a list of results'],
    ['too much', `"${'x'.repeat(3 * MIB)}"`, 200, 'larger than 2 MiB'],
  ])('has words for %s', async (_, body, status, words) => {
    const web = await provider(body, { status, key: true })
    await expect(call(web, 'web_search', { query: 'x' })).rejects.toThrow(words)
    expect(JSON.stringify(logged)).toContain('the search provider did not give results')
    expect(JSON.stringify(logged)).not.toContain('a-secret-of-ours')
  })

  test.each([[{}], [{ query: ' ' }], [{ query: 1 }], [{ query: 'x', limit: 0 }]])('refuses %j', async args => {
    await expect(call(await provider('{}'), 'web_search', args)).rejects.toThrow(/^(query|limit) /)
    expect(asked).toEqual([])
  })
})
