import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { ToolCall } from '../backend/protocol.js'
import { parseJson } from './answer-format.js'
import { summarise } from './call-view.js'
import type { EmbeddedBackend } from './embedded-backend.js'
import type { PageFaults } from './page-faults.js'
import type { Activity, BackendState, CallDetail, CallSummary, Hello, PageMessage } from './page-protocol.js'
import type { Answer, BackendEvent } from './records.js'
import { lineOf } from './show-events.js'

/** What a page that comes anew is told of; older calls stay answered and are not listed. */
const CALLS_LISTED = 200
const ACTIVITY_KEPT = 100
const TITLE_UNITS = 80

const argumentsSchema = z.looseObject({ code: z.string() })

export interface PageFeed {
  hello(): Hello
  detail(fcallId: string): CallDetail | null
  find(fcallId: string): CallSummary | null
  /** Whose files the call's are; null: there is no such call. */
  threadOf(fcallId: string): { readonly group: string; readonly thread: string } | null
  listen(send: (message: PageMessage) => void): () => void
  /** The worker is up; one line about it. */
  workerIsUp(description: string): void
  /** The backend was told to misbehave, or to stop that. */
  faultsChanged(text: string): void
  close(): void
}

/** All that happens at the embedded backend, as the page shows it. */
export function createPageFeed(backend: EmbeddedBackend, faults: PageFaults, now: () => number = Date.now): PageFeed {
  const instance = randomUUID()
  const calls = new Map<string, CallSummary>()
  const sent = new Map<string, string>()
  const groups = new Map<string, string>()
  const activity: Activity[] = []
  const listeners = new Set<(message: PageMessage) => void>()
  let worker: string | null = null
  let lastBackend = ''

  function tell(message: PageMessage): void {
    for (const listener of [...listeners]) listener(message)
  }

  function backendState(): BackendState {
    return {
      graphql: backend.connections('graphql'),
      delta: backend.connections('delta'),
      subscribed: backend.subscribers > 0,
      faults: faults.active,
    }
  }

  function tellBackend(): void {
    const state = backendState()
    const text = JSON.stringify(state)
    if (text === lastBackend) return
    lastBackend = text
    tell({ type: 'backend', backend: state })
  }

  function note(text: string): void {
    const last = activity.at(-1)
    const again = last?.text === text
    const entry: Activity = again
      ? { ...last, at: now(), times: last.times + 1 }
      : { number: (last?.number ?? 0) + 1, at: now(), text, times: 1 }
    if (again) activity.pop()
    activity.push(entry)
    if (activity.length > ACTIVITY_KEPT) activity.shift()
    tell({ type: 'activity', activity: entry })
  }

  function change(fcallId: string, changes: Partial<CallSummary>): void {
    const before = calls.get(fcallId)
    if (before === undefined) return
    const call = { ...before, ...changes }
    calls.set(fcallId, call)
    tell({ type: 'call', call })
  }

  function pushed(call: ToolCall): void {
    const parsed = argumentsSchema.safeParse(parseJson(call.fcall_arguments))
    sent.set(call.fcall_id, call.fcall_arguments)
    groups.set(call.fcall_id, call.located_fgroup_id)
    const summary: CallSummary = {
      id: call.fcall_id,
      state: 'waiting',
      status: null,
      thread: call.fcall_ft_id,
      createdAt: now(),
      endedAt: null,
      streamed: 0,
      deliveries: 0,
      approval: null,
      approved: null,
      dollars: null,
      title: titleOf(parsed.success ? parsed.data.code : call.fcall_arguments),
    }
    calls.set(call.fcall_id, summary)
    tell({ type: 'call', call: summary })
  }

  function streamed(fcallId: string, text: string): void {
    const call = calls.get(fcallId)
    if (call === undefined) return
    calls.set(fcallId, { ...call, streamed: call.streamed + text.length })
    tell({ type: 'delta', id: fcallId, at: call.streamed, text })
  }

  function answered(answer: Answer): void {
    const { status } = summarise(answer)
    change(answer.fcallId, { state: 'answered', status, endedAt: now(), dollars: answer.dollars })
  }

  function take(event: BackendEvent): void {
    switch (event.type) {
      case 'pushed':
        pushed(event.call)
        break
      case 'delivered': {
        const wasAnswered = calls.get(event.call.fcall_id)?.state === 'answered'
        change(event.call.fcall_id, { deliveries: event.delivery, ...(wasAnswered ? {} : { state: 'running' }) })
        break
      }
      case 'delta':
        streamed(event.fcallId, event.delta.text)
        break
      case 'answered':
        answered(event.answer)
        break
      case 'confirmation_requested': {
        const { fcallId, command, explanation } = event.confirmation
        change(fcallId, { state: 'needs_approval', approval: { command, explanation } })
        break
      }
      case 'confirmed':
        change(event.fcallId, { state: 'waiting', approved: event.approved })
        break
      case 'registered':
        tell({ type: 'tool', worker, parameters: event.registration.parameters })
        break
      default:
    }
  }

  const forget = backend.onEvent(event => {
    take(event)
    const line = activityOf(event, faults)
    if (line !== null) note(line)
    tellBackend()
  })

  return {
    hello: () => ({
      instance,
      now: now(),
      worker,
      parameters: backend.registrations.at(-1)?.parameters ?? null,
      backend: backendState(),
      calls: [...calls.values()].slice(-CALLS_LISTED),
      activity: [...activity],
    }),
    find: fcallId => calls.get(fcallId) ?? null,
    threadOf(fcallId) {
      const group = groups.get(fcallId)
      const thread = calls.get(fcallId)?.thread
      return group === undefined || thread === undefined ? null : { group, thread }
    },
    detail(fcallId) {
      const given = sent.get(fcallId)
      if (given === undefined) return null
      const answer = backend.answers.get(fcallId)?.[0]
      return {
        id: fcallId,
        arguments: given,
        output: backend
          .deltas(fcallId)
          .map(delta => delta.text)
          .join(''),
        content: answer?.content ?? null,
        provenance: answer?.provenance ?? null,
      }
    },
    listen(send) {
      listeners.add(send)
      return () => {
        listeners.delete(send)
      }
    },
    workerIsUp(description) {
      worker = description
      tell({ type: 'tool', worker, parameters: backend.registrations.at(-1)?.parameters ?? null })
    },
    faultsChanged(text) {
      note(text)
      tellBackend()
    },
    close() {
      tell({ type: 'closing' })
      forget()
    },
  }
}

/** null for what shows elsewhere at the page. */
function activityOf(event: BackendEvent, faults: PageFaults): string | null {
  switch (event.type) {
    case 'pushed':
    case 'delta':
    case 'answered':
      return null
    case 'connected':
      return `${event.socket} websocket connected`
    case 'disconnected':
      return `${event.socket} websocket closed (${event.code})`
    case 'requested':
      return event.operation === 'cloudtool_post_result' && faults.active.includes('refuse_posts')
        ? 'a post of a result was refused with 503'
        : null
    default:
      return lineOf(event)
  }
}

function titleOf(code: string): string {
  const lines = code.split('\n').map(line => line.trim())
  const line =
    lines.find(text => text !== '' && !/^(?:#|import |from )/.test(text)) ?? lines.find(text => text !== '') ?? ''
  return line.length > TITLE_UNITS ? `${line.slice(0, TITLE_UNITS).toWellFormed()}…` : line
}
