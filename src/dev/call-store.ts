import { randomBytes, randomUUID } from 'node:crypto'
import type { ToolCall } from '../backend/protocol.js'
import type { BackendEvent } from './records.js'

/**
 * When a call that was delivered is delivered again:
 * - `always`: whenever a new subscription comes, even if it has its answer, as by a backend that has lost what it knew of that;
 * - `unanswered`: if it has no answer,: whenever a new subscription comes, even if the old one lives (at least once, at its harshest);
 * - `orphaned`: when a new subscription comes and the one that it was delivered to is gone;
 * - `never`: not at all (at most once).
 * What the real backend does is unknown (docs/protocol.md), so a worker has to live with the first.
 */
export type Redelivery = 'always' | 'unanswered' | 'orphaned' | 'never'

/** Which calls a subscription takes; null takes every group or user. */
interface SubscriptionFilter {
  readonly toolNames: readonly string[]
  readonly fgroupId: string | null
  readonly fuserId: string | null
}

export interface CallStore {
  push(partial: Partial<ToolCall>): ToolCall
  /** The call as it would be delivered now, or null. */
  find(fcallId: string): ToolCall | null
  deliveries(fcallId: string): number
  /** Sets confirmed_by_human and delivers the call again. Throws for a call that does not exist or has its answer. */
  confirm(fcallId: string, approved: boolean): void
  /** The call will not be delivered again: it has its answer, or a placeholder says that it is being worked on. */
  settle(fcallId: string): void
  subscribe(filter: SubscriptionFilter): AsyncIterableIterator<ToolCall>
  /** Ends every subscription from this side. */
  completeAll(): void
  /** While held nothing is delivered. */
  hold(held: boolean): void
  readonly subscribers: number
}

interface Entry {
  call: ToolCall
  settled: boolean
  deliveries: number
  holder: Subscription | null
}

interface Subscription {
  readonly filter: SubscriptionFilter
  /** The consumer that waits for its next call, if it does. */
  pull: ((result: IteratorResult<ToolCall>) => void) | null
  ended: boolean
}

