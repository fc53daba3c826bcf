import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Toolset } from '../../src/commands/setup.js'
import type { Misbehaviour } from '../../src/dev/misbehaviour.js'
import { type Bench, openSharedTools, startBench } from './support/bench.js'
import { FULL } from './support/tally.js'

/** Most modes begin with a few quick attempts, each of which may take a websocket and a connection for the registration. */
const OBSERVED_MS = 30_000
/** One a second on average; docs/operations.md says the same. */
const ATTEMPTS_MOST = 30
const OUTAGE_MS = FULL ? 30_000 : 6_000
const FIRST_CALL_WITHIN_MS = 5_000

interface FailureMode {
  readonly name: string
  /** From now on, for good. */
  begin(bench: Bench): void
}

const again =
  (drop: (bench: Bench) => void) =>
  (bench: Bench): void => {
    drop(bench)
    bench.backend.onEvent(event => {
      if (event.type === 'subscribed') setImmediate(() => drop(bench))
    })
  }

const MODES: readonly FailureMode[] = [
  {
    name: 'refused by the network',
    begin({ proxy }) {
      proxy.cut()
      proxy.refuse(true)
    },
  },
  {
    name: 'cut as soon as it is subscribed',
    begin: again(({ backend }) => backend.dropConnections()),
  },
  {
    name: 'closed with 1000 as soon as it is subscribed',
    begin: again(({ backend }) => backend.dropConnections(1000)),
  },
  {
    name: 'closed with 1000 instead of an ack',
    begin({ backend }) {
      backend.misbehave({ kind: 'refuse_init', code: 1000, reason: '' })
      backend.dropConnections(1000)
    },
  },
  {
    name: 'closed with 4403',
    begin({ backend }) {
      backend.misbehave({ kind: 'refuse_init', code: 4403, reason: '403: no' })
      backend.dropConnections(4403)
    },
  },
  {
    name: 'completed as soon as it is subscribed',
    begin: again(({ backend }) => backend.completeSubscriptions()),
  },
  {
    name: 'answered with 503 to the upgrade',
    begin({ backend }) {
      backend.misbehave({ kind: 'refuse_upgrade', status: 503 })
      backend.dropConnections()
    },
  },
  {
    name: 'answered with an error to the subscription',
    begin({ backend }) {
      backend.misbehave({ kind: 'subscription_error', message: '500: not now' })
      backend.dropConnections()
    },
  },
]

const counted = new Map<string, number>()
let tools: Toolset
beforeAll(async () => {
  tools = await openSharedTools(4)
})
afterAll(async () => {
  await tools.pool.close()
  const figures = [...counted].map(([mode, attempts]) => `${attempts} ${mode}`).join(', ')
  process.stdout.write(`faults: connection attempts in ${OBSERVED_MS / 1_000} s: ${figures}\n`)
})

describe.concurrent('a worker that can not stay connected', () => {
  it.each(MODES)('tries at most once a second on average where it is $name', { timeout: 90_000 }, async mode => {
    const bench = await startBench(tools)
    try {
      const before = bench.proxy.attempts.length
      mode.begin(bench)
      await sleep(OBSERVED_MS)
      const attempts = bench.proxy.attempts.length - before
      counted.set(mode.name, attempts)
      // One at least, else nothing was measured; of these some carry no websocket but the registration.
      expect(attempts).toBeGreaterThan(0)
      expect(attempts).toBeLessThanOrEqual(ATTEMPTS_MOST)
    } finally {
      await bench.close()
    }
  })
})

it('a worker with one slot that is full and free in turns subscribes at most once a second on average, and runs each call', {
  timeout: 60_000,
}, async () => {
  const bench = await startBench(tools, { slots: 1 })
  const { backend } = bench
  let subscribed = 0
  const forget = backend.onEvent(event => {
    subscribed += Number(event.type === 'subscribed')
  })
  try {
    const seconds = 12
    const calls = []
    for (let n = 0; n < seconds / 0.4; n++) {
      calls.push(backend.pushCode('import time\ntime.sleep(0.3)'))
      await sleep(400)
    }
    expect(subscribed).toBeGreaterThan(1)
    expect(subscribed).toBeLessThanOrEqual(seconds)
    for (const { fcall_id } of calls) {
      expect((await backend.waitForAnswer(fcall_id, 20_000)).provenance['status']).toBe('completed')
    }
  } finally {
    forget()
    await bench.close()
  }
})

describe.concurrent(`an outage of ${OUTAGE_MS / 1_000} s`, () => {
  const whileMisbehaving = (name: string, ...rules: readonly Misbehaviour[]) => ({
    name,
    async strike({ backend }: Bench) {
      for (const rule of rules) backend.misbehave(rule)
      backend.dropConnections()
      await sleep(OUTAGE_MS)
      backend.clearMisbehaviour()
    },
  })
  const OUTAGES = [
    {
      name: 'nobody listens',
      async strike({ proxy }: Bench) {
        proxy.shut()
        proxy.cut()
        await sleep(OUTAGE_MS)
        await proxy.heal()
      },
    },
    {
      name: 'the backend is down behind a proxy that takes connections',
      async strike({ backend }: Bench) {
        await backend.stop()
        await sleep(OUTAGE_MS)
        await backend.start()
      },
    },
    whileMisbehaving(
      'a load balancer answers 503',
      { kind: 'http_status', status: 503 },
      { kind: 'refuse_upgrade', status: 503 },
    ),
    whileMisbehaving('the upgrade is never answered', { kind: 'hang_upgrade' }),
    whileMisbehaving('no connection is acknowledged', { kind: 'never_ack' }),
    whileMisbehaving('connections are closed with 1013', {
      kind: 'refuse_init',
      code: 1013,
      reason: 'try again later',
    }),
  ]

  it.each(OUTAGES)(
    'in which $name: the first call is served within 5 s of its end',
    {
      timeout: 30_000 + OUTAGE_MS,
    },
    async ({ strike }) => {
      const bench = await startBench(tools)
      try {
        const over = strike(bench)
        const { fcall_id } = bench.backend.pushCode('print("at last")')
        await over
        const answer = await bench.backend.waitForAnswer(fcall_id, FIRST_CALL_WITHIN_MS)
        expect(answer.content).toBe('at last\n')
      } finally {
        await bench.close()
      }
    },
  )
})
