import { useState } from 'preact/hooks'

interface Props {
  readonly approval: { readonly command: string; readonly explanation: string }
  onDecide(approve: boolean): Promise<void>
}

/** What the worker asks a person, as it words it, and the two answers. */
export function Approval({ approval, onDecide }: Props) {
  const [decided, setDecided] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const decide = (approve: boolean) => {
    setDecided(true)
    setProblem(null)
    onDecide(approve).catch((error: Error) => {
      setProblem(error.message)
      setDecided(false)
    })
  }
  return (
    <section class="approval" aria-label="Approval">
      <p class="question">{approval.explanation}</p>
      <pre class="output">{approval.command}</pre>
      <p class="actions">
        <button type="button" disabled={decided} onClick={() => decide(true)}>
          Approve
        </button>
        <button type="button" class="secondary" disabled={decided} onClick={() => decide(false)}>
          Decline
        </button>
      </p>
      {problem === null ? null : (
        <p role="alert" class="notice bad">
          {problem}
        </p>
      )}
    </section>
  )
}