/** Every call in the order of its push, and who gets it when. A call leaves the queue only when a subscriber asks for its next one. */
export function createCallStore(options: {
  readonly redeliver: Redelivery
  readonly emit: (event: BackendEvent) => void
  /** Seconds since the epoch, for fcall_created_ts. */
  readonly epochSeconds?: () => number
}): CallStore {
  const epochSeconds = options.epochSeconds ?? (() => Date.now() / 1000)
  const entries = new Map<string, Entry>()
  const subscriptions = new Set<Subscription>()
  let queue: Entry[] = []
  let held = false

  function push(partial: Partial<ToolCall>): ToolCall {
    const position = entries.size * 2 + 1
    const call: ToolCall = {
      caller_fuser_id: 'fuser_dev',
      located_fgroup_id: 'fgroup_dev',
      ws_id: 'ws_dev',
      fcall_id: `fcall_${randomUUID()}`,
      fcall_ft_id: `ft_${randomUUID()}`,
      fcall_ft_btest_name: '',
      fcall_fexp_name: 'dev',
      fcall_ftm_alt: 100,
      fcall_called_ftm_num: position,
      fcall_call_n: 0,
      fcall_result_ftm_num: position + 1,
      fcall_name: 'python_execute',
      fcall_arguments: '{}',
      fcall_created_ts: epochSeconds(),
      fcall_untrusted_key: randomBytes(24).toString('base64url'),
      connected_persona_id: null,
      confirmed_by_human: null,
      ...partial,
    }
    if (entries.has(call.fcall_id)) throw new Error(`a call ${call.fcall_id} was pushed before`)
    const entry: Entry = { call, settled: false, deliveries: 0, holder: null }
    entries.set(call.fcall_id, entry)
    queue.push(entry)
    options.emit({ type: 'pushed', call })
    dispatch()
    return call
  }

  function confirm(fcallId: string, approved: boolean): void {
    const entry = entries.get(fcallId)
    if (entry === undefined) throw new Error(`there is no call ${fcallId} to confirm`)
    if (entry.settled) throw new Error(`the call ${fcallId} has its answer already`)
    entry.call = { ...entry.call, confirmed_by_human: approved }
    options.emit({ type: 'confirmed', fcallId, approved })
    if (!queue.includes(entry)) queue.push(entry)
    dispatch()
  }

  function settle(fcallId: string): void {
    const entry = entries.get(fcallId)
    if (entry === undefined) return
    entry.settled = true
    queue = queue.filter(waiting => waiting !== entry)
  }

  /** Puts what has to be delivered again in front of what never was, in the order of the pushes. */
  function requeue(): void {
    if (options.redeliver === 'never') return
    const again: Entry[] = []
    for (const entry of entries.values()) {
      if (entry.deliveries === 0 || queue.includes(entry)) continue
      if (entry.settled && options.redeliver !== 'always') continue
      if (options.redeliver === 'orphaned' && entry.holder?.ended === false) continue
      again.push(entry)
    }
    queue = [...again, ...queue]
  }

  function dispatch(): void {
    if (held) return
    for (const entry of [...queue]) {
      const ready = [...subscriptions].filter(subscription => subscription.pull !== null)
      if (ready.length === 0) return
      const taker = ready.find(subscription => takes(subscription.filter, entry.call))
      // A listener that heard of the delivery before may have settled this one meanwhile.
      if (taker !== undefined && queue.includes(entry)) deliver(entry, taker)
    }
  }

  function deliver(entry: Entry, taker: Subscription): void {
    const { pull } = taker
    if (pull === null) return
    taker.pull = null
    // Last in line now: several subscribers take turns.
    subscriptions.delete(taker)
    subscriptions.add(taker)
    queue = queue.filter(waiting => waiting !== entry)
    entry.deliveries += 1
    entry.holder = taker
    pull({ done: false, value: entry.call })
    options.emit({ type: 'delivered', call: entry.call, delivery: entry.deliveries })
  }

  function end(subscription: Subscription): void {
    if (subscription.ended) return
    subscription.ended = true
    subscriptions.delete(subscription)
    subscription.pull?.({ done: true, value: undefined })
    subscription.pull = null
    options.emit({ type: 'unsubscribed' })
  }

  function subscribe(filter: SubscriptionFilter): AsyncIterableIterator<ToolCall> {
    const subscription: Subscription = { filter, pull: null, ended: false }
    subscriptions.add(subscription)
    requeue()
    options.emit({ type: 'subscribed', toolNames: filter.toolNames })
    const done = { done: true, value: undefined } as const
    return {
      [Symbol.asyncIterator]() {
        return this
      },
      next() {
        if (subscription.ended) return Promise.resolve(done)
        return new Promise(resolve => {
          subscription.pull = resolve
          dispatch()
        })
      },
      return() {
        end(subscription)
        return Promise.resolve(done)
      },
      throw(error: unknown) {
        end(subscription)
        return Promise.reject(error)
      },
    }
  }

  return {
    push,
    find: fcallId => entries.get(fcallId)?.call ?? null,
    deliveries: fcallId => entries.get(fcallId)?.deliveries ?? 0,
    confirm,
    settle,
    subscribe,
    completeAll() {
      for (const subscription of [...subscriptions]) end(subscription)
    },
    hold(next) {
      held = next
      dispatch()
    },
    get subscribers() {
      return subscriptions.size
    },
  }
}

function takes(filter: SubscriptionFilter, call: ToolCall): boolean {
  if (!filter.toolNames.includes(call.fcall_name)) return false
  if (filter.fgroupId !== null && filter.fgroupId !== call.located_fgroup_id) return false
  return filter.fuserId === null || filter.fuserId === call.caller_fuser_id
}
