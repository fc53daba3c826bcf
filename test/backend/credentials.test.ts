import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { callHeaders, createCredentials } from '../../src/backend/credentials.js'
import type { CredentialConfig } from '../../src/config.js'
import { sampleCall, UNTRUSTED_KEY } from './support/fixtures.js'
import { json, startHttp, type TestServer } from './support/servers.js'

const signal = new AbortController().signal
let folder: string
let vault: TestServer | null = null

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credentials-'))
})

afterEach(async () => {
  await vault?.close()
  vault = null
  await rm(folder, { recursive: true })
})

function create(credentials: CredentialConfig, more: Partial<Parameters<typeof createCredentials>[0]> = {}) {
  return createCredentials({
    config: { baseUrl: 'http://host/', endpoint: '/v1/super', credentials },
    serviceName: 'svc',
    ticketFile: join(folder, 'ticket'),
    vaultTokenFile: join(folder, 'vault-token'),
    ...more,
  })
}

/** Vault that answers token-1, token-2, … */
async function startVault() {
  await writeFile(join(folder, 'vault-token'), 'vault-secret\n')
  const server = await startHttp((_request, response) =>
    json(response, 200, { data: { data: { current: `token-${server.requests.length}` } } }),
  )
  vault = server
  return server
}

describe('with an API key', () => {
  it('HTTP gets a bearer and the websocket an apikey, both with the service name', async () => {
    const credentials = create({ mode: 'key', apiKey: 'fx-1' })
    expect(await credentials.headers(signal)).toEqual({ authorization: 'Bearer fx-1', 'x-flexus-service-name': 'svc' })
    expect(await credentials.initPayload(signal)).toEqual({ apikey: 'fx-1', 'x-flexus-service-name': 'svc' })
  })

  it('a key that no header can carry is refused without being quoted', async () => {
    const failure = create({ mode: 'key', apiKey: 'fx-1\nx' }).headers(signal)
    await expect(failure).rejects.toMatchObject({ kind: 'retry', message: expect.not.stringContaining('fx-1') })
  })
})

describe('with a ticket', () => {
  it('the configured one is used when there is no file', async () => {
    const credentials = create({ mode: 'ticket', ticket: 'configured' })
    expect(await credentials.headers(signal)).toEqual({
      'x-flexus-ws-ticket': 'configured',
      'x-flexus-service-name': 'svc',
    })
  })

  it('the file is read afresh for each use', async () => {
    const credentials = create({ mode: 'ticket', ticket: 'configured' })
    await writeFile(join(folder, 'ticket'), 'first\n')
    expect(await credentials.initPayload(signal)).toMatchObject({ 'x-flexus-ws-ticket': 'first' })
    await writeFile(join(folder, 'ticket'), 'second\n')
    expect(await credentials.initPayload(signal)).toMatchObject({ 'x-flexus-ws-ticket': 'second' })
  })
})

describe('a ticket file that is there and cannot be read', () => {
  it('is an error: the configured ticket does not take its place', async () => {
    const credentials = create({ mode: 'ticket', ticket: 'configured' })
    await mkdir(join(folder, 'ticket'))
    await expect(credentials.initPayload(signal)).rejects.toMatchObject({
      kind: 'retry',
      message: 'the file of the ticket cannot be read: EISDIR',
    })
  })
})

