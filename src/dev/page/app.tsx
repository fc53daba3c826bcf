import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { duration } from '../amounts.js'
import { BreakPanel } from './break-panel.js'
import { CallList } from './call-list.js'
import { CallResult } from './call-result.js'
import { kept } from './kept.js'
import { PageHeader } from './page-header.js'
import { RunPanel } from './run-panel.js'
import { decide, follow, readDetail, run, stop } from './server.js'
import { EMPTY, type KnownCall, lacksDetail, reduce, shownCall } from './store.js'
import { elapsedMs, stateOf } from './words.js'

/** For what the screen shows below the editor on a phone. */
const NARROW = '(max-width: 60rem)'

export function App() {
  const [state, dispatch] = useReducer(reduce, EMPTY)
  const [offered, setOffered] = useState<{ readonly code: string } | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const [thread, setThread] = useState(() => kept.read('thread'))
  const results = useRef<HTMLElement>(null)

  useEffect(
    () =>
      follow(
        message => dispatch({ type: 'message', message, now: Date.now() }),
        link => dispatch({ type: 'link', link }),
      ),
    [],
  )

  const shown = shownCall(state)
  useMissingDetail(shown, state.link === 'open', detail => dispatch({ type: 'detail', detail }))

  const start = async (args: Readonly<Record<string, unknown>>) => {
    setProblem(null)
    try {
      const begun = await run(args, thread)
      keepThread(begun.thread)
      dispatch({ type: 'select', id: begun.id })
      if (window.matchMedia(NARROW).matches) results.current?.scrollIntoView({ block: 'start' })
    } catch (error) {
      setProblem((error as Error).message)
    }
  }
  const keepThread = (id: string | null) => {
    kept.write('thread', id)
    setThread(id)
  }
  const edit = (code: string) => setOffered({ code })

  return (
    <>
      <PageHeader state={state} />
      <main>
        <div class="pane">
          <RunPanel
            worker={state.worker}
            parameters={state.parameters}
            canRun={state.link === 'open'}
            offered={offered}
            onRun={args => void start(args)}
          />
          {problem === null ? null : (
            <p role="alert" class="notice bad">
              {problem}
            </p>
          )}
          <p class="thread hint">
            {thread === null ? 'The next call begins a thread.' : `Calls belong to the thread ${thread.slice(0, 11)}.`}
            {thread === null ? null : (
              <button type="button" class="link" onClick={() => keepThread(null)}>
                New thread
              </button>
            )}
          </p>
          <BreakPanel backend={state.backend} activity={state.activity} />
        </div>
        <section class="pane" ref={results} aria-label="Calls">
          {shown === null ? (
            <p class="empty hint">Nothing was run so far. Run the example to see a plot here.</p>
          ) : (
            <>
              <CallList
                calls={[...state.calls.values()]}
                shownId={shown.summary.id}
                clockOffsetMs={state.clockOffsetMs}
                onSelect={id => dispatch({ type: 'select', id })}
              />
              <CallResult
                call={shown}
                clockOffsetMs={state.clockOffsetMs}
                onDecide={approve => decide(shown.summary.id, approve)}
                onStop={() => stop(shown.summary.id)}
                onEdit={edit}
              />
            </>
          )}
        </section>
      </main>
      <p class="visually-hidden" role="status" aria-live="polite">
        {shown === null ? '' : announcement(shown)}
      </p>
    </>
  )
}

/** Asks for what the page lacks of the call that is shown: once, again when it is in another state, and as long as each answer has more. */
function useMissingDetail(
  call: KnownCall | null,
  isConnected: boolean,
  onDetail: (detail: Awaited<ReturnType<typeof readDetail>>) => void,
): void {
  const id = call?.summary.id ?? null
  const lacks = call !== null && isConnected && lacksDetail(call)
  const state = call?.summary.state
  const had = call?.detail?.output.length
  useEffect(() => {
    if (id === null || !lacks) return
    let isOver = false
    readDetail(id).then(
      detail => {
        if (!isOver) onDetail(detail)
      },
      () => {}, // the connection's end is shown, and its return asks again
    )
    return () => {
      isOver = true
    }
  }, [id, lacks, state, had])
}

function announcement(call: KnownCall): string {
  const { words } = stateOf(call)
  const { state } = call.summary
  return state === 'answered' ? `Call ${words} after ${duration(elapsedMs(call, 0))}` : `Call ${words}`
}
