import type { Logger } from 'pino'
import { z } from 'zod'
import { fairLimit } from '../fair-limit.js'
import {
  type Consent,
  type Json,
  type ToolCallContext,
  type ToolEntry,
  ToolFailure,
  type ToolSource,
} from '../tool-entry.js'
import { PageError, wordsFor } from './page-error.js'
import { PAGE_LIMITS, type PageJob, type PageLimits } from './page-messages.js'
import { BUILT_ENTRY, type PageProcessEnd, runPageJob, startPageProcess } from './page-process.js'
import { createSpareProcess, type SpareProcess } from './spare-process.js'
import type { SearchProvider, WebConfig } from './web-config.js'
import { searchWeb } from './web-search.js'

export interface WebSourceOptions {
  readonly config: WebConfig & { readonly mode: 'ask' | 'allow' }
  readonly log: Pick<Logger, 'warn'>
  /** Processes at once, each of some 100 MB and at most `limits.rssBytesMax`; calls beyond them wait, and runs take turns. Default: 4. */
  readonly processesMax?: number
  readonly limits?: Partial<PageLimits>
  /** For tests: exact pairs of address and port, as "127.0.0.1:8080", that are allowed although they are not public. */
  readonly exempt?: readonly string[]
  /** For tests: the built page-child.js. */
  readonly entry?: string
}

const URLS_MAX = 10
const URLS_WORDS = `urls has to be a list of 1 to ${URLS_MAX} addresses`
const CHAR_LIMIT = 15_000
const CHAR_LIMIT_MIN = 200
const CHAR_LIMIT_MAX = 200_000
const SEARCH_LIMIT = 5
const SEARCH_LIMIT_MAX = 20
const QUERY_CHARS_MAX = 1_000

const extractArguments = z.strictObject({
  urls: z.union([z.string(), z.array(z.string()).min(1, URLS_WORDS).max(URLS_MAX, URLS_WORDS)], URLS_WORDS),
  char_limit: z.int('char_limit has to be a whole number').nullish(),
})

const searchArguments = z.strictObject({
  query: z.string('query has to be a text').trim().min(1, 'query is empty').max(QUERY_CHARS_MAX, 'query is too long'),
  limit: z.int('limit has to be a whole number').min(1, 'limit has to be 1 or more').nullish(),
})

/** The `web` category: pages as markdown, and a search where a provider is configured. */
export function createWebSource(options: WebSourceOptions): ToolSource {
  const { config } = options
  const consent: Consent = config.mode === 'allow' ? 'free' : 'ask'
  const closing = new AbortController()
  const running = new Set<Promise<unknown>>()
  const limit = fairLimit(options.processesMax ?? 4)
  const limits = { ...PAGE_LIMITS, ...options.limits }
  const spare = createSpareProcess(() => startPageProcess(options.entry ?? BUILT_ENTRY, limits))
  const entries: ToolEntry[] = [
    {
      ...EXTRACT,
      consent,
      async call(args, { signal }) {
        const job = jobOf(args, limits, options)
        const ended = AbortSignal.any([signal, closing.signal])
        const work = limit(signal, () => extract(job, ended, spare, options.log))
        running.add(work)
        try {
          return { value: await work }
        } finally {
          running.delete(work)
        }
      },
    },
  ]
  const provider = config.search
  if (provider !== null) {
    entries.push({ ...SEARCH, consent, call: (args, context) => search(provider, args, context, options.log) })
  }
  return {
    category: 'web',
    description: 'Reads pages of the public web as markdown, and searches it where a provider is configured.',
    tools: async () => entries,
    problem: null,
    async close() {
      closing.abort()
      spare.close()
      await Promise.allSettled(running)
    },
  }
}

function jobOf(
  args: { readonly [name: string]: Json },
  limits: PageLimits,
  { config, exempt = [] }: WebSourceOptions,
): PageJob {
  const { urls, char_limit } = parsed(extractArguments, args)
  return {
    urls: typeof urls === 'string' ? [urls] : urls,
    charLimit: Math.min(Math.max(char_limit ?? CHAR_LIMIT, CHAR_LIMIT_MIN), CHAR_LIMIT_MAX),
    policy: { ports: config.ports, deniedNetworks: config.deniedNetworks, exempt },
    limits,
  }
}

