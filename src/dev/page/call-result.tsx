import { useState } from 'preact/hooks'
import { fileSize } from '../../quantities.js'
import { dollars, duration } from '../amounts.js'
import type { CallDetail } from '../page-protocol.js'
import { Approval } from './approval.js'
import { ImagePart, isPicture } from './image-part.js'
import { KeptFiles } from './kept-files.js'
import { Output } from './output.js'
import { Provenance, ToolCalls } from './provenance.js'
import { saveText } from './save-text.js'
import type { KnownCall } from './store.js'
import { useNow } from './use-now.js'
import { elapsedMs, isOpen, stateOf, ticking } from './words.js'

interface Props {
  readonly call: KnownCall
  readonly clockOffsetMs: number
  onDecide(approve: boolean): Promise<void>
  onStop(): Promise<void>
  /** Puts the call's code into the editor. */
  onEdit(code: string): void
}

/** One call: what it is doing, what it asks, what it printed, and what came of it. */
export function CallResult({ call, clockOffsetMs, onDecide, onStop, onEdit }: Props) {
  const { summary, detail } = call
  const now = useNow(isOpen(call)) + clockOffsetMs
  const { words, tone } = stateOf(call)
  const [stopping, setStopping] = useState<string | null>(null)
  const took = elapsedMs(call, now)
  const isStoppable = isOpen(call) && summary.state !== 'needs_approval'
  const code = codeOf(detail)
  const stop = () => {
    setStopping(summary.id)
    // Where the worker no longer has it, its answer is on the way.
    onStop().catch(() => setStopping(null))
  }
  return (
    <article class="result" aria-label="Result of the call">
      <header>
        <span class={`state ${tone}`}>{words}</span>
        <span class="took">{isOpen(call) ? ticking(took) : duration(took)}</span>
        {summary.dollars === null ? null : <span class="hint">{dollars(summary.dollars)}</span>}
        {summary.deliveries > 1 ? <span class="hint">delivered {summary.deliveries} times</span> : null}
        <span class="actions">
          {code === null ? null : (
            <button type="button" class="small secondary outline" onClick={() => onEdit(code)}>
              Edit code
            </button>
          )}
          {isStoppable ? (
            <button type="button" class="small stop" disabled={stopping === summary.id} onClick={stop}>
              {stopping === summary.id ? 'Stopping…' : 'Stop'}
            </button>
          ) : null}
        </span>
      </header>
      {call.isGone && summary.state !== 'answered' ? (
        <p class="notice bad">The server was started anew and knows nothing of this call any more.</p>
      ) : null}
      {summary.state === 'needs_approval' && summary.approval !== null && !call.isGone ? (
        <Approval key={summary.id} approval={summary.approval} onDecide={onDecide} />
      ) : null}
      <Content call={call} />
      {detail?.provenance == null ? null : (
        <>
          {call.isGone ? null : <KeptFiles key={summary.id} id={summary.id} />}
          <ToolCalls provenance={detail.provenance} />
          <Provenance provenance={detail.provenance} cost={summary.dollars} />
        </>
      )}
      {detail === null ? null : (
        <details>
          <summary>Arguments</summary>
          <pre class="output">{code ?? detail.arguments}</pre>
        </details>
      )}
    </article>
  )
}

/** What was streamed while it runs; then the result, which begins with that, and the stream by itself where it does not. */
function Content({ call: { summary, output, detail } }: { readonly call: KnownCall }) {
  const content = detail?.content ?? null
  if (content === null) {
    if (output === '' && summary.state === 'needs_approval') return null
    if (output === '') return <p class="hint empty">No output so far.</p>
    return <Output id={summary.id} text={output} label="Output so far" />
  }
  const parts = typeof content === 'string' ? [{ m_type: 'text', m_content: content }] : content
  const texts = parts.filter(part => part.m_type === 'text')
  const first = texts[0]?.m_content ?? ''
  let figures = 0
  return (
    <>
      {parts.map((part, n) => {
        const key = `${summary.id} ${n}`
        if (part.m_type === 'text') {
          // The first goes on where the stream was, so that nothing moves when the result comes.
          const id = part === texts[0] ? summary.id : key
          return <Output key={part === texts[0] ? 'first' : key} id={id} text={part.m_content} label="Result" />
        }
        if (!isPicture(part.m_type)) return <p class="hint">[{part.m_type.slice(0, 80)}, not shown]</p>
        figures += 1
        return <ImagePart key={key} type={part.m_type} base64={part.m_content} number={figures} />
      })}
      <p class="downloads">
        <button type="button" class="link" onClick={() => saveText('result.txt', texts.map(textOf).join('\n'))}>
          Save text
        </button>
        {first.startsWith(output) ? null : (
          <button type="button" class="link" onClick={() => saveText('streamed.txt', output)}>
            Save all that was streamed ({fileSize(new Blob([output]).size)})
          </button>
        )}
      </p>
    </>
  )
}

function textOf({ m_content }: { readonly m_content: string }): string {
  return m_content
}

function codeOf(detail: CallDetail | null): string | null {
  if (detail === null) return null
  try {
    const { code } = JSON.parse(detail.arguments) as { code?: unknown }
    return typeof code === 'string' ? code : null
  } catch {
    return null
  }
}
