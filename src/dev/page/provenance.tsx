import type { ComponentChildren } from 'preact'
import { fileSize } from '../../quantities.js'
import { dollars, duration } from '../amounts.js'

type Facts = Readonly<Record<string, unknown>>

interface ToolCall {
  readonly tool: string
  readonly ok: boolean
  readonly ms: number
  readonly args_preview: string
  readonly error: string | null
}

/** What tools the code called, as the worker's ledger has it; nothing where there were none. */
export function ToolCalls({ provenance }: { readonly provenance: Facts }) {
  const calls = (Array.isArray(provenance['tool_calls']) ? provenance['tool_calls'] : []) as readonly ToolCall[]
  if (calls.length === 0) return null
  return (
    <details>
      <summary>
        Tool calls <span class="hint">{calls.length}</span>
      </summary>
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">Tool</th>
              <th scope="col">Ended</th>
              <th scope="col">Took</th>
              <th scope="col">Arguments</th>
            </tr>
          </thead>
          <tbody>
            {calls.map((call, n) => (
              <tr key={n}>
                <td>{call.tool}</td>
                <td>{call.ok ? 'ok' : (call.error ?? 'failed')}</td>
                <td>{duration(call.ms)}</td>
                <td>
                  <code>{call.args_preview}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  )
}

/** Where a result comes from: the facts that people ask for, and all of it as it was posted. */
export function Provenance({ provenance, cost }: { readonly provenance: Facts; readonly cost: number | null }) {
  const usage = facts(provenance['usage'])
  const worker = facts(provenance['worker'])
  const interpreter = facts(provenance['interpreter'])
  const layers = Object.entries(facts(provenance['layers']))
  return (
    <details>
      <summary>
        Provenance <span class="hint">{summaryOf(provenance)}</span>
      </summary>
      <dl class="facts">
        <Fact name="Cost">{cost === null ? null : dollars(cost)}</Fact>
        <Fact name="Ran">{number(usage['run_ms'], duration)}</Fact>
        <Fact name="Waited">{number(usage['queue_ms'], duration)}</Fact>
        <Fact name="CPU">{number(usage['cpu_ms'], duration)}</Fact>
        <Fact name="Peak memory">{number(usage['max_rss_bytes'], fileSize)}</Fact>
        <Fact name="Sandbox">{word(provenance['tier'], tier => `${tier} tier`)}</Fact>
        <Fact name="Python">{word(interpreter['version'])}</Fact>
        <Fact name="Worker">{word(worker['version'], version => `${version}, ${String(worker['id'])}`)}</Fact>
        <Fact name="Code, SHA-256" isLong>
          {word(provenance['code_sha256'])}
        </Fact>
        <Fact name="Layers in force" isLong>
          {layers
            .filter(([, is]) => is === true)
            .map(([name]) => name)
            .join(', ')}
        </Fact>
        <Fact name="Not in force" isLong>
          {layers
            .filter(([, is]) => is !== true)
            .map(([name, why]) => `${name}: ${String(why)}`)
            .join('; ')}
        </Fact>
      </dl>
      <details>
        <summary>All of it, as posted</summary>
        <pre class="output">{JSON.stringify(provenance, null, 2)}</pre>
      </details>
    </details>
  )
}

function Fact(props: { readonly name: string; readonly isLong?: boolean; readonly children: ComponentChildren }) {
  const { name, isLong = false, children } = props
  if (children === null || children === '') return null
  return (
    <div class={isLong ? 'long' : ''}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function summaryOf(provenance: Facts): string {
  const tier = word(provenance['tier'], text => `${text} tier`)
  const python = word(facts(provenance['interpreter'])['version'], text => `Python ${text}`)
  return [tier, python].filter(text => text !== null).join(' · ')
}

function facts(value: unknown): Facts {
  return typeof value === 'object' && value !== null ? (value as Facts) : {}
}

function number(value: unknown, words: (value: number) => string): string | null {
  return typeof value === 'number' ? words(value) : null
}

function word(value: unknown, words: (value: string) => string = text => text): string | null {
  return typeof value === 'string' && value !== '' ? words(value) : null
}
