import { ClientError } from 'graphql-request'
import { describe, expect, it } from 'vitest'
import {
  BackendError,
  classifyBackendError,
  classifyBackendText,
  classifyHttpRefusal,
  cleanText,
  isAlreadyAnswered,
  isAlreadyRequested,
  parseRetryAfter,
} from '../../src/backend/errors.js'
import { UNTRUSTED_KEY } from './support/fixtures.js'

function clientError(response: { status: number; body?: string; errors?: unknown; headers?: Record<string, string> }) {
  const { headers = {}, body = '', ...rest } = response
  return new ClientError({ body, ...rest, headers: new Headers(headers) } as never, {
    query: 'mutation TheQueryText { x }',
    variables: { input: { fcall_untrusted_key: UNTRUSTED_KEY } },
  })
}

describe('kind of an error', () => {
  it.each([
    ['400: arguments are wrong', 'model', 400],
    ['404: no such call', 'model', 404],
    ['403: key does not work', 'auth', 403],
    ['401: who are you', 'auth', 401],
    ['460: this client is too old', 'never', 460],
    ['429: slow down', 'retry', 429],
    ['408: too slow', 'retry', 408],
    ['500: oops', 'retry', 500],
    ['something went wrong', 'retry', null],
    ['4031 things went wrong', 'retry', null],
  ])('%j is %s, answered with HTTP 200', (message, kind, status) => {
    const error = classifyBackendError(clientError({ status: 200, errors: [{ message }] }))
    expect(error).toMatchObject({ kind, status: status ?? 200, message })
  })

  it.each([
    [400, 'final'],
    [413, 'final'],
    [401, 'auth'],
    [403, 'auth'],
    [460, 'never'],
    [404, 'retry'],
    [429, 'retry'],
    [500, 'retry'],
    [502, 'retry'],
    [301, 'retry'],
  ])('HTTP %i without a GraphQL answer is %s', (status, kind) => {
    const body = '<html>proxy</html>'
    expect(classifyBackendError(clientError({ status, body, headers: { 'content-type': 'text/html' } }))).toMatchObject(
      {
        kind,
        message: `HTTP ${status}`,
      },
    )
  })

  it('the number in the text counts more than the HTTP status', () => {
    expect(classifyBackendError(clientError({ status: 500, errors: [{ message: '403: no' }] })).kind).toBe('auth')
  })

  it('HTTP 400 with an unnumbered GraphQL error is final', () => {
    const error = classifyBackendError(clientError({ status: 400, errors: [{ message: 'Cannot query field "x"' }] }))
    expect(error).toMatchObject({ kind: 'final', message: 'Cannot query field "x"' })
  })

  it('a numbered error is found behind an unnumbered one', () => {
    const errors = [{ message: 'first' }, { message: '460: never' }]
    expect(classifyBackendError(clientError({ status: 200, errors })).kind).toBe('never')
  })

  it.each(['detail', 'message', 'error'])('a JSON body that is no GraphQL answer tells its text in %s', field => {
    const body = JSON.stringify({ [field]: '460: gone' })
    const headers = { 'content-type': 'application/json' }
    expect(classifyBackendError(clientError({ status: 400, body, headers }))).toMatchObject({
      kind: 'never',
      message: '460: gone',
    })
  })

  it.each([
    new TypeError('fetch failed', { cause: Object.assign(new Error('x'), { code: 'ECONNREFUSED' }) }),
    new TypeError('fetch failed', {
      cause: new AggregateError([Object.assign(new Error('x'), { code: 'ECONNREFUSED' })], 'all failed'),
    }),
  ])('a network failure is retried and named by its code', error => {
    expect(classifyBackendError(error)).toMatchObject({ kind: 'retry', status: null, message: 'network: ECONNREFUSED' })
  })

  it.each([new SyntaxError(`bad JSON near ${UNTRUSTED_KEY}`), `thrown ${UNTRUSTED_KEY}`, null, undefined, 5, {}])(
    'anything else (%#) is retried and its text is not used',
    thrown => {
      const error = classifyBackendError(thrown)
      expect(error.kind).toBe('retry')
      expect(error.message).not.toContain(UNTRUSTED_KEY)
    },
  )
})

describe('message of an error', () => {
  it('never holds query, variables or key', () => {
    const error = classifyBackendError(clientError({ status: 200, errors: [{ message: '500: oops' }] }))
    expect(`${error.message} ${error.stack} ${JSON.stringify(error)}`).not.toMatch(
      new RegExp(`TheQueryText|${UNTRUSTED_KEY}`),
    )
  })

  it('loses the key where the backend echoes it', () => {
    const message = `403: the key ${UNTRUSTED_KEY} is wrong`
    const error = classifyBackendError(clientError({ status: 200, errors: [{ message }] }), [UNTRUSTED_KEY])
    expect(error.message).toBe('403: the key [redacted] is wrong')
  })

  it('loses the dump of a variable, and keeps what was wrong with it', () => {
    const text =
      'Variable "$input" got invalid value { fcall_id: "a; b", fcall_untrusted_key: "abc" }; Field "dollars" is bad.'
    expect(cleanText(text)).toBe('Variable "$input" got invalid value [redacted]; Field "dollars" is bad.')
    expect(cleanText('got invalid value { key: "abc" }')).toBe('got invalid value [redacted]')
  })

  it('is bounded, on one line, and well-formed', () => {
    const message = classifyBackendText(`500: a\n\u0000b ${'😀'.repeat(1000)}`).message
    expect(message.length).toBeLessThanOrEqual(500)
    expect(message).toMatch(/^500: a b /)
    expect(message.isWellFormed()).toBe(true)
  })

  it('of plain text comes from the body', () => {
    expect(classifyHttpRefusal(503, '').message).toBe('HTTP 503')
  })
})

it.each([
  ['7', 7_000],
  ['Wed, 21 Oct 2015 07:28:10 GMT', 10_000],
  ['Wed, 21 Oct 2015 07:00:00 GMT', 0],
  ['999999999', 3_600_000],
  ['soon', null],
  ['', null],
  [null, null],
])('Retry-After %j is %j ms', (value, ms) => {
  expect(parseRetryAfter(value, Date.parse('Wed, 21 Oct 2015 07:28:00 GMT'))).toBe(ms)
})

describe('already done', () => {
  it.each([
    '409: this call already has its result',
    '400: result already exists',
    '404: the call is already answered',
    '409: answer was already posted',
    '409: duplicate result',
  ])('%j says that the call has its answer', text => {
    expect(isAlreadyAnswered(classifyBackendText(text))).toBe(true)
  })

  it.each([
    '500: this call already has its result',
    '460: already answered',
    '400: result is too large',
    '400: thread is already archived',
    'result already exists',
  ])('%j does not', text => {
    expect(isAlreadyAnswered(classifyBackendText(text))).toBe(false)
  })

  it('a confirmation may be requested already, under any number', () => {
    expect(isAlreadyRequested(classifyBackendText('500: Confirmation already requested'))).toBe(true)
    expect(isAlreadyRequested(new BackendError('model', '400: no'))).toBe(false)
  })
})
