import { PageError } from './page-error.js'

const SNIFFED_BYTES = 1_024

/** Whether a body is HTML or text. Anything else is refused with words (PageError), by what it says it is and by what it is. */
export function contentKind(contentType: string, bytes: Buffer): 'html' | 'text' {
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase()
  const head = bytes.subarray(0, SNIFFED_BYTES).toString('latin1')
  if (type === 'application/pdf' || head.startsWith('%PDF-')) {
    throw new PageError('this is a PDF, which can not be read here; look for the text as a page')
  }
  for (const kind of ['image', 'audio', 'video', 'font']) {
    // SVG is text, but of no use to a reader.
    if (type.startsWith(`${kind}/`)) throw new PageError(`this is ${ARTICLES[kind]}, not a text`)
  }
  const utf16 = /^(\xfe\xff|\xff\xfe)/.test(head)
  if (head.includes('\0') && !utf16) throw new PageError('this is binary data, not a text')
  if (type === 'text/html' || type === 'application/xhtml+xml') return 'html'
  if (type === '' || type === 'application/octet-stream' || type === 'text/plain') {
    // Only what has no type at all is guessed at: a text/plain that begins with HTML is meant to be shown as it is.
    return type === '' && /^[\s\xef\xbb\xbf]*<(!doctype html|html|head|body)\b/i.test(head) ? 'html' : 'text'
  }
  if (type.startsWith('text/') || /^application\/([\w.+-]*[+.-])?(json|xml|yaml|javascript|ndjson|toml)$/.test(type)) {
    return 'text'
  }
  throw new PageError('this is not a text (the server calls it something else than HTML, text, JSON or XML)')
}

const ARTICLES: Readonly<Record<string, string>> = {
  image: 'an image',
  audio: 'a sound',
  video: 'a video',
  font: 'a font',
}
