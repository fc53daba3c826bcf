// The process that fetches and reads the pages of one call. It is started by page-process.ts, with no environment and no rights on
// files, and ends with its call, or when the worker has gone: its stdin closes.
import { createInterface } from 'node:readline'
import vm from 'node:vm'
import { fetchPage, type Page } from './fetch-page.js'
import { PageError, wordsFor } from './page-error.js'
import type { PageAnswer, PageJob } from './page-messages.js'
import { plainText, type ReadableText } from './plain-text.js'
import { shorten } from './shorten.js'

const AT_ONCE = 5
/** So that the pages of a job that is there already are asked for first. */
const LOADING_WAITS_MS = 50

const lines = createInterface({ input: process.stdin })
lines.once('line', line => {
  void answer(JSON.parse(line)).then(() => process.exit(0))
})
lines.once('close', () => process.exit(0))

// The parsers take 0.25 s to load: while nobody waits yet, or while servers are waited for.
setTimeout(() => void import('./readable.js').catch(() => {}), LOADING_WAITS_MS)

/**
 * First all pages are fetched, then those that are HTML are made readable, one by one: that holds everything else up, and a server
 * would seem slow that is not.
 */
async function answer(job: PageJob): Promise<void> {
  const end = AbortSignal.timeout(job.limits.fetchMs)
  const waiting = job.urls.map((url, index) => ({ url, index }))
  const arrived: { page: Page; index: number }[] = []
  const fetchNext = async (): Promise<void> => {
    for (let taken = waiting.shift(); taken !== undefined; taken = waiting.shift()) {
      const { url, index } = taken
      const page = await fetchInTime(url, job, end).catch(wordsFor)
      if (typeof page === 'string') await send({ index, title: '', content: '', error: page })
      else if (page.kind === 'html') arrived.push({ page, index })
      else await send({ index, title: '', content: shorten(page.text, job.charLimit), error: null })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, fetchNext))
  for (let next = arrived.shift(); next !== undefined; next = arrived.shift()) {
    const { title, text } = await readHtml(next.page, job.limits)
    const content = shorten(text.toWellFormed(), job.charLimit)
    await send({ index: next.index, title, content, error: null })
  }
}

/** Out before the next page is read, which may be the end of this process. */
function send(answer: PageAnswer): Promise<unknown> {
  return new Promise(written => process.stdout.write(`${JSON.stringify(answer)}\n`, written))
}

async function fetchInTime(url: string, { policy, limits }: PageJob, end: AbortSignal): Promise<Page> {
  if (end.aborted)
    throw new PageError('the other pages of this call took all its time: ask for this one again, with fewer')
  const timeout = new AbortController()
  const stop = () => timeout.abort(new PageError(`the page did not arrive within ${limits.pageMs / 1_000} s`))
  const stopAll = () => timeout.abort(new PageError('the time for this call was over before the page had arrived'))
  const timer = setTimeout(stop, limits.pageMs)
  end.addEventListener('abort', stopAll, { once: true })
  try {
    return await fetchPage(url, { policy, bodyBytesMax: limits.bodyBytesMax, signal: timeout.signal })
  } finally {
    clearTimeout(timer)
    end.removeEventListener('abort', stopAll)
  }
}

/** What making the pages of this call readable has taken. */
let parsedMs = 0

/** A document that is too much for the parsers, in size, depth or time, is read as plain text. */
async function readHtml({ text, url }: Page, limits: PageJob['limits']): Promise<ReadableText> {
  const { readable, ELEMENTS_MAX } = await import('./readable.js')
  const timeout = Math.floor(Math.min(limits.parseMs, limits.parseAllMs - parsedMs))
  if (timeout <= 0 || tagsOf(text) > 2 * ELEMENTS_MAX) return plainText(text)
  const start = performance.now()
  try {
    // What runs below a script that has a timeout is ended by it, wherever it is.
    return vm.runInNewContext('run()', { run: () => readable(text, url) }, { timeout })
  } catch {
    return plainText(text)
  } finally {
    parsedMs += performance.now() - start
  }
}

function tagsOf(html: string): number {
  let tags = 0
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at + 1)) tags++
  return tags
}
