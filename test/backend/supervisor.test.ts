import { afterEach, describe, expect, it } from 'vitest'
import { runSession } from '../../src/backend/session.js'
import type { SessionEnd } from '../../src/backend/session-end.js'
import { createSupervisor, type Supervisor, type SupervisorState } from '../../src/backend/supervisor.js'
import { captureLog, fakeTime, keyCredentials } from './support/fixtures.js'
import { acknowledging, startWs, until } from './support/servers.js'

let cleanup: (() => unknown)[] = []

afterEach(async () => {
  for (const close of cleanup) await close()
  cleanup = []
})

const REFUSED: SessionEnd = {
  kind: 'retry',
  cause: 'network',
  reason: 'network: ECONNREFUSED',
  stableMs: 0,
  retryAfterMs: null,
}
const SENT_AWAY: SessionEnd = { ...REFUSED, cause: 'directed', reason: '429: too many' }
const KEY_REFUSED: SessionEnd = { ...REFUSED, kind: 'auth', cause: 'directed', reason: '403: no' }
const NEVER: SessionEnd = { ...REFUSED, kind: 'never', cause: 'directed', reason: '460: too old' }
const STOPPED: SessionEnd = { ...REFUSED, kind: 'stopped', reason: 'stopped' }

/** A supervisor whose sessions end with each of `ends` in turn (at once, on a clock of its own); the next one stays. */
function supervise(
  ends: SessionEnd[],
  { random = (): number => 1, holdAfter = Number.POSITIVE_INFINITY, attemptMs = 0 } = {},
) {
  const time = fakeTime(holdAfter)
  const captured = captureLog()
  const states: SupervisorState[] = []
  const ended: string[] = []
  const hurries: boolean[] = []
  let sessions = 0
  let invalidated = 0
  const supervisor: Supervisor = createSupervisor({
    session: async (onSubscribed, signal, hurried) => {
      const end = ends[sessions]
      sessions += 1
      hurries.push(hurried)
      time.nowMs += attemptMs
      if (end?.stableMs === 0) return end
      onSubscribed()
      if (end !== undefined) {
        time.nowMs += end.stableMs
        return end
      }
      if (!signal.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
      return STOPPED
    },
    invalidateCredentials: () => {
      invalidated += 1
    },
    log: captured.log,
    address: 'backend.example:443',
    onState: state => states.push(state),
    onEnded: why => ended.push(why),
    firstConnectWithinMs: 0,
    random,
    sleep: time.sleep,
    now: time.now,
  })
  cleanup.push(() => supervisor.stop())
  return {
    supervisor,
    time,
    states,
    ended,
    hurries,
    names: () => states.map(state => state.name),
    sessions: () => sessions,
    invalidated: () => invalidated,
    messages: (...levels: number[]) =>
      captured.lines.filter(line => levels.includes(Number(line['level']))).map(line => line['msg']),
    lines: captured.lines,
  }
}

async function delaysOf(ends: SessionEnd[], random?: () => number): Promise<number[]> {
  const run = supervise(ends, random === undefined ? {} : { random })
  await until(() => run.supervisor.state.name === 'subscribed' && run.sessions() === ends.length + 1)
  return run.time.slept.map(Math.round)
}

describe('backoff', () => {
  it('ends at 4 s while nothing answers, so that the end of an outage is noticed soon', async () => {
    expect(await delaysOf(Array(6).fill(REFUSED))).toEqual([1_000, 2_000, 4_000, 4_000, 4_000, 4_000])
  })

  it('grows to 60 s while the backend sends us away', async () => {
    expect(await delaysOf(Array(8).fill(SENT_AWAY))).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
    ])
  })

  it('has full jitter', async () => {
    expect(await delaysOf(Array(3).fill(SENT_AWAY), () => 0.25)).toEqual([250, 500, 1_000])
  })

  it('counts a subscription that falls within 5 s as being sent away', async () => {
    expect(await delaysOf(Array(5).fill({ ...REFUSED, stableMs: 4_000 }))).toEqual([1_000, 2_000, 4_000, 8_000, 16_000])
  })

  it('begins anew only after a subscription of 60 s', async () => {
    const ends = [SENT_AWAY, SENT_AWAY, { ...SENT_AWAY, stableMs: 59_000 }, { ...SENT_AWAY, stableMs: 60_000 }]
    expect(await delaysOf(ends)).toEqual([1_000, 2_000, 4_000, 1_000])
  })

  it('waits as long as the backend asks', async () => {
    expect(await delaysOf([{ ...SENT_AWAY, retryAfterMs: 90_000 }])).toEqual([90_000])
  })

  it('tries a refused key again soon, then each minute, with credentials fetched afresh', async () => {
    const run = supervise(Array(3).fill(KEY_REFUSED), { random: () => 0.5 })
    await until(() => run.sessions() === 4)
    expect(run.time.slept).toEqual([500, 60_000, 60_000])
    expect(run.invalidated()).toBe(3)
    expect(run.messages(50)).toEqual(['the backend refuses our credentials, trying again each minute'])
  })
})

