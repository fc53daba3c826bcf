import { onTestFinished } from 'vitest'
import {
  type EmbeddedBackend,
  type EmbeddedBackendOptions,
  startEmbeddedBackend,
} from '../../../src/dev/embedded-backend.js'
import type { Answer } from '../../../src/dev/records.js'

/** A backend that is closed after the test; what no worker may ever do is checked then, whatever the test was about. */
export async function startBackend(options: EmbeddedBackendOptions = {}): Promise<EmbeddedBackend> {
  const backend = await startEmbeddedBackend(options)
  onTestFinished(() => backend.close())
  return backend
}

export function textOf(answer: Answer): string {
  if (typeof answer.content !== 'string') throw new Error('the answer is made of parts')
  return answer.content
}

export function statusOf(answer: Answer): unknown {
  return answer.provenance['status']
}

export function usageOf(answer: Answer): {
  readonly queue_ms: number
  readonly start_ms: number
  readonly run_ms: number
} {
  return answer.provenance['usage'] as { queue_ms: number; start_ms: number; run_ms: number }
}

export function streamed(backend: EmbeddedBackend, fcallId: string): string {
  return backend
    .deltas(fcallId)
    .map(delta => delta.text)
    .join('')
}

/** Ids of calls that have not exactly one answer, and whether the backend was ever sent something it cannot use. */
export function faults(backend: EmbeddedBackend, fcallIds: readonly string[]): string[] {
  const unanswered = fcallIds.filter(id => backend.answers.get(id)?.length !== 1)
  return [
    ...unanswered.map(id => `${id} has ${backend.answers.get(id)?.length ?? 0} answers`),
    ...backend.deltaFaults,
    ...backend.duplicates.map(({ fcallId }) => `${fcallId} was answered again`),
  ]
}
