import { summarise } from './call-view.js'
import type { EmbeddedBackend } from './embedded-backend.js'
import type { Answer } from './records.js'
import type { Sample } from './samples.js'

/** The last delta travels on a websocket of its own and may be a moment behind the result. */
const LATE_DELTA_LIMIT_MS = 2_000

/** Waits until the worker has both registered the tool and asked for calls. */
export async function workerConnected(backend: EmbeddedBackend, limitMs: number, signal?: AbortSignal): Promise<void> {
  await backend.waitFor(
    () => backend.subscribers > 0 && backend.registrations.length > 0,
    limitMs,
    () => (backend.subscribers > 0 ? 'the worker did not register its tool' : 'the worker did not subscribe'),
    signal,
  )
}

/** What of a sample's answer is not as it should be: status, text, output that came while the code ran, and what was streamed. */
export async function checkSample(
  backend: EmbeddedBackend,
  sample: Sample,
  answer: Answer,
): Promise<readonly string[]> {
  const agreed = await agrees(backend, sample, answer)
  return [...check(sample, answer, backend), ...(agreed ? [] : ['the result does not say what was streamed'])]
}

/**
 * Whether the result says what was streamed: the same where the sample only prints, else as its beginning (a value or a traceback
 * follows). Waits for a last delta that is on its way.
 */
async function agrees(backend: EmbeddedBackend, sample: Sample, answer: Answer): Promise<boolean> {
  const text = summarise(answer).text.trimEnd()
  const agree = (): boolean => {
    const streamed = streamedText(backend, answer.fcallId).trimEnd()
    return sample.expectedStream === null ? streamed !== '' && text.startsWith(streamed) : streamed === text
  }
  return await backend.waitFor(agree, LATE_DELTA_LIMIT_MS).then(
    () => true,
    () => false,
  )
}

function check(sample: Sample, answer: Answer, backend: EmbeddedBackend): string[] {
  const faults: string[] = []
  const { status, text } = summarise(answer)
  if (status !== sample.expectedStatus) faults.push(`ended as ${status}, expected ${sample.expectedStatus}`)
  for (const expected of sample.expectedTexts) {
    if (!text.includes(expected)) faults.push(`the result lacks ${JSON.stringify(expected)}`)
  }
  if (sample.expectedStream !== null) {
    const { deltas, overMs } = sample.expectedStream
    const came = backend.deltas(answer.fcallId)
    const spread = (came.at(-1)?.atMs ?? 0) - (came[0]?.atMs ?? 0)
    if (came.length < deltas || spread < overMs) {
      faults.push(
        `${came.length} messages over ${Math.round(spread)} ms were streamed, expected ${deltas} over ${overMs}`,
      )
    }
  }
  return faults
}

function streamedText(backend: EmbeddedBackend, fcallId: string): string {
  return backend
    .deltas(fcallId)
    .map(delta => delta.text)
    .join('')
}
