import { Readability } from '@mozilla/readability'
import { parseHTML } from 'linkedom'
import { createMarkdown } from './markdown.js'
import { type ReadableText, tidy } from './plain-text.js'

/** More elements than any page for readers has; a tree of them costs some hundred bytes each. */
export const ELEMENTS_MAX = 60_000
/** An article that is shorter than this share of all the words of the page is likely a teaser that Readability took for it. */
const ARTICLE_SHARE_MIN = 0.2
/** Below this, the whole page is as quickly read. */
const ARTICLE_CHARS_MIN = 500
const TITLE_CHARS_MAX = 1_000

/**
 * The readable part of an HTML document as markdown: the article, or the whole body where there is none. Links are made absolute.
 * Throws what a document can make a parser throw (RangeError where it is too deep); may take long: the caller limits the time.
 */
export function readable(html: string, url: string): ReadableText {
  const { document, title } = parse(html, url)
  const words = tidy(document.body?.textContent ?? '').length
  const article = new Readability<unknown>(document, {
    maxElemsToParse: ELEMENTS_MAX,
    serializer: node => node,
  }).parse()
  const length = article?.length ?? 0
  const enough =
    article?.content && (length >= ARTICLE_CHARS_MIN || length >= words) && length >= words * ARTICLE_SHARE_MIN
  // Readability has taken the document apart.
  const root = enough ? article.content : parse(html, url).document.body
  return {
    title: tidy(article?.title || title)
      .replaceAll('\n', ' ')
      .slice(0, TITLE_CHARS_MAX)
      .toWellFormed(),
    text: createMarkdown()(root).trim(),
  }
}

function parse(html: string, url: string) {
  // The parser takes the first element for the root, whatever it is.
  const whole = /<html[\s>]/i.test(html) ? html : `<!doctype html><html><head></head><body>${html}</body></html>`
  const { document } = parseHTML(whole)
  for (const element of document.querySelectorAll('script, style, template, svg, iframe, object')) element.remove()
  const base = resolved(document.querySelector('base')?.getAttribute('href'), url) ?? url
  for (const link of document.querySelectorAll('a[href]')) {
    const href = link.getAttribute('href')
    // A link within the page leads nowhere once the page is text.
    const target = href?.startsWith('#') ? undefined : resolved(href, base)
    if (target === undefined) link.removeAttribute('href')
    else link.setAttribute('href', target)
  }
  for (const image of document.querySelectorAll('img')) {
    const target = resolved(image.getAttribute('src'), base)
    if (target === undefined || !image.getAttribute('alt')) image.remove()
    else image.setAttribute('src', target)
  }
  return { document, title: document.querySelector('title')?.textContent ?? '' }
}

function resolved(href: string | null | undefined, base: string): string | undefined {
  if (!href || href.length > 2_000 || !URL.canParse(href, base)) return undefined
  const url = new URL(href, base)
  return /^(https?|mailto):$/.test(url.protocol) ? url.href : undefined
}
