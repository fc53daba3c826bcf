import type { PageState } from './store.js'
import type { Tone } from './words.js'

/** What the page is connected to, in words; colour only repeats them. */
export function PageHeader({ state }: { readonly state: PageState }) {
  const { words, tone } = connection(state)
  const { faults } = state.backend
  return (
    <header class="page">
      <h1>
        python_execute <span class="hint">dev</span>
      </h1>
      <p class="worker hint">{state.worker ?? 'The worker is starting.'}</p>
      <p role="status" class="connection">
        {faults.length === 0 || state.link !== 'open' ? null : (
          <span class="state ask">broken: {faults.map(fault => fault.replaceAll('_', ' ')).join(', ')}</span>
        )}
        <span class={`state ${tone}`}>{words}</span>
      </p>
      {state.wasRestarted && state.link === 'open' ? (
        <p class="notice">
          The server was started anew. What this window has of earlier calls stays until it is reloaded.
        </p>
      ) : null}
    </header>
  )
}

function connection({ link, worker, backend }: PageState): { readonly words: string; readonly tone: Tone } {
  if (link === 'connecting') return { words: 'connecting…', tone: 'calm' }
  if (link === 'lost') return { words: 'server does not answer, trying again…', tone: 'bad' }
  if (worker === null) return { words: 'worker is starting…', tone: 'calm' }
  if (!backend.subscribed) return { words: 'worker is reconnecting…', tone: 'ask' }
  return { words: 'worker connected', tone: 'good' }
}
