import { isIP } from 'node:net'
import { z } from 'zod'
import { hostOf } from './address-policy.js'
import { ACCEPT_ENCODING, readBody } from './body.js'
import { addressesOf } from './fetch-page.js'
import { httpGet } from './http-get.js'
import { PageError } from './page-error.js'
import type { SearchProvider } from './web-config.js'

const ANSWER_BYTES_MAX = 2 * 1024 * 1024
const SEARCH_MS = 12_000
const URL_CHARS_MAX = 2_048
const TITLE_CHARS_MAX = 300
const DESCRIPTION_CHARS_MAX = 1_000

export interface SearchHit {
  readonly url: string
  readonly title: string
  readonly description: string
}

/** One hit, under the names that the known providers give to its parts. */
const hit = z.object({
  url: z.string().max(URL_CHARS_MAX),
  title: z.string().catch(''),
  description: z.string().optional().catch(undefined),
  content: z.string().optional().catch(undefined),
  snippet: z.string().optional().catch(undefined),
})

const hits = z.array(z.unknown())

/** SearXNG, Brave and what we answer ourselves; in this order. */
const answers = z.union([
  z.object({ results: hits }).transform(({ results }) => results),
  z.object({ web: z.object({ results: hits }) }).transform(({ web }) => web.results),
  z.object({ data: z.object({ web: hits }) }).transform(({ data }) => data.web),
])

/**
 * Asks the configured provider. It is the operator's choice, so may have any address, and is asked from the worker itself: its key
 * never enters the process that reads pages. No redirect is followed: the key is for this host. Errors: PageError, and those that
 * `wordsFor` has words for.
 */
export async function searchWeb(
  provider: SearchProvider,
  query: string,
  limit: number,
  signal: AbortSignal,
): Promise<SearchHit[]> {
  const timeout = new PageError(`the search provider did not answer within ${SEARCH_MS / 1_000} s`)
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(timeout), SEARCH_MS)
  const ended = () => controller.abort(new PageError('the run is over'))
  signal.addEventListener('abort', ended, { once: true })
  if (signal.aborted) ended()
  try {
    return hitsOf(await ask(provider, query, limit, controller.signal), limit)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', ended)
  }
}

async function ask(provider: SearchProvider, query: string, limit: number, signal: AbortSignal): Promise<unknown> {
  const url = searchUrl(provider.url, query, limit)
  const host = hostOf(url)
  const addresses = isIP(host) === 0 ? await addressesOf(host, signal) : [host]
  const headers = { accept: 'application/json', 'accept-encoding': ACCEPT_ENCODING, ...headerOf(provider) }
  const message = await httpGet(url, addresses, { headers, signal })
  const status = message.statusCode ?? 0
  if (status !== 200) {
    message.destroy()
    throw new PageError(`the search provider answered ${status}`)
  }
  const body = await readBody(message, ANSWER_BYTES_MAX, signal)
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new PageError('the search provider did not answer in JSON')
  }
}

/** `{query}` and `{limit}` in the template, anywhere in it; without `{query}`, as SearXNG is asked. */
function searchUrl(template: string, query: string, limit: number): URL {
  if (!template.includes('{query}')) {
    const url = new URL(template)
    url.searchParams.set('q', query)
    url.searchParams.set('format', 'json')
    return url
  }
  const text = encodeURIComponent(query.toWellFormed())
  return new URL(template.replaceAll('{limit}', String(limit)).replaceAll('{query}', () => text))
}

function headerOf({ key }: SearchProvider): Record<string, string> {
  return key === null ? {} : { [key.header]: key.value }
}

function hitsOf(answer: unknown, limit: number): SearchHit[] {
  const list = answers.safeParse(answer)
  if (!list.success) throw new PageError('the search provider answered something else than a list of results')
  const found: SearchHit[] = []
  for (const item of list.data) {
    const parsed = hit.safeParse(item)
    if (!parsed.success || !/^https?:\/\//i.test(parsed.data.url)) continue
    const { url, title, description, content, snippet } = parsed.data
    const words = description ?? content ?? snippet ?? ''
    found.push({
      url: url.toWellFormed(),
      title: title.slice(0, TITLE_CHARS_MAX).toWellFormed(),
      description: words.slice(0, DESCRIPTION_CHARS_MAX).toWellFormed(),
    })
    if (found.length === limit) break
  }
  return found
}
