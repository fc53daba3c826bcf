import { duration } from '../amounts.js'
import type { KnownCall } from './store.js'
import { useNow } from './use-now.js'
import { clock, elapsedMs, isOpen, stateOf, ticking } from './words.js'

interface Props {
  readonly calls: readonly KnownCall[]
  readonly shownId: string | null
  readonly clockOffsetMs: number
  onSelect(id: string): void
}

/** The newest call first. The arrow keys go from one to the next. */
export function CallList({ calls, shownId, clockOffsetMs, onSelect }: Props) {
  const now = useNow(calls.some(isOpen)) + clockOffsetMs
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll('button')]
    const next = buttons[buttons.indexOf(event.target as HTMLButtonElement) + step]
    if (step === 0 || next === undefined) return
    event.preventDefault()
    next.focus()
  }
  return (
    <ol class="calls" onKeyDown={onKeyDown}>
      {calls.toReversed().map(call => {
        const { summary } = call
        const { words, tone } = stateOf(call)
        const elapsed = elapsedMs(call, now)
        return (
          <li key={summary.id}>
            <button
              type="button"
              class="call"
              aria-current={summary.id === shownId ? 'true' : undefined}
              onClick={() => onSelect(summary.id)}
            >
              <span class={`state ${tone}`}>{words}</span>
              <code>{summary.title}</code>
              <span class="took">{isOpen(call) ? ticking(elapsed) : duration(elapsed)}</span>
              <time class="hint">{clock(summary.createdAt)}</time>
            </button>
          </li>
        )
      })}
    </ol>
  )
}
