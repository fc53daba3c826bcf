import { afterEach, describe, expect, it } from 'vitest'
import { type BackendError, classifyBackendText } from '../../src/backend/errors.js'
import { createRegistration, type Registration } from '../../src/backend/registration.js'
import { captureLog, fakeTime } from './support/fixtures.js'
import { until } from './support/servers.js'

let active: Registration | null = null

afterEach(() => active?.deactivate())

/** A registration whose requests fail with each of `failures` in turn (null: works), and that sleeps `beats` times. */
function setUp(failures: (BackendError | null)[], beats: number, toolNames = ['t']) {
  const time = fakeTime(beats)
  const captured = captureLog()
  const registered: string[] = []
  const refused: BackendError[] = []
  let requests = 0
  let accepted = 0
  const registration = createRegistration({
    api: {
      confirmExists: async tool => {
        const failure = failures[requests] ?? null
        requests += 1
        if (failure !== null) throw failure
        registered.push(tool.name)
      },
    },
    tools: toolNames.map(name => ({ name, description: '', parametersJson: '{}', strict: true })),
    audience: { fgroupId: null, fuserId: null, shared: true },
    log: captured.log,
    onRefused: error => refused.push(error),
    onAccepted: () => {
      accepted += 1
    },
    sleep: time.sleep,
    now: time.now,
  })
  active = registration
  return {
    registration,
    time,
    registered,
    refused,
    requests: () => requests,
    accepted: () => accepted,
    messages: captured.messages,
  }
}

const down = classifyBackendText('500: down')

describe('registration', () => {
  it('happens at once and then every 120 s', async () => {
    const run = setUp([], 3)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 4)
    expect(run.registered).toHaveLength(4)
    expect(run.time.slept).toEqual([120_000, 120_000, 120_000, 120_000])
  })

  it('comes again 60 s after a failure', async () => {
    const run = setUp([down, null], 1)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 2)
    expect(run.time.slept).toEqual([60_000, 120_000])
  })

  it('is logged when its result changes, not each time', async () => {
    const run = setUp([null, null, down, down, null, null], 5)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 6)
    expect(run.messages()).toEqual(['tools registered', 'tools could not be registered', 'tools registered'])
  })

  it('starts anew with each activation that follows a lost connection', async () => {
    const run = setUp([], 0)
    run.registration.activate(true)
    await until(() => run.registered.length === 1)
    run.registration.activate(true)
    await until(() => run.registered.length === 2)
  })

  it('goes on when it is activated after a pause of our own, and keeps its interval', async () => {
    const run = setUp([], 0)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 1)
    run.registration.deactivate()
    run.time.nowMs += 50_000
    run.registration.activate(false)
    run.registration.activate(false)
    await until(() => run.time.slept.length === 2)
    expect(run.requests()).toBe(1)
    expect(run.time.slept).toEqual([120_000, 70_000])
  })

  it('comes at once after a pause of our own if the last success is 60 s old, or there was none', async () => {
    const run = setUp([], 0)
    run.registration.activate(false)
    await until(() => run.time.slept.length === 1)
    run.registration.deactivate()
    run.time.nowMs += 60_000
    run.registration.activate(false)
    await until(() => run.requests() === 2)
  })

  it('stands for four minutes after a success, and not after a lost connection until it was accepted anew', async () => {
    const run = setUp([null, down, down], 0)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 1)
    expect(run.registration.isRegistered).toBe(true)
    run.time.nowMs += 100_000
    expect(run.registration.isRegistered).toBe(true)
    run.time.nowMs += 150_000
    expect(run.registration.isRegistered).toBe(false)
    run.registration.deactivate()
    run.time.nowMs -= 150_000
    run.registration.activate(false)
    expect(run.registration.isRegistered).toBe(true)
    run.registration.activate(true)
    expect(run.registration.isRegistered).toBe(false)
    await until(() => run.time.slept.length === 2)
    expect(run.registration.isRegistered).toBe(false)
  })

  it('ends with deactivation', async () => {
    const run = setUp([], 0)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 1)
    run.registration.deactivate()
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(run.requests()).toBe(1)
  })

  it('of one tool does not fail because of another', async () => {
    const run = setUp([down, null], 0, ['a', 'b'])
    run.registration.activate(true)
    await until(() => run.time.slept.length === 1)
    expect(run.registered).toEqual(['b'])
    expect(run.time.slept).toEqual([60_000])
  })

  it('refused once for its key tries again soon, as a token may have been rotated, and tells nobody', async () => {
    const run = setUp([classifyBackendText('403: no'), null], 1)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 2)
    expect(run.time.slept).toEqual([1_000, 120_000])
    expect(run.refused).toEqual([])
    expect(run.accepted()).toBe(1)
  })

  it('refused twice for its key tells its owner and tries each minute, until it tells that it works again', async () => {
    const refusal = classifyBackendText('403: no')
    const run = setUp([refusal, refusal, refusal, null], 3)
    run.registration.activate(true)
    await until(() => run.time.slept.length === 4)
    expect(run.refused).toMatchObject([{ kind: 'auth' }, { kind: 'auth' }])
    expect(run.time.slept).toEqual([1_000, 60_000, 60_000, 120_000])
    expect(run.accepted()).toBe(1)
  })

  it('tells its owner of a 460, and sends nothing more', async () => {
    const run = setUp([classifyBackendText('460: no')], 9)
    run.registration.activate(true)
    await until(() => run.refused.length === 1)
    expect(run.refused).toMatchObject([{ kind: 'never' }])
    expect(run.requests()).toBe(1)
    expect(run.time.slept).toEqual([])
  })
})
