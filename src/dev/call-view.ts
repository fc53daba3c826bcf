import { z } from 'zod'
import type { Part } from '../outcome.js'
import { dollars, duration } from './amounts.js'
import type { Answer, Delta } from './records.js'
import { createPrefixedText, indent, type Paint, printable, type Terminal } from './terminal.js'

/** The part of the provenance that a person is shown; a result of another make has less of it. */
const shownProvenance = z.looseObject({
  status: z.string().catch('answered'),
  tier: z.string().nullish().catch(null),
})

export interface ResultSummary {
  readonly status: string
  /** Sandbox tier, or null where nothing ran. */
  readonly tier: string | null
  readonly text: string
}

export function summarise(answer: Answer): ResultSummary {
  const { status, tier } = shownProvenance.parse(answer.provenance)
  return { status, tier: tier ?? null, text: contentText(answer.content) }
}

/** "completed in 2.04 s · namespaces tier · $0.000012" */
export function statusLine(answer: Answer, elapsedMs: number): string {
  const { status, tier } = summarise(answer)
  const parts = [`${status.replaceAll('_', ' ')} in ${duration(elapsedMs)}`]
  if (tier !== null) parts.push(`${tier} tier`)
  if (answer.dollars !== null) parts.push(dollars(answer.dollars))
  return parts.join(' · ')
}

/** What of the result has not been seen as a stream: all of it where the stream is not how it begins. */
export function unseenPart(streamed: string, text: string): string {
  return text.startsWith(streamed) ? text.slice(streamed.length) : text
}

export interface CallView {
  /** Header and code, at most `maxLines` of it; its last line is always shown, as it says what comes of the rest. */
  begin(title: string, code: string, maxLines?: number): void
  delta(delta: Delta): void
  end(answer: Answer): void
}

/**
 * One call in a terminal: header, code, output as it arrives with the time since the begin, then what the result says beyond it. `label`
 * stands before each line of output; `live` as in createPrefixedText.
 */
export function createCallView(options: {
  readonly out: Terminal
  readonly paint: Paint
  readonly label: string
  readonly live: boolean
  readonly now: () => number
}): CallView {
  const { out, paint } = options
  let beganAt = options.now()
  let arrivedAt = beganAt
  let streamed = ''
  const prefix = (): string => {
    const since = `+${((arrivedAt - beganAt) / 1000).toFixed(2)} s`.padStart(9)
    return paint.dim(`  ${options.label}${since} │ `)
  }
  const output = createPrefixedText(out, prefix, options.live)

  return {
    begin(title, code, maxLines = 20) {
      const lines = printable(code).trimEnd().split('\n')
      const left = lines.length - maxLines
      const shown =
        left <= 0 ? lines : [...lines.slice(0, maxLines - 2), `… ${left + 1} more lines`, ...lines.slice(-1)]
      out.write(`\n${paint.bold(title)}\n`)
      out.write(paint.dim(indent(shown.join('\n'), '    ')))
      beganAt = options.now()
    },
    delta({ text, atMs }) {
      streamed += text
      arrivedAt = atMs
      output.push(text)
    },
    end(answer) {
      output.end()
      const { status, text } = summarise(answer)
      const unseen = unseenPart(streamed, text)
      if (unseen.trim() !== '') {
        out.write(paint.dim(`  ${options.label}result${streamed === '' ? '' : ', beyond the output above'}:\n`))
        out.write(indent(printable(unseen).replace(/^\n+/, ''), paint.dim(`  ${options.label}│ `)))
      }
      const good = status === 'completed'
      const line = `  ${options.label}${good ? '✔' : '✘'} ${statusLine(answer, answer.atMs - beganAt)}`
      out.write(`${good ? paint.green(line) : paint.red(line)}\n`)
    },
  }
}

function contentText(content: string | readonly Part[]): string {
  if (typeof content === 'string') return content
  return content
    .map(({ m_type, m_content }) =>
      m_type === 'text' ? m_content : `[${m_type}, ${Math.ceil((m_content.length * 3) / 4 / 1024)} KB]`,
    )
    .join('\n')
}
