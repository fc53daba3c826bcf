import { z } from 'zod'
import { parseJson } from './answer-format.js'
import { type CallView, createCallView } from './call-view.js'
import type { EmbeddedBackend } from './embedded-backend.js'
import type { BackendEvent } from './records.js'
import { type Paint, printable, type Terminal } from './terminal.js'

const argumentsSchema = z.looseObject({ code: z.string() })

/**
 * A view per call and a line per event beside them; calls side by side are told apart by the first letters of their id. Returns how
 * many calls have neither their answer nor wait for a person.
 */
export function showEvents(backend: EmbeddedBackend, out: Terminal, paint: Paint): () => number {
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

/** One line for a person, or null where there is nothing to say. */
export function lineOf(event: Exclude<BackendEvent, { type: 'pushed' | 'delta' | 'answered' }>): string | null {
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
    case 'upgrade_refused':
      return `${event.socket} websocket refused (${event.status})`
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
