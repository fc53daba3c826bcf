import { dollars, duration } from '../dev/amounts.js'
import { createPaint, printable, type Terminal } from '../dev/terminal.js'
import type { Outcome } from '../outcome.js'
import { fileSize } from '../quantities.js'
import { linesBelow } from '../tool/make-outcome.js'

const STATUS_AFTER_MS = 2_000
const STATUS_EVERY_MS = 1_000
const ERASE = '\r\u001b[K'

export interface ExecViewOptions {
  readonly out: Terminal
  readonly err: Terminal
  readonly env: NodeJS.ProcessEnv
  /** Only what the code wrote, and how it ended where that was not well. */
  readonly isQuiet: boolean
  /** UTF-8 bytes of stdout of which all are streamed. */
  readonly streamedMostBytes: number
}

/**
 * A run as a person at a shell sees it: stdout of the code on stdout and nothing else, everything else on stderr. Where they are
 * terminals, nothing of the code's text can control them, and what takes longer has a line that says so.
 */
export class ExecView {
  readonly #options: ExecViewOptions
  readonly #startedMs = performance.now()
  #timer: NodeJS.Timeout | undefined
  #isStatusShown = false
  /** Whether the last line of stdout has not ended, and so has no room for a status. */
  #isLineOpen = false
  #streamedUnits = 0
  #streamedEnd = ''

  constructor(options: ExecViewOptions) {
    this.#options = options
    if (options.err.isTTY !== true || options.isQuiet) return
    this.#timer = setTimeout(() => {
      this.#showStatus()
      this.#timer = setInterval(() => this.#showStatus(), STATUS_EVERY_MS)
    }, STATUS_AFTER_MS)
  }

  /** Text of stdout, as it comes. */
  push(text: string, keptUnits: number): void {
    this.#streamedUnits += text.length
    this.#streamedEnd = (this.#streamedEnd + text).slice(-keptUnits)
    this.#write(text)
  }

  /**
   * What was not streamed of the outcome, and its summary. saved: a line for each file, without brackets; where one of them says that
   * saving failed, also with --quiet.
   */
  end(outcome: Outcome, saved: readonly string[], hasSavingFailed = false): void {
    const { err, isQuiet, env } = this.#options
    this.close()
    const missing = this.#missing(outcome)
    this.#write(missing)
    const { stderr, value, value_text } = outcome
    const shown = (text: string) => (err.isTTY === true ? printable(text) : text)
    const result = value_text ?? value
    const below = linesBelow(outcome).flatMap(withoutShown)
    // What the code displayed: the first part is the text of the result. Its images are saved.
    const displayed = (outcome.parts ?? []).slice(1).filter(part => part.m_type === 'text')
    const isSaid = (line: string) =>
      !(outcome.status === 'completed' && line === '[no output]') &&
      !(missing === '' && line.startsWith('[stdout: showing '))
    const lines = below.filter(isSaid)
    // The terminal's cursor stands behind what the code has printed last.
    if (this.#isLineOpen && this.#options.out.isTTY === true && err.isTTY === true) err.write('\n')
    for (const { m_content: text } of displayed) err.write(shown(text.endsWith('\n') ? text : `${text}\n`))
    if (result !== null) err.write(shown(`${result}\n`))
    if (stderr.text !== '') err.write(shown(stderr.text.endsWith('\n') ? stderr.text : `${stderr.text}\n`))
    for (const line of lines) err.write(`${shown(line)}\n`)
    if (!isQuiet || hasSavingFailed) for (const line of saved) err.write(`[${shown(line)}]\n`)
    if (isQuiet) return
    err.write(`${createPaint(err, env).dim(`[${summary(outcome)}]`)}\n`)
  }

  /** The status line goes; none comes any more. */
  close(): void {
    clearInterval(this.#timer)
    this.#eraseStatus()
  }

  #missing({ stdout }: Outcome): string {
    if (!stdout.truncated) return stdout.text.slice(this.#streamedUnits)
    const cut = /\n\[… \d+ bytes left out …\]\n/.exec(stdout.text)
    if (cut === null) return ''
    const end = stdout.text.slice(cut.index + cut[0].length)
    const isAll = stdout.bytes_total <= this.#options.streamedMostBytes && this.#streamedEnd.endsWith(end)
    return isAll ? '' : stdout.text.slice(cut.index)
  }

  #write(text: string): void {
    if (text === '') return
    this.#eraseStatus()
    const { out } = this.#options
    out.write(out.isTTY === true ? printable(text) : text)
    this.#isLineOpen = !text.endsWith('\n')
  }

  #showStatus(): void {
    const { out, err, env } = this.#options
    if (this.#isLineOpen && out.isTTY === true) return
    const seconds = Math.floor((performance.now() - this.#startedMs) / 1_000)
    err.write(`${ERASE}${createPaint(err, env).dim(`running, ${seconds} s`)}`)
    this.#isStatusShown = true
  }

  #eraseStatus(): void {
    if (this.#isStatusShown) this.#options.err.write(ERASE)
    this.#isStatusShown = false
  }
}

/** Nothing is below here: what was left out stays, what the model is shown goes. */
function withoutShown(line: string): string[] {
  const rest = line.replace(/^\[shown below: [^;\]]*(?:; )?/, '[')
  return rest === '[]' ? [] : [rest]
}

/** "completed in 1.20 s, CPU 0.90 s, 12 MB, 2 tool calls, $0.0001". */
function summary({ status, usage, tool_calls, dollars: cost }: Outcome): string {
  const calls = tool_calls.length
  return [
    `${status.replaceAll('_', ' ')} in ${duration(usage.run_ms)}`,
    `CPU ${duration(usage.cpu_ms)}`,
    // Short code has ended before its memory was looked at.
    ...(usage.max_rss_bytes === 0 ? [] : [`memory ${fileSize(usage.max_rss_bytes)}`]),
    ...(calls === 0 ? [] : [`${calls} tool ${calls === 1 ? 'call' : 'calls'}`]),
    dollars(cost),
  ].join(', ')
}
