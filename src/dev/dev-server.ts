import { once } from 'node:events'
import { z } from 'zod'
import { parseJson } from './answer-format.js'
import { type CallView, createCallView } from './call-view.js'
import type { StartWorker } from './demo.js'
import { addDevRoutes } from './dev-routes.js'
import { type EmbeddedBackend, startEmbeddedBackend } from './embedded-backend.js'
import type { BackendEvent } from './records.js'
import { createPaint, type Paint, printable, type Terminal } from './terminal.js'

const argumentsSchema = z.looseObject({ code: z.string() })

/** A stop that is over by then needs no words about what it waits for. */
const QUIET_STOP_MS = 200

/**
 * An embedded backend and a worker that stay up until `signal` aborts; calls come in over `POST /dev/call` and are shown in `out` as they
 * run. Calls that still run then may end, unless `hurry` aborts as well; one that waits for a person is not waited for. Returns the
 * exit code 0; rejects with the worker's own error if it does not start.
 */
export async function runDev(options: {
  readonly startWorker: StartWorker
  readonly out: Terminal
  readonly signal: AbortSignal
  readonly hurry?: AbortSignal
  /** TCP port on 127.0.0.1; default 0, any free one. */
  readonly port?: number
  readonly env?: NodeJS.ProcessEnv
}): Promise<number> {
  const { out, signal } = options
  const paint = createPaint(out, options.env ?? process.env)
  const backend = await startEmbeddedBackend({ port: options.port ?? 0 })
  try {
    const routes = addDevRoutes(backend)
    const running = showEvents(backend, out, paint)
    const worker = await options.startWorker(backend.url, backend.apiKey)
    try {
      out.write(`${paint.dim('backend')}  ${backend.url}\n${paint.dim('worker')}   ${worker.describe()}\n`)
      out.write(`Send it a call (Ctrl-C ends both):\n  ${paint.cyan(curlLine(backend.url))}\n`)
      if (!signal.aborted) await once(signal, 'abort')
      out.write('\nStopping.\n')
    } finally {
      const told = setTimeout(() => {
        const line = waitingLine(running(), worker.drainMs)
        if (line !== null) out.write(`${line}\n`)
      }, QUIET_STOP_MS)
      const interrupt = () => worker.interrupt()
      options.hurry?.addEventListener('abort', interrupt, { once: true })
      if (options.hurry?.aborted === true) interrupt()
      await worker.stop()
      clearTimeout(told)
      options.hurry?.removeEventListener('abort', interrupt)
      await routes.close()
    }
  } finally {
    await backend.close()
  }
  return 0
}

function waitingLine(calls: number, drainMs: number): string | null {
  if (calls === 0) return null
  return `waiting up to ${drainMs / 1000} s for ${calls} running ${calls === 1 ? 'call' : 'calls'}; Ctrl-C again ends it now`
}

function curlLine(url: string): string {
  return `curl -N ${url}dev/call -H 'content-type: application/json' -d '{"code": "print(6 * 7)"}'`
}

/**
 * A view per call and a line per event beside them; calls side by side are told apart by the first letters of their id. Returns how
 * many calls have neither their answer nor wait for a person.
 */
function showEvents(backend: EmbeddedBackend, out: Terminal, paint: Paint): () => number {
  const views = new Map<string, CallView>()
  const undecided = new Set<string>()
  backend.onEvent(event => {
    if (event.type === 'confirmation_requested') undecided.add(event.confirmation.fcallId)
    if (event.type === 'confirmed') undecided.delete(event.fcallId)
    if (event.type === 'pushed') {
      const { fcall_id, fcall_name, fcall_arguments } = event.call
      const label = `${shortId(fcall_id)} `
      const view = createCallView({ out, paint, label, live: false, now: () => performance.now() })
      views.set(fcall_id, view)
      const sent = argumentsSchema.safeParse(parseJson(fcall_arguments))
      view.begin(`${label}${fcall_name}`, sent.success ? sent.data.code : fcall_arguments, 8)
    } else if (event.type === 'delta') {
      views.get(event.fcallId)?.delta(event.delta)
    } else if (event.type === 'answered') {
      views.get(event.answer.fcallId)?.end(event.answer)
      views.delete(event.answer.fcallId)
    } else {
      const line = lineOf(event)
      if (line !== null) out.write(`${paint.dim(printable(line))}\n`)
    }
  })
  return () => [...views.keys()].filter(fcallId => !undecided.has(fcallId)).length
}

function lineOf(event: Exclude<BackendEvent, { type: 'pushed' | 'delta' | 'answered' }>): string | null {
  switch (event.type) {
    case 'delivered':
      return event.delivery > 1 ? `${shortId(event.call.fcall_id)} delivered again (${event.delivery})` : null
    case 'registered':
      return `registered ${event.registration.toolName}`
    case 'confirmation_requested':
      return `${shortId(event.confirmation.fcallId)} waits for a person: ${event.confirmation.explanation}`
    case 'confirmed':
      return `${shortId(event.fcallId)} ${event.approved ? 'approved' : 'declined'}`
    case 'duplicate':
      return `${shortId(event.answer.fcallId)} answered a second time, refused`
    case 'placeholder':
      return `${shortId(event.answer.fcallId)} is still being worked on`
    case 'request_refused':
    case 'delta_refused':
      return `refused: ${event.reason}`
    case 'subscribed':
      return `the worker takes calls of ${event.toolNames.join(', ')}`
    case 'unsubscribed':
      return 'the worker takes no more calls'
    case 'requested':
    case 'connected':
    case 'disconnected':
      return null
  }
}

function shortId(fcallId: string): string {
  return fcallId.replace('fcall_', '').slice(0, 4)
}
