/** A run of text in one style. `style` is a list of class names, "" for plain text. */
interface Span {
  readonly text: string
  readonly style: string
}

export interface AnsiReader {
  /** What this piece shows; an escape sequence may be split between pieces. */
  push(text: string): readonly Span[]
}

/** A sequence that is longer than this is none. */
const SEQUENCE_MOST_UNITS = 256
/** Colours in the order of SGR 30 to 37; the page's style sheet has each as a class, readable on light and dark. */
const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const

interface Style {
  readonly colour: string | null
  readonly bold: boolean
  readonly dim: boolean
  readonly italic: boolean
  readonly underline: boolean
}

const PLAIN: Style = { colour: null, bold: false, dim: false, italic: false, underline: false }

const ESCAPE = '\u001b'
// CSI with its parameters; OSC, DCS, SOS, PM and APC up to their end; any other two-character sequence.
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that sequences are made of
  /^\u001b(?:\[([0-9;:?<=>!]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|[()*+][ -~]|[ -OQ-WYZ\\`-~])/
// biome-ignore lint/suspicious/noControlCharactersInRegex: what a sequence that goes on may look like so far
const UNFINISHED = /^\u001b(?:\[[0-9;:?<=>!]*[ -/]*|[\]PX^_][^\u0007\u001b]*\u001b?|[()*+])?$/

/**
 * Reads the text of a terminal as text in styles: SGR colours become classes of a fixed list, every other sequence is dropped, and a control
 * character is shown as its picture. Whatever comes in, what comes out is text for text nodes and class names of our own.
 */
export function createAnsiReader(): AnsiReader {
  let style = PLAIN
  let held = ''

  return {
    push(piece) {
      const text = held + piece
      held = ''
      const spans: Span[] = []
      const add = (shown: string): void => {
        if (shown !== '') spans.push({ text: visible(shown), style: classesOf(style) })
      }
      let from = 0
      for (let at = text.indexOf(ESCAPE); at !== -1; at = text.indexOf(ESCAPE, from)) {
        add(text.slice(from, at))
        const rest = text.slice(at, at + SEQUENCE_MOST_UNITS)
        const found = SEQUENCE.exec(rest)
        if (found !== null) {
          if (found[2] === 'm') style = restyled(style, found[1] ?? '')
          from = at + found[0].length
        } else if (UNFINISHED.test(rest) && rest.length < SEQUENCE_MOST_UNITS) {
          held = text.slice(at)
          return spans
        } else {
          add(ESCAPE)
          from = at + 1
        }
      }
      const end = text.endsWith('\r') ? text.length - 1 : text.length // perhaps of a CR LF
      if (end >= from) add(text.slice(from, end))
      held = text.slice(Math.max(end, from))
      return spans
    },
  }
}

/** Line feed and tab stay; CR before LF goes; of other controls the picture (U+2400 block). */
function visible(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, control => {
    if (control === '\n' || control === '\t') return control
    const code = control.charCodeAt(0)
    if (code < 0x20) return String.fromCharCode(0x2400 + code)
    return code === 0x7f ? '\u2421' : '\ufffd'
  })
}

function restyled(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map(Number)
  let next = style
  for (let n = 0; n < codes.length; n += 1) {
    const code = codes[n] ?? 0
    if (code === 38 || code === 48) {
      const colour = codes[n + 1] === 5 ? ofPalette(codes[n + 2] ?? 0) : nearest(codes.slice(n + 2, n + 5))
      n += codes[n + 1] === 5 ? 2 : 4
      if (code === 38) next = { ...next, colour }
    } else next = withCode(next, code)
  }
  return next
}

function withCode(style: Style, code: number): Style {
  if (code === 0) return PLAIN
  if (code === 1) return { ...style, bold: true }
  if (code === 2) return { ...style, dim: true }
  if (code === 3) return { ...style, italic: true }
  if (code === 4) return { ...style, underline: true }
  if (code === 22) return { ...style, bold: false, dim: false }
  if (code === 23) return { ...style, italic: false }
  if (code === 24) return { ...style, underline: false }
  if (code === 39) return { ...style, colour: null }
  if (code >= 30 && code <= 37) return { ...style, colour: COLOURS[code - 30] ?? null }
  if (code >= 90 && code <= 97) return { ...style, colour: COLOURS[code - 90] ?? null }
  return style
}

/** Of the 256 colours: 16 by name, a cube of 6×6×6, 24 greys. */
function ofPalette(index: number): string | null {
  if (index < 16) return COLOURS[index % 8] ?? null
  if (index >= 232) return index < 244 ? 'black' : 'white'
  const cell = index - 16
  return nearest([Math.floor(cell / 36), Math.floor(cell / 6) % 6, cell % 6].map(level => level * 51))
}

/** The named colour whose channels are on where these are: any colour at all could be unreadable on one of our two backgrounds. */
function nearest(channels: readonly number[]): string | null {
  const most = Math.max(...channels, 1)
  const bits = channels.map(channel => (channel > most * 0.6 ? 1 : 0))
  return COLOURS[(bits[0] ?? 0) + 2 * (bits[1] ?? 0) + 4 * (bits[2] ?? 0)] ?? null
}

function classesOf(style: Style): string {
  const names = [
    style.colour === null ? '' : `ansi-${style.colour}`,
    style.bold ? 'ansi-bold' : '',
    style.dim ? 'ansi-dim' : '',
    style.italic ? 'ansi-italic' : '',
    style.underline ? 'ansi-underline' : '',
  ]
  return names.filter(name => name !== '').join(' ')
}
