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
    sleep: time.sleep,
  })
  active = registration
  return { registration, time, registered, refused, requests: () => requests, messages: captured.messages }
}

const down = classifyBackendText('500: down')

describe('registration', () => {
  it('happens at once and then every 120 s', async () => {
    const run = setUp([], 3)
    run.registration.activate()
    await until(() => run.time.slept.length === 4)
    expect(run.registered).toHaveLength(4)
    expect(run.time.slept).toEqual([120_000, 120_000, 120_000, 120_000])
  })

  it('comes again 60 s after a failure', async () => {
    const run = setUp([down, null], 1)
    run.registration.activate()
    await until(() => run.time.slept.length === 2)
    expect(run.time.slept).toEqual([60_000, 120_000])
  })

  it('is logged when its result changes, not each time', async () => {
    const run = setUp([null, null, down, down, null, null], 5)
    run.registration.activate()
    await until(() => run.time.slept.length === 6)
    expect(run.messages()).toEqual(['tools registered', 'tools could not be registered', 'tools registered'])
  })

  it('starts anew with each activation', async () => {
    const run = setUp([], 0)
    run.registration.activate()
    await until(() => run.registered.length === 1)
    run.registration.activate()
    await until(() => run.registered.length === 2)
  })

  it('ends with deactivation', async () => {
    const run = setUp([], 0)
    run.registration.activate()
    await until(() => run.time.slept.length === 1)
    run.registration.deactivate()
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(run.requests()).toBe(1)
  })

  it('of one tool does not fail because of another', async () => {
    const run = setUp([down, null], 0, ['a', 'b'])
    run.registration.activate()
    await until(() => run.time.slept.length === 1)
    expect(run.registered).toEqual(['b'])
    expect(run.time.slept).toEqual([60_000])
  })

  it('tells its owner that the key is refused, and goes on', async () => {
    const run = setUp([classifyBackendText('403: no')], 1)
    run.registration.activate()
    await until(() => run.time.slept.length === 2)
    expect(run.refused).toMatchObject([{ kind: 'auth' }])
  })

  it('tells its owner of a 460, and sends nothing more', async () => {
    const run = setUp([classifyBackendText('460: no')], 9)
    run.registration.activate()
    await until(() => run.refused.length === 1)
    expect(run.refused).toMatchObject([{ kind: 'never' }])
    expect(run.requests()).toBe(1)
    expect(run.time.slept).toEqual([])
  })
})