describe('as superuser', () => {
  it('without Vault the token is the one of a developer box', async () => {
    const credentials = create({ mode: 'superuser', vaultEndpoint: null })
    expect(await credentials.headers(signal)).toMatchObject({
      'x-flexus-superuser': 'curr-secret-password-for-/v1/super',
    })
  })

  it('Vault is asked at the endpoint, with the token of its file', async () => {
    const server = await startVault()
    const credentials = create({ mode: 'superuser', vaultEndpoint: server.url })
    expect(await credentials.initPayload(signal)).toMatchObject({ 'x-flexus-superuser': 'token-1' })
    expect(server.requests[0]).toMatchObject({
      path: '/v1/kv/data/flexus/v1/super',
      headers: { 'x-vault-token': 'vault-secret' },
    })
  })

  it('the token is kept for 300 s', async () => {
    const server = await startVault()
    let nowMs = 0
    const credentials = create({ mode: 'superuser', vaultEndpoint: server.url }, { now: () => nowMs })
    await credentials.headers(signal)
    nowMs = 299_999
    expect(await credentials.headers(signal)).toMatchObject({ 'x-flexus-superuser': 'token-1' })
    nowMs = 300_000
    expect(await credentials.headers(signal)).toMatchObject({ 'x-flexus-superuser': 'token-2' })
  })

  it('the token is fetched again once it was refused', async () => {
    const server = await startVault()
    const credentials = create({ mode: 'superuser', vaultEndpoint: server.url })
    await credentials.headers(signal)
    credentials.invalidate()
    expect(await credentials.headers(signal)).toMatchObject({ 'x-flexus-superuser': 'token-2' })
  })

  it('a token that was under way when its like was refused is not kept', async () => {
    await writeFile(join(folder, 'vault-token'), 'vault-secret')
    const server = await startHttp((_request, response) => {
      if (server.requests.length === 1) credentials.invalidate()
      json(response, 200, { data: { data: { current: `token-${server.requests.length}` } } })
    })
    vault = server
    const credentials = create({ mode: 'superuser', vaultEndpoint: server.url })
    await credentials.headers(signal)
    expect(await credentials.headers(signal)).toMatchObject({ 'x-flexus-superuser': 'token-2' })
  })

  it('many who ask at once cause one request', async () => {
    const server = await startVault()
    const credentials = create({ mode: 'superuser', vaultEndpoint: server.url })
    await Promise.all(Array.from({ length: 10 }, () => credentials.headers(signal)))
    expect(server.requests).toHaveLength(1)
  })

  it('a Vault that does not answer is given up in time', async () => {
    await startVault()
    const silent = await startHttp(() => {})
    const credentials = create({ mode: 'superuser', vaultEndpoint: silent.url }, { vaultTimeoutMs: 50 })
    await expect(credentials.headers(signal)).rejects.toMatchObject({ kind: 'retry' })
    await silent.close()
  })

  it.each([
    [503, { errors: ['sealed'] }],
    [200, { data: { data: {} } }],
  ])('an answer %i %j of Vault is worth a retry, and the next use asks again', async (status, body) => {
    await startVault()
    let broken = true
    const server = await startHttp((_request, response) =>
      broken ? json(response, status, body) : json(response, 200, { data: { data: { current: 'good' } } }),
    )
    const credentials = create({ mode: 'superuser', vaultEndpoint: server.url })
    await expect(credentials.headers(signal)).rejects.toMatchObject({ kind: 'retry' })
    broken = false
    expect(await credentials.headers(signal)).toMatchObject({ 'x-flexus-superuser': 'good' })
    await server.close()
  })

  it('a missing file of the Vault token is worth a retry', async () => {
    const credentials = create({ mode: 'superuser', vaultEndpoint: 'http://127.0.0.1:1' })
    await expect(credentials.headers(signal)).rejects.toMatchObject({ kind: 'retry' })
  })
})

describe('secrets that are read', () => {
  it('are told before they are used, each time that they may have changed', async () => {
    const told: string[] = []
    const onSecret = (name: string, value: string) => told.push(`${name} ${value}`)
    const ticket = create({ mode: 'ticket', ticket: 'configured' }, { onSecret })
    await writeFile(join(folder, 'ticket'), 'first\n')
    await ticket.headers(signal)
    await writeFile(join(folder, 'ticket'), 'second\n')
    await ticket.initPayload(signal)
    expect(told.splice(0)).toEqual(['ticket first', 'ticket second'])
    const server = await startVault()
    await create({ mode: 'superuser', vaultEndpoint: server.url }, { onSecret }).headers(signal)
    expect(told).toEqual(['Vault vault-secret', 'superuser token-1'])
  })
})

describe('headers of a call', () => {
  it('carry its key, and its persona when there is one', () => {
    expect(callHeaders(sampleCall())).toEqual({ 'x-flexus-call-untrusted-key': UNTRUSTED_KEY })
    expect(callHeaders(sampleCall({ connected_persona_id: 'p1' }))).toMatchObject({ 'x-flexus-persona-id': 'p1' })
    expect(callHeaders(sampleCall({ connected_persona_id: '' }))).not.toHaveProperty('x-flexus-persona-id')
  })

  it('are an empty key for the service itself', () => {
    expect(callHeaders(null)).toEqual({ 'x-flexus-call-untrusted-key': '' })
  })

  it('with a key that no header can carry are refused without quoting it', () => {
    expect(() => callHeaders(sampleCall({ fcall_untrusted_key: `a\r\n${UNTRUSTED_KEY}` }))).toThrow(
      expect.objectContaining({ kind: 'final', message: expect.not.stringContaining(UNTRUSTED_KEY) }),
    )
  })
})
