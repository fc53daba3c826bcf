import { afterEach, describe, expect, it } from 'vitest'
import { createCredentials } from '../../src/backend/credentials.js'
import { deliverWithRetry } from '../../src/backend/deliver.js'
import { openDeltaStream } from '../../src/backend/delta.js'
import { createBackendApi } from '../../src/backend/http.js'
import { deltaEndpoint, type ToolCall, wsEndpoint } from '../../src/backend/protocol.js'
import { createRegistration } from '../../src/backend/registration.js'
import { runSession } from '../../src/backend/session.js'
import { createSupervisor, type SupervisorState } from '../../src/backend/supervisor.js'
import type { BackendConfig } from '../../src/config.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { captureLog } from './support/fixtures.js'
import { until } from './support/servers.js'

/** All parts of the room together, as the worker joins them, against the embedded backend. */

let cleanup: (() => unknown)[] = []

afterEach(async () => {
  for (const close of cleanup.reverse()) await close()
  cleanup = []
})

const TOOL = {
  name: 'python_execute',
  description: 'Runs Python.',
  parametersJson: JSON.stringify({
    type: 'object',
    properties: { code: { type: 'string', order: 0 } },
    required: ['code'],
    additionalProperties: false,
  }),
  strict: true,
}

async function startBackend(): Promise<EmbeddedBackend> {
  const backend = await startEmbeddedBackend()
  cleanup.push(() => backend.close())
  return backend
}

function connect(backend: EmbeddedBackend, apiKey = backend.apiKey) {
  const config: BackendConfig = {
    baseUrl: backend.url,
    endpoint: '/v1/graphql',
    credentials: { mode: 'key', apiKey },
  }
  const { log, text } = captureLog()
  const credentials = createCredentials({ config, serviceName: TOOL.name })
  const api = createBackendApi({ config, credentials, log })
  const audience = { fgroupId: null, fuserId: null, shared: true }
  const registration = createRegistration({
    api,
    tools: [TOOL],
    audience,
    log,
    onRefused: () => {},
    onAccepted: () => {},
  })
  const calls: ToolCall[] = []
  const states: SupervisorState[] = []
  const supervisor = createSupervisor({
    session: (onSubscribed, signal) =>
      runSession(
        {
          url: wsEndpoint(config),
          toolNames: [TOOL.name],
          fgroupId: null,
          fuserId: null,
          credentials,
          log,
          onSubscribed,
          onCall: call => calls.push(call),
          onMalformed: () => {},
        },
        signal,
      ),
    invalidateCredentials: credentials.invalidate,
    log,
    address: 'backend.example:443',
    onState: state => {
      states.push(state)
      if (state.name === 'subscribed') registration.activate(true)
      else if (state.name !== 'paused') registration.deactivate()
    },
    firstConnectWithinMs: 0,
    random: () => 0.1,
  })
  cleanup.push(async () => {
    await supervisor.stop()
    await api.close()
  })
  const post = (call: ToolCall) =>
    deliverWithRetry(
      signal =>
        api.postResult(
          call,
          { content: '"done"', provenance: '{"system":"python_execute"}', dollars: 0 },
          { asPlaceholder: false },
          signal,
        ),
      { log, signal: new AbortController().signal, giveUpAfterMs: 20_000, random: () => 0.2 },
    )
  const deltas = (call: ToolCall) => openDeltaStream({ url: deltaEndpoint(config), call, maxBytes: 1_000, log })
  return { supervisor, calls, states, post, deltas, api, logged: text }
}

describe('against the embedded backend', () => {
  it('a call is taken, streamed and answered, and neither key shows in the log', async () => {
    const backend = await startBackend()
    const worker = connect(backend)
    const pushed = backend.pushCode('print(1)')
    await until(() => worker.calls.length === 1)
    const call = worker.calls[0]
    if (call === undefined) throw new Error('no call')
    const deltas = worker.deltas(call)
    deltas.push('hello ')
    deltas.push('world')
    await deltas.end()
    expect(await worker.post(call)).toMatchObject({ delivered: true, alreadyAnswered: false })
    expect(await backend.waitForAnswer(pushed.fcall_id)).toMatchObject({ content: 'done' })
    expect(
      backend
        .deltas(pushed.fcall_id)
        .map(delta => delta.text)
        .join(''),
    ).toBe('hello world')
    await until(() => backend.registrations.length === 1)
    expect(worker.logged()).not.toContain(pushed.fcall_untrusted_key)
    expect(worker.logged()).not.toContain(backend.apiKey)
  })

  it('a restart of the backend is survived: registered anew, and the answer arrives once', async () => {
    const backend = await startBackend()
    const worker = connect(backend)
    const pushed = backend.pushCode('print(1)')
    await until(() => worker.calls.length === 1 && backend.registrations.length === 1)
    await backend.stop()
    const [call] = worker.calls
    if (call === undefined) throw new Error('no call')
    const posting = worker.post(call)
    await until(() => worker.supervisor.state.name === 'waiting')
    await backend.start()
    expect(await posting).toMatchObject({ delivered: true })
    await until(() => backend.registrations.length === 2)
    expect(backend.answers.get(pushed.fcall_id)).toHaveLength(1)
  })

  it('an answer that arrived although its post failed counts as delivered', async () => {
    const backend = await startBackend()
    const worker = connect(backend)
    backend.pushCode('print(1)')
    await until(() => worker.calls.length === 1)
    backend.misbehave({ kind: 'http_reset', commit: true }, { times: 1, operation: 'cloudtool_post_result' })
    const [call] = worker.calls
    if (call === undefined) throw new Error('no call')
    expect(await worker.post(call)).toEqual({ delivered: true, alreadyAnswered: true, attempts: 2 })
  })

  it('a key that does not work leaves it waiting, and nothing is registered', async () => {
    const backend = await startBackend()
    const worker = connect(backend, 'fx-wrong')
    await until(() => worker.supervisor.state.name === 'waiting')
    expect(worker.supervisor.state).toMatchObject({ why: 'auth', reason: expect.stringContaining('403') })
    expect(backend.registrations).toHaveLength(0)
  })

  it('a 460 keeps it away', async () => {
    const backend = await startBackend()
    backend.misbehave({ kind: 'subscription_error', message: '460: too old' })
    const worker = connect(backend)
    await until(() => worker.supervisor.state.name === 'forbidden')
    expect(worker.supervisor.state).toMatchObject({ reason: '460: too old' })
  })

  it('a pause leaves the calls to others, and they come after it', async () => {
    const backend = await startBackend()
    const worker = connect(backend)
    await until(() => backend.subscribers === 1)
    worker.supervisor.pause()
    await until(() => backend.subscribers === 0)
    backend.pushCode('print(1)')
    expect(worker.calls).toHaveLength(0)
    worker.supervisor.resume()
    await until(() => worker.calls.length === 1)
  })
})
