export interface ReadableText {
  readonly title: string
  readonly text: string
}

/** What holds no words for a reader. */
const HIDDEN = /^(script|style|noscript|template|svg|iframe|object|head|title|select)$/
const BLOCKS =
  /^(address|article|aside|blockquote|body|br|dd|div|dl|dt|fig.*|footer|form|h[1-6]|header|hr|li|main|nav|ol|p|pre|section|table|tr|ul)$/
const TITLE_CHARS_MAX = 1_000
/** A title that comes later is none. */
const TITLE_WITHIN_CHARS = 256 * 1024

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  ndash: '–',
  mdash: '—',
  hellip: '…',
  copy: '©',
  laquo: '«',
  raquo: '»',
  rsquo: '’',
  lsquo: '‘',
  rdquo: '”',
  ldquo: '“',
}

/**
 * The words of an HTML document that is too large, too deep or too odd for a parser: its tags are skipped in one pass from left to
 * right, which costs the same whatever they are.
 */
export function plainText(html: string): ReadableText {
  const parts: string[] = []
  let at = 0
  while (at < html.length) {
    const open = html.indexOf('<', at)
    if (open < 0) {
      parts.push(html.slice(at))
      break
    }
    parts.push(html.slice(at, open))
    const name = /^\/?([a-z][a-z0-9]{0,20})/i.exec(html.slice(open + 1, open + 24))?.[1]?.toLowerCase()
    const closing = html[open + 1] === '/'
    if (html.startsWith('<!--', open)) at = after(html, '-->', open + 4)
    else if (name === undefined && !/[!/?]/.test(html[open + 1] ?? '')) {
      parts.push('<')
      at = open + 1
    } else {
      if (name !== undefined && BLOCKS.test(name)) parts.push('\n')
      else if (name === 'td' || name === 'th') parts.push(' ')
      at = after(html, '>', open + 1)
      if (!closing && name !== undefined && HIDDEN.test(name)) at = endOf(html, name, at)
    }
  }
  return { title: titleOf(html), text: tidy(decodeEntities(parts.join(''))) }
}

/** Spaces and empty lines as a reader needs them. */
export function tidy(text: string): string {
  return text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

/** To the end, where it does not occur. */
function after(html: string, mark: string, from: number): number {
  const found = html.indexOf(mark, from)
  return found < 0 ? html.length : found + mark.length
}

function endOf(html: string, name: string, from: number): number {
  const closing = new RegExp(`</${name}[\\s/>]`, 'gi')
  closing.lastIndex = from
  const found = closing.exec(html)
  return found === null ? html.length : after(html, '>', found.index)
}

function titleOf(html: string): string {
  const found = /<title[^>]{0,200}>([^<]{0,1000})/i.exec(html.slice(0, TITLE_WITHIN_CHARS))?.[1]
  return tidy(decodeEntities(found ?? ''))
    .replaceAll('\n', ' ')
    .slice(0, TITLE_CHARS_MAX)
    .toWellFormed()
}

function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : '\ufffd'
  })
}
