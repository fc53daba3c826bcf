interface Fence {
  readonly mark: string
  readonly info: string
}

/**
 * Takes Markdown fences away that stand around the whole text: once, and only where the fence that opens on the first
 * line closes on the last. Anything else is returned as it is.
 *
 * No valid Python is ever changed: a line that starts with ``` outside of a triple-quoted string is a syntax error, and
 * so is a last line of ~~~ alone.
 */
export function stripCodeFences(text: string): string {
  const body = text.trim()
  if (!body.startsWith('```') && !body.startsWith('~~~')) return text
  const openerEnd = body.indexOf('\n')
  const closerStart = body.lastIndexOf('\n') + 1
  if (openerEnd === -1) return text
  const opener = fenceOn(body.slice(0, openerEnd))
  const closer = fenceOn(body.slice(closerStart))
  if (opener === null || closer === null || !closes(closer, opener)) return text
  const inner = body.slice(openerEnd + 1, closerStart)
  if (!staysOpen(inner, opener)) return text
  const blanksBefore = text.slice(0, text.length - text.trimStart().length)
  return withoutIndent(inner, /[ \t]*$/.exec(blanksBefore)?.[0] ?? '')
}

function fenceOn(line: string): Fence | null {
  const trimmed = line.trim()
  const mark = /^(?:`{3,}|~{3,})/.exec(trimmed)?.[0]
  if (mark === undefined) return null
  const info = trimmed.slice(mark.length).trim()
  // Backticks after backticks are inline code, not a fence.
  if (mark.startsWith('`') && info.includes('`')) return null
  return { mark, info }
}

function closes(fence: Fence, opener: Fence): boolean {
  return fence.info === '' && fence.mark[0] === opener.mark[0] && fence.mark.length >= opener.mark.length
}

/** Whether the opener is still open at the end of `inner`: no line of it closes it, counting fences that nest. */
function staysOpen(inner: string, opener: Fence): boolean {
  if (!inner.includes(opener.mark.slice(0, 3))) return true
  let depth = 1
  let inString: string | null = null
  for (let start = 0; start < inner.length; ) {
    const newline = inner.indexOf('\n', start)
    const end = newline === -1 ? inner.length : newline
    const line = inner.slice(start, end)
    const fence = inString === null ? fenceOn(line) : null
    if (fence === null) inString = tripleQuoteAfter(line, inString)
    else if (closes(fence, opener)) depth -= 1
    else if (fence.mark[0] === opener.mark[0] && fence.info !== '') depth += 1
    if (depth === 0) return false
    start = end + 1
  }
  return depth === 1
}

/** The triple quote that is open after a line, given the one that is open before it: fences in docstrings are text. */
function tripleQuoteAfter(line: string, openBefore: string | null): string | null {
  let open = openBefore
  for (let i = 0; i < line.length; i += 1) {
    const character = line[i]
    if (open !== null) {
      if (character === '\\') i += 1
      else if (character === open[0] && line.startsWith(open, i)) {
        // A triple quote that closes; a single quote (length 1) alike.
        i += open.length - 1
        open = null
      }
    } else if (character === '#') break
    else if (character === '"' || character === "'") {
      const triple = character.repeat(3)
      open = line.startsWith(triple, i) ? triple : character
      i += open.length - 1
    }
  }
  // A string in single quotes ends with its line.
  return open !== null && open.length === 3 ? open : null
}

/** An indented fence indents what it holds by as much: taken away where every line has it. */
function withoutIndent(text: string, indent: string): string {
  if (indent === '') return text
  const lines = text.split('\n')
  if (!lines.every(line => line.trim() === '' || line.startsWith(indent))) return text
  return lines.map(line => (line.startsWith(indent) ? line.slice(indent.length) : line)).join('\n')
}
