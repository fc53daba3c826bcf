import type { ServerResponse } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import { BackendError } from '../../src/backend/errors.js'
import { type BackendApi, createBackendApi } from '../../src/backend/http.js'
import { API_KEY, captureLog, keyCredentials, sampleCall, UNTRUSTED_KEY } from './support/fixtures.js'
import { json, type ReceivedRequest, startHttp, type TestServer } from './support/servers.js'

const signal = new AbortController().signal
const RESULT = { content: '"hi"', provenance: '{"system":"s"}', dollars: 0.5 }
let cleanup: (() => Promise<void>)[] = []

afterEach(async () => {
  await Promise.all(cleanup.map(close => close()))
  cleanup = []
})

async function setUp(
  answer: (request: ReceivedRequest, response: ServerResponse) => void,
  timeoutMs = 5_000,
): Promise<{ api: BackendApi; server: TestServer; credentials: ReturnType<typeof keyCredentials>; logged(): string }> {
  const server = await startHttp(answer)
  const captured = captureLog()
  const credentials = keyCredentials()
  const config = {
    baseUrl: server.url,
    endpoint: '/v1/graphql',
    credentials: { mode: 'key', apiKey: API_KEY },
  } as const
  const api = createBackendApi({ config, credentials, log: captured.log, timeoutMs })
  cleanup.push(() => api.close(), server.close)
  return { api, server, credentials, logged: captured.text }
}

const accept = (request: ReceivedRequest, response: ServerResponse) => {
  const field = /cloudtool_\w+/.exec(request.body)?.[0] ?? ''
  json(response, 200, { data: { [field]: true } })
}

/** The BackendError that posting a result to such a server ends with. */
async function failureOf(
  answer: (request: ReceivedRequest, response: ServerResponse) => void,
  timeoutMs?: number,
): Promise<{ error: BackendError; credentials: ReturnType<typeof keyCredentials>; logged: string }> {
  const { api, credentials, logged } = await setUp(answer, timeoutMs)
  const error = await api.postResult(sampleCall(), RESULT, { asPlaceholder: false }, signal).then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof BackendError)) throw new Error('expected a BackendError')
  return { error, credentials, logged: logged() }
}

describe('a mutation', () => {
  it('posts a result with the key of the call in input and header', async () => {
    const { api, server } = await setUp(accept)
    await api.postResult(sampleCall({ connected_persona_id: 'p1' }), RESULT, { asPlaceholder: true }, signal)
    expect(server.requests[0]).toMatchObject({
      path: '/v1/graphql',
      headers: {
        authorization: `Bearer ${API_KEY}`,
        'x-flexus-service-name': 'python_execute',
        'x-flexus-call-untrusted-key': UNTRUSTED_KEY,
        'x-flexus-persona-id': 'p1',
      },
    })
    expect(JSON.parse(server.requests[0]?.body ?? '').variables).toEqual({
      input: {
        fcall_id: 'c1',
        fcall_untrusted_key: UNTRUSTED_KEY,
        ftm_content: '"hi"',
        ftm_provenance: '{"system":"s"}',
        dollars: 0.5,
      },
      as_placeholder: true,
    })
  })

  it('registers a tool for the service itself, with no user for a shared tool', async () => {
    const { api, server } = await setUp(accept)
    const tool = { name: 't', description: 'd', parametersJson: '{}', strict: true }
    await api.confirmExists(tool, { fgroupId: 'g', fuserId: 'u', shared: true }, signal)
    expect(server.requests[0]?.headers['x-flexus-call-untrusted-key']).toBe('')
    expect(JSON.parse(server.requests[0]?.body ?? '').variables).toEqual({
      name: 't',
      desc: 'd',
      params: '{}',
      fgroup_id: 'g',
      fuser_id: null,
      shared: true,
      strict: true,
    })
  })

  it('asks for a confirmation', async () => {
    const { api, server } = await setUp(accept)
    const request = { setupKey: '', command: 'print(1)', explanation: 'run it' }
    expect(await api.requestConfirmation(sampleCall(), request, signal)).toBe('asked')
    expect(JSON.parse(server.requests[0]?.body ?? '').variables).toEqual({
      fcall_id: 'c1',
      confirm_setup_key: '',
      confirm_command: 'print(1)',
      confirm_explanation: 'run it',
    })
  })

  it('counts a confirmation that was requested already as requested', async () => {
    const { api } = await setUp((_request, response) =>
      json(response, 200, { data: null, errors: [{ message: '400: confirmation already requested' }] }),
    )
    const request = { setupKey: '', command: '', explanation: '' }
    expect(await api.requestConfirmation(sampleCall(), request, signal)).toBe('asked_before')
  })
})

