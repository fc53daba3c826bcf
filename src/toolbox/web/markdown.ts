import TurndownService from 'turndown'

/** What the rules below need of an element. */
interface Element {
  readonly nodeName: string
  closest(selector: string): Element | null
  querySelector(selector: string): Element | null
}

/** Makes the function that turns an element into markdown, with tables where they hold data. */
export function createMarkdown(): (root: unknown) => string {
  const turndown = new TurndownService({
    headingStyle: 'atx',
    codeBlockStyle: 'fenced',
    bulletListMarker: '-',
    emDelimiter: '*',
    hr: '---',
  })
  turndown.remove([
    'script',
    'style',
    'noscript',
    'template',
    'iframe',
    'object',
    'button',
    'select',
    'textarea',
  ] as never)
  const layout = layoutTables()
  turndown.addRule('cell', {
    filter: ['th', 'td'],
    replacement: (content, node) => {
      if (layout(node as never)) return `\n\n${content}\n\n`
      return ` ${content
        .trim()
        .replace(/\s*\n\s*/g, ' ')
        .replaceAll('|', '\\|')} |`
    },
  })
  turndown.addRule('row', {
    filter: 'tr',
    replacement: (content, node) => {
      const row = node as unknown as Element
      if (layout(row)) return `\n\n${content}\n\n`
      const first = row.closest('table')?.querySelector('tr') === row
      const columns = content.replaceAll('\\|', '').split('|').length - 1
      return `\n|${content}${first ? `\n|${' --- |'.repeat(columns)}` : ''}`
    },
  })
  turndown.addRule('rows', {
    filter: ['thead', 'tbody', 'tfoot'],
    replacement: content => content,
  })
  turndown.addRule('table', { filter: 'table', replacement: content => `\n\n${content.trim()}\n\n` })
  return root => turndown.turndown(root as never)
}

/** Tables that hold tables, or one column only, put things in their place on the screen, and are no data. */
function layoutTables(): (inside: Element) => boolean {
  const known = new WeakMap<Element, boolean>()
  return inside => {
    const table = inside.closest('table')
    if (table === null) return true
    const before = known.get(table)
    if (before !== undefined) return before
    const found =
      table.querySelector('table') !== null || table.querySelector('td + td, td + th, th + th, th + td') === null
    known.set(table, found)
    return found
  }
}
