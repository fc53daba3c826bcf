import { setTimeout as sleep } from 'node:timers/promises'
import type { EmbeddedBackend } from '../../../src/dev/embedded-backend.js'
import type { Misbehaviour } from '../../../src/dev/misbehaviour.js'
import type { WireProxy } from './proxy.js'

interface Wire {
  readonly backend: EmbeddedBackend
  readonly proxy: WireProxy
}

/** Something that goes wrong for about `ms`, or once; resolves when that is over. Several may be under way at a time. */
export interface WireFault {
  readonly name: string
  /**
   * Whether it ends a subscription: so that the worker comes back within seconds, or so that it takes the end for a refusal and
   * stays away for longer each time.
   */
  readonly ends: 'nothing' | 'subscription' | 'subscription, sent away'
  strike(wire: Wire, ms: number): Promise<void>
}

const close = (code: number, ends: WireFault['ends'] = 'subscription'): WireFault => ({
  name: `close ${code}`,
  ends,
  strike: async ({ backend }) => backend.dropConnections(code),
})

/** Not for longer, though it has met none: a worker that posts seldom since posts fail would never be done with what piles up. */
const post = (name: string, rule: Misbehaviour): WireFault => ({
  name,
  ends: 'nothing',
  strike: async ({ backend }, ms) => {
    const clear = backend.misbehave(rule, { operation: 'cloudtool_post_result', times: 2 })
    await sleep(ms)
    clear()
  },
})

/** Met by a worker that connects meanwhile. */
const meanwhile = (name: string, rule: Misbehaviour): WireFault => ({
  name,
  ends: 'nothing',
  async strike({ backend }, ms) {
    const clear = backend.misbehave(rule)
    await sleep(ms)
    clear()
  },
})

const wire = (name: string, begin: (proxy: WireProxy) => void, end: (proxy: WireProxy) => unknown): WireFault => ({
  name,
  ends: 'nothing',
  async strike({ proxy }, ms) {
    begin(proxy)
    await sleep(ms)
    await end(proxy)
  },
})

const once = (name: string, begin: (proxy: WireProxy) => void): WireFault => ({
  name,
  ends: 'subscription',
  strike: async ({ proxy }) => begin(proxy),
})

/** Every fault of the network and the backend that a worker gets over within seconds. */
export const WIRE_FAULTS: readonly WireFault[] = [
  close(1000),
  close(1001),
  close(1011, 'subscription, sent away'),
  close(1012),
  close(4403, 'subscription, sent away'),
  close(4429, 'subscription, sent away'),
  close(4500, 'subscription, sent away'),
  { name: 'websockets ended', ends: 'subscription', strike: async ({ backend }) => backend.dropConnections() },
  {
    name: 'subscriptions completed',
    ends: 'subscription',
    strike: async ({ backend }) => backend.completeSubscriptions(),
  },
  {
    name: 'what is no message',
    ends: 'subscription, sent away',
    strike: async ({ backend }) => backend.sendRaw('{"type":'),
  },
  {
    name: 'what is no call',
    ends: 'nothing',
    strike: async ({ backend }) => backend.sendToSubscriptions('next', { data: { cloudtool_wait_for_call: {} } }),
  },
  {
    name: 'backend restarted',
    ends: 'subscription',
    async strike({ backend }, ms) {
      await backend.stop()
      await sleep(ms)
      await backend.start()
    },
  },
  once('cut', proxy => proxy.cut()),
  once('reset', proxy => proxy.reset()),
  once('half-closed up', proxy => proxy.halfClose('up')),
  once('half-closed down', proxy => proxy.halfClose('down')),
  wire(
    'frozen',
    proxy => proxy.freeze(),
    proxy => proxy.thaw(),
  ),
  wire(
    'frozen up',
    proxy => proxy.freeze('up'),
    proxy => proxy.thaw(),
  ),
  wire(
    'frozen down',
    proxy => proxy.freeze('down'),
    proxy => proxy.thaw(),
  ),
  wire(
    'shut',
    proxy => proxy.shut(),
    proxy => proxy.heal(),
  ),
  wire(
    'refusing',
    proxy => proxy.refuse(true),
    proxy => proxy.refuse(false),
  ),
  wire(
    'throttled',
    proxy => proxy.throttle(20_000),
    proxy => proxy.throttle(null),
  ),
  wire(
    'delayed',
    proxy => proxy.delay(80),
    proxy => proxy.delay(0),
  ),
  ...[500, 502, 503, 504].flatMap(status => [
    post(`post ${status}`, { kind: 'http_status', status }),
    post(`post ${status} after it was carried out`, { kind: 'http_status', status, commit: true }),
  ]),
  post('post 429', { kind: 'http_status', status: 429, headers: { 'retry-after': '1' } }),
  post('post reset', { kind: 'http_reset' }),
  post('post reset after it was carried out', { kind: 'http_reset', commit: true }),
  post('post slow', { kind: 'http_delay', ms: 700 }),
  post('post slow after it was carried out', { kind: 'http_delay', ms: 700, commit: true }),
  post('post error', { kind: 'graphql_error', message: '500: try again' }),
  post('post no JSON', { kind: 'http_body', body: '<html>', commit: true }),
  meanwhile('upgrade refused', { kind: 'refuse_upgrade', status: 503 }),
  meanwhile('init refused', { kind: 'refuse_init', code: 1013, reason: 'busy' }),
  meanwhile('subscription refused', { kind: 'subscription_error', message: '500: not now' }),
]

/** One start or stop of a backend at a time, and one change of the proxy's listener. */
export function inTurn(): (fault: WireFault, wire: Wire, ms: number) => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  return (fault, at, ms) => {
    if (fault.name !== 'backend restarted' && fault.name !== 'shut') return fault.strike(at, ms)
    last = last.then(() => fault.strike(at, ms))
    return last
  }
}
