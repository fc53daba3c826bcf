import { useEffect, useRef, useState } from 'preact/hooks'
import { createEditor, type Editor } from './editor.js'
import { type Example, examplesFor } from './examples.js'
import { kept } from './kept.js'

interface Props {
  readonly worker: string | null
  /** JSON schema of the tool's arguments, or null. */
  readonly parameters: Readonly<Record<string, unknown>> | null
  readonly canRun: boolean
  /** Code to be put into the editor; another object each time. */
  readonly offered: { readonly code: string } | null
  onRun(args: Readonly<Record<string, unknown>>): void
}

/** The editor and the tool's other arguments. What is in it outlives a reload. */
export function RunPanel({ worker, parameters, canRun, offered, onRun }: Props) {
  const place = useRef<HTMLDivElement>(null)
  const editor = useRef<Editor | null>(null)
  const button = useRef<HTMLButtonElement>(null)
  const [example, setExample] = useState(() => (kept.read('code') === null ? 'plot' : ''))
  const [timeout, setTimeout] = useState('')
  const examples = examplesFor(worker)

  const run = () =>
    onRun({ code: editor.current?.code ?? '', timeout_seconds: timeout === '' ? null : Number(timeout) })
  // The editor is made once and has to find the latest of these.
  const latest = useRef(run)
  latest.current = canRun ? run : () => {}

  useEffect(() => {
    if (place.current === null) return
    const made = createEditor(place.current, {
      code: kept.read('code') ?? examples[0]?.code ?? '',
      label: 'Python code',
      onRun: () => latest.current(),
      onLeave: () => button.current?.focus(),
      onChange: code => {
        kept.write('code', code)
        setExample(now => (examples.some(({ name, code: whole }) => name === now && whole === code) ? now : ''))
      },
    })
    editor.current = made
    made.focus()
    return () => made.close()
  }, [])

  const choose = ({ name, code }: Example) => {
    editor.current?.replace(code)
    setExample(name)
    editor.current?.focus()
  }
  // Which libraries there are is known once the worker is up: the first example then has to be one that works.
  useEffect(() => {
    const [first] = examples
    if (worker !== null && example === 'plot' && first !== undefined && editor.current?.code !== first.code)
      choose(first)
  }, [worker])
  useEffect(() => {
    if (offered === null) return
    editor.current?.replace(offered.code)
    editor.current?.focus()
  }, [offered])

  return (
    <section class="run" aria-label="Code to run">
      <div class="bar">
        <label>
          <span>Example</span>
          <select
            value={example}
            onChange={({ currentTarget }) => {
              const chosen = examples.find(({ name }) => name === currentTarget.value)
              if (chosen !== undefined) choose(chosen)
            }}
          >
            <option value="" disabled hidden>
              your own code
            </option>
            {examples.map(({ name, title }) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <span class="hint" id="editor-keys">
          <kbd>Ctrl</kbd> <kbd>Enter</kbd> runs · <kbd>Esc</kbd> leaves the editor
        </span>
      </div>
      <div class="editor" ref={place} />
      <div class="bar">
        <label title={descriptionOf(parameters, 'timeout_seconds')}>
          <span>timeout_seconds</span>
          <input
            type="number"
            inputMode="numeric"
            step={1}
            placeholder="null"
            value={timeout}
            aria-describedby="timeout-hint"
            onInput={({ currentTarget }) => setTimeout(currentTarget.value)}
          />
        </label>
        <span class="hint" id="timeout-hint">
          {descriptionOf(parameters, 'timeout_seconds')}
        </span>
        <button type="button" class="go" ref={button} disabled={!canRun} onClick={run}>
          Run
        </button>
      </div>
    </section>
  )
}

function descriptionOf(schema: Props['parameters'], name: string): string {
  const properties = (schema?.['properties'] ?? {}) as Readonly<Record<string, { readonly description?: string }>>
  return properties[name]?.description ?? ''
}
