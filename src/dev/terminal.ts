/** What the presentation needs of a stream: process.stdout is one. */
export interface Terminal {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
}

export interface Paint {
  dim(text: string): string
  bold(text: string): string
  red(text: string): string
  green(text: string): string
  cyan(text: string): string
}

/** Colours only where a person looks at a terminal and NO_COLOR (no-color.org) is unset or empty. */
export function createPaint(out: Terminal, env: NodeJS.ProcessEnv): Paint {
  const coloured = out.isTTY === true && (env['NO_COLOR'] ?? '') === ''
  const style = (code: number) => (text: string) => (coloured ? `\u001b[${code}m${text}\u001b[0m` : text)
  return { dim: style(2), bold: style(1), red: style(31), green: style(32), cyan: style(36) }
}

/**
 * Text of a sandbox made safe for a terminal: what could move the cursor, set the title or start an escape sequence is shown as a picture
 * of the character (U+2400 block) instead. Line feed and tab stay.
 */
export function printable(text: string): string {
  let safe = ''
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    if (code === 0x0a || code === 0x09) safe += character
    else if (code < 0x20) safe += String.fromCharCode(0x2400 + code)
    else if (code === 0x7f) safe += '\u2421'
    else if (code >= 0x80 && code < 0xa0) safe += '\ufffd'
    else safe += character
  }
  return safe
}

export function indent(text: string, prefix: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map(line => `${prefix}${line}\n`)
    .join('')
}

export interface PrefixedText {
  push(text: string): void
  /** Ends an unfinished line. */
  end(): void
}

/**
 * Writes text with a prefix before each line. `live` writes half a line as it comes, for one call alone on the screen; otherwise whole
 * lines only, so that calls side by side do not mix.
 */
export function createPrefixedText(out: Terminal, prefix: () => string, live: boolean): PrefixedText {
  let lineOpen = false
  let held = ''
  const write = (text: string): void => {
    for (const piece of text.split(/(?<=\n)/)) {
      if (piece === '') continue
      out.write(lineOpen ? piece : `${prefix()}${piece}`)
      lineOpen = !piece.endsWith('\n')
    }
  }
  return {
    push(text) {
      if (live) return write(printable(text))
      held += printable(text)
      const whole = held.lastIndexOf('\n') + 1
      write(held.slice(0, whole))
      held = held.slice(whole)
    },
    end() {
      write(held)
      held = ''
      if (lineOpen) out.write('\n')
      lineOpen = false
    },
  }
}
