import { describe, expect, test } from 'vitest'
import { plainText } from '../../../src/toolbox/web/plain-text.js'
import { readable } from '../../../src/toolbox/web/readable.js'
import { shorten } from '../../../src/toolbox/web/shorten.js'

const URL_OF_PAGE = 'https://example.com/a/b'
const WORDS = '<p>Some <b>words</b>, and more of them, with commas, so that this is taken for an article.</p>'

const markdown = (html: string) => readable(html, URL_OF_PAGE)

describe('an HTML page becomes markdown', () => {
  test('of its article, without what stands around it', () => {
    const page = markdown(
      `<!doctype html><html><head><title>T &amp; t</title><style>x{}</style></head><body>
       <nav><ul><li><a href=/1>menu entry</a></ul></nav><article><h1>Head</h1>${WORDS.repeat(12)}</article>
       <footer>imprint</footer><script>alert(1)</script></body></html>`,
    )
    expect(page.title).toBe('T & t')
    expect(page.text).toContain('Some **words**, and more')
    expect(page.text).not.toMatch(/menu entry|imprint|alert|x\{\}/)
  })

  test('of the whole body, where it has no article', () => {
    const rows = Array.from({ length: 40 }, (_, i) => `<li><a href="/item?id=${i}">Story number ${i}</a></li>`).join('')
    const page = markdown(`<title>List</title><ol>${rows}</ol>`)
    expect(page.title).toBe('List')
    for (const i of [0, 20, 39]) expect(page.text).toContain(`[Story number ${i}](https://example.com/item?id=${i})`)
  })

  test('with links made absolute, by <base> too, and none that runs code or leads into the page', () => {
    const page = markdown(
      '<p><a href="../c?x=1#f">rel</a> <a href="//other.org/">net</a> <a href="javascript:alert(1)">js</a> <a href="#top">top</a> <img src="i.png" alt="pic"> <img src="data:image/png;base64,AAAA" alt="inline">',
    )
    expect(page.text).toBe(
      '[rel](https://example.com/c?x=1#f) [net](https://other.org/) js top ![pic](https://example.com/a/i.png)',
    )
    expect(markdown('<base href="https://base.org/x/"><p><a href=y>y</a>').text).toBe('[y](https://base.org/x/y)')
  })

  test('with tables of data as tables, and tables for layout as paragraphs', () => {
    const page = markdown(
      '<table><thead><tr><th>a</th><th>b|c</th></tr></thead><tbody><tr><td>1</td><td>two<br>lines</td></tr></tbody></table>',
    )
    expect(page.text).toBe('| a | b\\|c |\n| --- | --- |\n| 1 | two lines |')
    expect(markdown('<table><tr><td><table><tr><td>x<td>y</table></table>').text).toContain('| x | y |')
    expect(markdown('<table><tr><td><p>only</p><tr><td>column</table>').text).toBe('only\n\ncolumn')
  })

  test('with code as it is', () => {
    expect(markdown('<pre><code>if a &lt; b:\n    c *= 1</code></pre>').text).toBe('```\nif a < b:\n    c *= 1\n```')
  })

  test.each([
    ['nothing', ''],
    ['only a comment', '<!-- x'],
    ['only a doctype', '<!doctype html>'],
    ['a frame set', '<html><frameset><frame src=x></frameset></html>'],
    ['two bodies', '<body><p>a<body><p>b'],
    ['unclosed attributes', '<a href="x><p class=\'y>z'],
    ['only a head', '<html><head><title>t</title></head></html>'],
    ['an SVG root', '<svg><title>t</title></svg>'],
  ])('also of %s, without an error', (_, html) => {
    expect(markdown(html).text).toBeTypeOf('string')
  })
})

describe('a page that is too much for the parser is read as plain text', () => {
  test('without tags, scripts, styles and comments, with entities and lines', () => {
    const page = plainText(
      '<html><head><title> A\n title </title></head><body><script>if (a<b) x()</script><style>p{}</style><!-- no --><p>One &amp; &lt;two&gt;</p><div>three&nbsp;&#8364;&#x20ac;</div>a < b<br/>c<p>last',
    )
    expect(page).toEqual({ title: 'A title', text: 'One & <two>\n\nthree €€\na < b\nc\nlast' })
  })

  test.each([
    ['deep nesting', '<div>'.repeat(500_000)],
    ['opened titles', '<title'.repeat(500_000)],
    ['opened scripts', '<script>'.repeat(300_000)],
    ['opened comments', '<!--'.repeat(500_000)],
    ['left angles', '<'.repeat(2_500_000)],
    ['half closed scripts', `<script>${'</script'.repeat(300_000)}`],
    ['ampersands', '&'.repeat(2_500_000)],
    ['spaces and newlines', ' \n'.repeat(1_250_000)],
  ])('in time that grows with its size only: %s', (_, html) => {
    const start = performance.now()
    plainText(html)
    expect(performance.now() - start).toBeLessThan(5_000)
  })
})

describe('shorten', () => {
  test('keeps head and tail, says what is missing, and never gives more than was asked for', () => {
    const text = `${'a'.repeat(5_000)}${'z'.repeat(5_000)}`
    const short = shorten(text, 1_000)
    expect(short.length).toBeLessThanOrEqual(1_000)
    expect(short).toMatch(/^a{500,}\n\n\[… 9\d\d\d of 10000 characters left out here: .*…\]\n\nz{200,}$/)
    expect(shorten(text, 10_000)).toBe(text)
  })

  test('cuts no character in half', () => {
    for (const max of [200, 201, 202, 203]) expect(shorten('😀'.repeat(500), max).isWellFormed()).toBe(true)
  })
})
