import { useState } from 'preact/hooks'
import type { Activity, BackendState, Fault } from '../page-protocol.js'
import { dropConnections, setFault } from './server.js'
import { clock } from './words.js'

const FAULTS: readonly { readonly fault: Fault; readonly label: string; readonly what: string }[] = [
  {
    fault: 'refuse_posts',
    label: 'Refuse results',
    what: 'Results are refused with 503: the worker keeps them and tries again.',
  },
  {
    fault: 'refuse_connections',
    label: 'Refuse websockets',
    what: 'New websockets are refused with 503: it tries again, later and later.',
  },
  {
    fault: 'silence',
    label: 'Go silent',
    what: 'Nothing is read or sent: it notices the missing answers to its pings.',
  },
]

/** Buttons that make the backend fail, and below them what then happens between it and the worker. */
export function BreakPanel(props: { readonly backend: BackendState; readonly activity: readonly Activity[] }) {
  const { backend, activity } = props
  const [problem, setProblem] = useState<string | null>(null)
  const act = (action: Promise<void>) => {
    setProblem(null)
    action.catch((error: Error) => setProblem(error.message))
  }
  return (
    <details class="break">
      <summary>
        Break things <span class="hint">and see the worker recover</span>
      </summary>
      <ul class="faults">
        <li>
          <button type="button" class="small secondary outline" onClick={() => act(dropConnections())}>
            Drop websockets
          </button>
          <span class="hint">Once: the worker connects anew, and code that runs goes on.</span>
        </li>
        {FAULTS.map(({ fault, label, what }) => {
          const isOn = backend.faults.includes(fault)
          return (
            <li key={fault}>
              <button
                type="button"
                class={isOn ? 'small on' : 'small secondary outline'}
                aria-pressed={isOn}
                onClick={() => act(setFault(fault, !isOn))}
              >
                {label}
              </button>
              <span class="hint">{what}</span>
            </li>
          )
        })}
      </ul>
      {problem === null ? null : (
        <p role="alert" class="notice bad">
          {problem}
        </p>
      )}
      <ol class="activity" aria-label="What happened at the backend, the newest first">
        {activity.toReversed().map(({ number, at, text, times }) => (
          <li key={number}>
            <time>{clock(at)}</time> {text}
            {times > 1 ? <span class="hint"> × {times}</span> : null}
          </li>
        ))}
      </ol>
    </details>
  )
}