async function extract(
  job: PageJob,
  signal: AbortSignal,
  spare: SpareProcess,
  log: WebSourceOptions['log'],
): Promise<Json> {
  // It may have waited for others to end.
  if (signal.aborted) throw new ToolFailure('the run is over')
  const { answers, end } = await runPageJob(spare.take(), job, signal)
  // Scripts that read one page read another.
  if (end === 'done') spare.prepare()
  if (end === 'aborted') throw new ToolFailure('the run is over')
  if (end !== 'done')
    log.warn({ why: end, pages: job.urls.length, read: answers.size }, 'reading web pages ended early')
  const words = WORDS[end](job.limits)
  const results = job.urls.map((url, index) => {
    const { title, content, error } = answers.get(index) ?? { title: '', content: '', error: words }
    return { url, title, content, error }
  })
  return { results }
}

const FEWER = 'ask for this page alone, or leave it out'
const WORDS: Readonly<Record<PageProcessEnd, (limits: PageLimits) => string>> = {
  done: () => 'the page has no answer',
  aborted: () => 'the run is over',
  time: ({ wallMs }) => `the pages of this call were not read within ${wallMs / 1_000} s: ${FEWER}`,
  memory: () => `the pages of this call took more memory than reading may take: ${FEWER}`,
  garbage: () => `the process that read this page answered nonsense, and was ended: ${FEWER}`,
  died: () => `the process that read this page died: ${FEWER}`,
  'not started': () => 'the process that reads pages could not be started',
}

async function search(
  provider: SearchProvider,
  args: { readonly [name: string]: Json },
  { signal }: ToolCallContext,
  log: WebSourceOptions['log'],
): Promise<{ value: Json }> {
  const { query, limit } = parsed(searchArguments, args)
  try {
    const web = await searchWeb(provider, query, Math.min(limit ?? SEARCH_LIMIT, SEARCH_LIMIT_MAX), signal)
    return { value: { data: { web: web.map(hit => ({ ...hit })) } } }
  } catch (error) {
    const reason = wordsFor(error)
    if (!signal.aborted) log.warn({ reason }, 'the search provider did not give results')
    throw new ToolFailure(error instanceof PageError ? reason : `the search provider: ${reason}`)
  }
}

function parsed<T>(schema: z.ZodType<T>, args: { readonly [name: string]: Json }): T {
  const result = schema.safeParse(args)
  if (!result.success) throw new ToolFailure(result.error.issues[0]?.message ?? 'the arguments are wrong')
  return result.data
}

const EXTRACT = {
  category: 'web',
  name: 'web_extract',
  description: [
    'Read web pages as markdown.',
    '',
    `Fetches up to ${URLS_MAX} public http(s) pages in parallel and gives the readable part of each; text, JSON and XML come as they are.`,
    'A page that can not be read has its reason in "error", and does not fail the others. PDFs and images are not read.',
  ].join('\n'),
  parameters: {
    type: 'object',
    properties: {
      urls: {
        type: 'array',
        items: { type: 'string' },
        minItems: 1,
        maxItems: URLS_MAX,
        description: 'Addresses of the pages',
      },
      char_limit: {
        type: 'integer',
        minimum: CHAR_LIMIT_MIN,
        maximum: CHAR_LIMIT_MAX,
        default: CHAR_LIMIT,
        description: 'Characters of content for each page; of a longer one the head and the tail are kept',
      },
    },
    required: ['urls'],
    additionalProperties: false,
  },
  returns: listSchema('results', { url: 'string', title: 'string', content: 'string', error: ['string', 'null'] }),
}

const SEARCH = {
  category: 'web',
  name: 'web_search',
  description: 'Search the web.\n\nGives addresses with title and description; read the pages with web_extract.',
  parameters: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'What to look for', minLength: 1, maxLength: QUERY_CHARS_MAX },
      limit: {
        type: 'integer',
        minimum: 1,
        maximum: SEARCH_LIMIT_MAX,
        default: SEARCH_LIMIT,
        description: 'Results at most',
      },
    },
    required: ['query'],
    additionalProperties: false,
  },
  returns: {
    type: 'object',
    properties: { data: listSchema('web', { url: 'string', title: 'string', description: 'string' }) },
    required: ['data'],
  },
}

function listSchema(name: string, fields: Readonly<Record<string, string | readonly string[]>>) {
  const properties = Object.fromEntries(Object.entries(fields).map(([field, type]) => [field, { type }]))
  const items = { type: 'object', properties, required: Object.keys(fields) }
  return { type: 'object', properties: { [name]: { type: 'array', items } }, required: [name] }
}
