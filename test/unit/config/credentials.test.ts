import { describe, expect, test } from 'vitest'
import type { Environment } from '../../../src/config/report.js'
import { KEY, local, refusal, remote, report } from './fixtures.js'

const withKey = { FLEXUS_API_BASEURL: 'https://backend.example', FLEXUS_API_KEY: KEY }

describe('credentials', () => {
  test('are a key at the usual endpoint', () => {
    expect(remote(withKey).backend).toEqual({
      baseUrl: 'https://backend.example/',
      endpoint: '/v1/graphql',
      credentials: { mode: 'key', apiKey: KEY },
    })
  })

  test('are a ticket, at an endpoint of choice', () => {
    const env = {
      FLEXUS_API_BASEURL: 'http://127.0.0.1:8008//',
      FLEXUS_WS_TICKET: 'abc',
      FLEXUS_ENDPOINT: '/v1/jailed-bot',
    }
    expect(remote(env).backend).toEqual({
      baseUrl: 'http://127.0.0.1:8008/',
      endpoint: '/v1/jailed-bot',
      credentials: { mode: 'ticket', ticket: 'abc' },
    })
  })

  test('are a superuser with Vault at an endpoint of its own', () => {
    const env = {
      FLEXUS_API_BASEURL: 'http://b/',
      VAULT_ENDPOINT: 'http://vault:8200/',
      FLEXUS_ENDPOINT: '/v1/superuser',
    }
    expect(remote(env).backend).toMatchObject({
      endpoint: '/v1/superuser',
      credentials: { mode: 'superuser', vaultEndpoint: 'http://vault:8200' },
    })
  })

  test("are a developer's superuser where only a superuser's endpoint is named, and that is warned of", () => {
    const config = remote({ FLEXUS_API_BASEURL: 'http://b/', FLEXUS_ENDPOINT: '/v1/superuser' })
    expect(config.backend?.credentials).toEqual({ mode: 'superuser', vaultEndpoint: null })
    expect(config.warnings).toEqual([expect.stringContaining('set VAULT_ENDPOINT')])
  })

  test.each<[string, Environment, string, string]>([
    ['none', {}, 'FLEXUS_API_KEY', 'one of FLEXUS_API_KEY (starts with fx-), FLEXUS_WS_TICKET, or VAULT_ENDPOINT'],
    [
      'none, at the endpoint for keys',
      { FLEXUS_ENDPOINT: '/v1/jailed-bot' },
      'FLEXUS_API_KEY',
      'one of FLEXUS_API_KEY',
    ],
    [
      'Vault without an endpoint',
      { VAULT_ENDPOINT: 'http://v' },
      'FLEXUS_ENDPOINT',
      "give the superuser's endpoint path",
    ],
    [
      'Vault at the endpoint for keys',
      { VAULT_ENDPOINT: 'http://v', FLEXUS_ENDPOINT: '/v1/graphql' },
      'FLEXUS_ENDPOINT',
      "give the superuser's endpoint path",
    ],
    ['a key without fx-', { FLEXUS_API_KEY: 'abc' }, 'FLEXUS_API_KEY', 'starts with fx-'],
    [
      'an endpoint that is a URL',
      { FLEXUS_API_KEY: KEY, FLEXUS_ENDPOINT: 'https://b/v1' },
      'FLEXUS_ENDPOINT',
      'starts with a slash',
    ],
    [
      'no endpoint that can be read',
      { VAULT_ENDPOINT: 'http://v', FLEXUS_ENDPOINT: 'x' },
      'FLEXUS_ENDPOINT',
      'starts with a slash',
    ],
    [
      'Vault that is no URL',
      { VAULT_ENDPOINT: 'vault:8200', FLEXUS_ENDPOINT: '/su' },
      'VAULT_ENDPOINT',
      'http or https URL',
    ],
  ])('are refused, once: %s', (_, env, variable, right) => {
    const text = report(() => remote({ FLEXUS_API_BASEURL: 'http://b/', ...env }))
    expect(text).toContain('(1 error)')
    expect(text).toMatch(new RegExp(`^ {2}${variable}: `, 'm'))
    expect(text).toContain(right)
  })

  test('are refused when two are set, each named', () => {
    const text = report(() => remote({ ...withKey, FLEXUS_WS_TICKET: 't', VAULT_ENDPOINT: 'http://v' }))
    expect(text.match(/set only one of FLEXUS_API_KEY, FLEXUS_WS_TICKET, VAULT_ENDPOINT/g)).toHaveLength(3)
  })

  test.each([
    'backend.example',
    'ftp://b/',
    'wss://b/',
    'https:b',
    'https://b/v1/graphql',
    'https://b/?x=1',
    'https://b/#',
  ])('are refused with the base URL %s', url => {
    expect(report(() => remote({ FLEXUS_API_BASEURL: url, FLEXUS_API_KEY: KEY }))).toContain(
      "the backend's base URL, http or https",
    )
  })

  test('are ignored, right or wrong, where no backend is needed', () => {
    const env = {
      FLEXUS_API_KEY: 'nonsense',
      FLEXUS_WS_TICKET: 't',
      FLEXUS_API_BASEURL: '?',
      FLEXUS_ENDPOINT: '?',
      VAULT_ENDPOINT: '?',
    }
    expect(local(env)).toEqual(local())
  })

  test('of a user contradict a shared tool, which the report explains', () => {
    expect(refusal({ FUSER_ID: 'u1' })).toContain('FUSER_ID: got "u1"; unset it or set SHARED=false: a shared tool')
  })
})