describe('an outage', () => {
  it('counts what an attempt took as waiting, and hurries attempts: all of them for two minutes, then every other one', async () => {
    const run = supervise(Array(45).fill(REFUSED), { attemptMs: 3_000 })
    await until(() => run.sessions() === 46)
    expect(run.time.slept.slice(0, 4)).toEqual([1_000, 1_000, 1_000, 1_000])
    expect(run.hurries[0]).toBe(false)
    expect(run.hurries.slice(1, 30)).toEqual(Array(29).fill(true))
    expect(new Set(run.hurries.slice(-6, -2)).size).toBe(2)
    expect(run.hurries.at(-1)).not.toBe(run.hurries.at(-2))
  })

  it('is counted once for each session that ended, however often it is looked at meanwhile', async () => {
    const run = supervise([{ ...REFUSED, stableMs: 100_000 }, SENT_AWAY, KEY_REFUSED], { holdAfter: 2 })
    await until(() => run.sessions() === 3 && run.supervisor.state.name === 'waiting')
    for (let n = 0; n < 3; n++) {
      run.supervisor.pause()
      await until(() => run.supervisor.state.name === 'paused')
      run.supervisor.resume()
      await until(() => run.supervisor.state.name === 'waiting')
    }
    expect(run.ended).toEqual(['network', 'directed', 'auth'])
  })

  it('is logged once when it starts and once when it ends, with its length', async () => {
    const run = supervise([{ ...REFUSED, stableMs: 100_000 }, REFUSED, REFUSED, REFUSED])
    await until(() => run.sessions() === 5)
    expect(run.messages(30, 40)).toEqual(['no connection to the backend', 'connection to the backend is back'])
    expect(run.lines.find(line => line['msg'] === 'connection to the backend is back')).toMatchObject({
      outageMs: 11_000,
    })
  })

  it('shows in the states', async () => {
    const run = supervise([REFUSED])
    await until(() => run.sessions() === 2)
    expect(run.states).toEqual([
      { name: 'connecting' },
      { name: 'waiting', why: 'network', delayMs: 1_000, reason: 'network: ECONNREFUSED' },
      { name: 'connecting' },
      { name: 'subscribed', resumed: false },
    ])
  })
})

describe('460', () => {
  it('ends all connecting, with one line in the log each hour', async () => {
    const run = supervise([NEVER], { holdAfter: 3 })
    await until(() => run.time.slept.length === 4)
    expect(run.sessions()).toBe(1)
    expect(run.time.slept).toEqual(Array(4).fill(3_600_000))
    expect(run.messages(50)).toHaveLength(4)
    expect(run.states.at(-1)).toEqual({ name: 'forbidden', reason: '460: too old' })
    expect(run.ended).toEqual(['forbidden'])
  })

  it('heard by the HTTP side ends the session', async () => {
    const run = supervise([], { holdAfter: 0 })
    await until(() => run.supervisor.state.name === 'subscribed')
    run.supervisor.forbid('460: too old')
    await until(() => run.supervisor.state.name === 'forbidden')
    run.supervisor.resume()
    await run.supervisor.stop()
    expect(run.sessions()).toBe(1)
    expect(run.messages(50)).toHaveLength(1)
  })
})