describe('a mutation fails', () => {
  it('in time when there is no answer', async () => {
    const { error } = await failureOf(() => {}, 100)
    expect(error).toMatchObject({ kind: 'retry', status: null, message: 'no answer within 0.1 s' })
  })

  it('in time when the body does not end', async () => {
    const { error } = await failureOf((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('{"data":')
    }, 100)
    expect(error.kind).toBe('retry')
  })

  it('as retry when the connection is reset', async () => {
    const { error } = await failureOf((_request, response) => response.socket?.resetAndDestroy())
    expect(error).toMatchObject({ kind: 'retry', message: expect.stringMatching(/^network: /) })
  })

  it('as retry when nobody listens', async () => {
    const { api, server } = await setUp(accept)
    await server.close()
    cleanup = [() => api.close()]
    const failure = api.postResult(sampleCall(), RESULT, { asPlaceholder: false }, signal)
    await expect(failure).rejects.toMatchObject({ kind: 'retry', message: 'network: ECONNREFUSED' })
  })

  it('with the time that Retry-After asks for', async () => {
    const { error } = await failureOf((_request, response) => json(response, 429, {}, { 'retry-after': '7' }))
    expect(error).toMatchObject({ kind: 'retry', status: 429, retryAfterMs: 7_000 })
  })

  it('as auth when the key does not work, and the cached credentials are thrown away', async () => {
    const { error, credentials } = await failureOf((_request, response) =>
      json(response, 200, { data: null, errors: [{ message: '403: this key does not work' }] }),
    )
    expect(error).toMatchObject({ kind: 'auth', status: 403, message: '403: this key does not work' })
    expect(credentials.invalidated).toBe(1)
  })

  it.each([
    ['text that is no JSON', 'hello', 'application/json'],
    ['JSON that is no GraphQL', '[1]', 'application/json'],
    ['a page', '<html></html>', 'text/html'],
    ['no data', '{"data":null}', 'application/json'],
    ['data of something else', '{"data":{"x":1}}', 'application/json'],
  ])('as retry when the answer is %s under HTTP 200', async (_name, body, type) => {
    const { error } = await failureOf((_request, response) => {
      response.writeHead(200, { 'content-type': type })
      response.end(body)
    })
    expect(error.kind).toBe('retry')
  })

  it('as final, telling the limit, when the result is too large for the proxy', async () => {
    const { error } = await failureOf((_request, response) => {
      response.writeHead(413, { 'content-type': 'text/plain' })
      response.end('body exceeds 10 MiB')
    })
    expect(error).toMatchObject({ kind: 'final', status: 413, message: 'body exceeds 10 MiB' })
  })

  it('rather than follow a redirect with its keys to another host', async () => {
    const other = await startHttp(accept)
    cleanup.push(other.close)
    const { error } = await failureOf((_request, response) => {
      response.writeHead(307, { location: other.url })
      response.end()
    })
    expect(error.kind).toBe('retry')
    expect(other.requests).toEqual([])
  })

  it('when the caller aborts', async () => {
    const { api } = await setUp(() => {})
    const controller = new AbortController()
    const failure = api.postResult(sampleCall(), RESULT, { asPlaceholder: false }, controller.signal)
    controller.abort()
    await expect(failure).rejects.toBeInstanceOf(BackendError)
  })

  it.each([
    ['a numbered error', 200],
    ['a crash', 500],
  ])('with %s that echoes the request, and neither error nor log holds key or query', async (_name, status) => {
    const { error, logged } = await failureOf((request, response) =>
      json(response, status, {
        errors: [{ message: `400: got ${request.body} ${request.headers.authorization}` }],
      }),
    )
    const seen = `${error.message} ${error.stack} ${JSON.stringify(error)} ${String(error.cause)} ${logged}`
    expect(seen).not.toContain(UNTRUSTED_KEY)
    expect(seen).not.toContain(API_KEY)
  })

  it('and what we make of it holds no query', async () => {
    const { error, logged } = await failureOf((_request, response) => json(response, 502, {}))
    expect(`${error.stack} ${JSON.stringify(error)} ${logged}`).not.toMatch(
      /CloudtoolPost|mutation Cloud|as_placeholder/,
    )
  })
})