describe('pause and stop', () => {
  it('pause ends the session, resume opens another without delay where the last connect is long ago', async () => {
    const run = supervise([], { holdAfter: 0 })
    await until(() => run.supervisor.state.name === 'subscribed')
    run.supervisor.pause()
    await until(() => run.supervisor.state.name === 'paused')
    run.time.nowMs += 1_500
    run.supervisor.resume()
    await until(() => run.supervisor.state.name === 'subscribed')
    expect(run.names()).toEqual(['connecting', 'subscribed', 'paused', 'connecting', 'subscribed'])
    expect(run.messages(30, 40, 50)).toEqual([])
  })

  it.each([
    [0, 1_000],
    [1, 1_500],
  ])('connects again a second after the last connect at the earliest (random %i: %i ms)', async (random, spacingMs) => {
    const run = supervise([{ ...REFUSED, stableMs: 100_000 }], { random: () => random })
    await until(() => run.sessions() === 2 && run.supervisor.state.name === 'subscribed')
    const before = run.time.slept.length
    for (let n = 0; n < 3; n++) {
      run.supervisor.pause()
      run.supervisor.resume()
      await until(() => run.sessions() === 3 + n && run.supervisor.state.name === 'subscribed')
    }
    expect(run.time.slept.slice(before)).toEqual([spacingMs, spacingMs, spacingMs])
    // The outage of before is over, and is not told again while it waits.
    expect(run.names().slice(run.names().indexOf('subscribed') + 3)).not.toContain('waiting')
    expect(run.ended).toEqual(['network'])
  })

  it('says of each subscription whether the one before it was left by us', async () => {
    const run = supervise([{ ...REFUSED, stableMs: 100_000 }])
    await until(() => run.sessions() === 2 && run.supervisor.state.name === 'subscribed')
    run.supervisor.pause()
    run.supervisor.resume() // at once, so that "paused" is never told
    await until(() => run.sessions() === 3 && run.supervisor.state.name === 'subscribed')
    const resumed = run.states.flatMap(state => (state.name === 'subscribed' ? [state.resumed] : []))
    expect(resumed).toEqual([false, false, true])
  })

  it('a pause during a backoff does not shorten it', async () => {
    const run = supervise([SENT_AWAY], { holdAfter: 0 })
    await until(() => run.supervisor.state.name === 'waiting')
    run.supervisor.pause()
    await until(() => run.supervisor.state.name === 'paused')
    run.supervisor.resume()
    await until(() => run.supervisor.state.name === 'waiting')
    expect(run.sessions()).toBe(1)
  })

  it('stop ends a backoff at once', async () => {
    const run = supervise([SENT_AWAY], { holdAfter: 0 })
    await until(() => run.supervisor.state.name === 'waiting')
    await run.supervisor.stop()
    expect(run.names().at(-1)).toBe('stopped')
  })

  it('the first connect waits a random part of a second', async () => {
    const time = fakeTime()
    const started = createSupervisor({
      session: async () => STOPPED,
      invalidateCredentials: () => {},
      log: captureLog().log,
      address: 'backend.example:443',
      onState: () => {},
      random: () => 0.4,
      sleep: async (ms, signal) => {
        await time.sleep(ms, signal)
        void started.stop()
      },
      now: time.now,
    })
    await until(() => started.state.name === 'stopped')
    expect(time.slept).toEqual([400])
  })
})

it('over real sockets, a backend that comes back at the same port is found again', async () => {
  const first = await startWs(acknowledging(() => {}))
  const captured = captureLog()
  const supervisor = createSupervisor({
    session: (onSubscribed, signal) =>
      runSession(
        {
          url: first.url,
          toolNames: ['t'],
          fgroupId: null,
          fuserId: null,
          credentials: keyCredentials(),
          log: captured.log,
          onSubscribed,
          onCall: () => {},
          onMalformed: () => {},
        },
        signal,
      ),
    invalidateCredentials: () => {},
    log: captured.log,
    address: 'backend.example:443',
    onState: () => {},
    firstConnectWithinMs: 0,
    random: () => 0.05,
  })
  cleanup.push(() => supervisor.stop())
  await until(() => supervisor.state.name === 'subscribed')
  await first.close()
  await until(() => supervisor.state.name === 'waiting')
  const second = await startWs(
    acknowledging(() => {}),
    { port: first.port },
  )
  await until(() => supervisor.state.name === 'subscribed')
  await supervisor.stop()
  expect(second.received.at(-1)).toMatchObject({ type: 'complete' })
  await second.close()
})
