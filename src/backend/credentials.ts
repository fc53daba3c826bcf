import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { BackendConfig } from '../config.js'
import { TimeLimitError, withTimeLimit } from '../time-limit.js'
import { BackendError, networkCode } from './errors.js'
import type { ToolCall } from './protocol.js'

/** Who the worker is, for HTTP and websocket. Nothing here is logged, and no error holds a secret. */
export interface Credentials {
  /** Headers for an HTTP request. Rejects with a BackendError of kind retry if the secret can't be had now. */
  headers(signal: AbortSignal): Promise<Record<string, string>>
  /** Payload of connection_init. Rejects like `headers`. */
  initPayload(signal: AbortSignal): Promise<Record<string, string>>
  /** To be called after a 401 or 403: a cached token is thrown away. */
  invalidate(): void
}

export interface CredentialsOptions {
  readonly config: BackendConfig
  readonly serviceName: string
  /** Default `/tmp/<service>_flexus_ticket`; a file here wins over the configured ticket. */
  readonly ticketFile?: string
  /** Told of each secret that is read (they are renewed), before it is used, so that it is masked from then on. */
  onSecret?(name: string, value: string): void
  /** Default `/vault/token/token`, where the Vault agent puts it. */
  readonly vaultTokenFile?: string
  readonly fetch?: typeof globalThis.fetch
  /** Monotonic milliseconds. */
  readonly now?: () => number
  readonly vaultTimeoutMs?: number
  readonly vaultCacheMs?: number
}

type Secret = { readonly mode: 'key' | 'ticket' | 'superuser'; readonly value: string }

/** Each mode of docs/protocol.md, "Addresses and credentials", as one source of the secret. */
export function createCredentials(options: CredentialsOptions): Credentials {
  const { config, serviceName, onSecret = () => {} } = options
  const service = { 'x-flexus-service-name': serviceName }
  const told = secretSource(options)
  const source = {
    ...told,
    async read(signal: AbortSignal): Promise<Secret> {
      const secret = await told.read(signal)
      onSecret(secret.mode, secret.value)
      return secret
    },
  }

  return {
    async headers(signal) {
      const { mode, value } = await source.read(signal)
      switch (mode) {
        case 'key':
          return { authorization: `Bearer ${value}`, ...service }
        case 'ticket':
          return { 'x-flexus-ws-ticket': value, ...service }
        case 'superuser':
          return { 'x-flexus-superuser': value, ...service }
      }
    },
    async initPayload(signal) {
      const { mode, value } = await source.read(signal)
      switch (mode) {
        case 'key':
          return { apikey: value, ...service }
        case 'ticket':
          return { 'x-flexus-ws-ticket': value, ...service }
        case 'superuser':
          return { 'x-flexus-superuser': value, ...service }
      }
    },
    invalidate: () => source.invalidate(),
  }

  function secretSource(options: CredentialsOptions): {
    read(signal: AbortSignal): Promise<Secret>
    invalidate(): void
  } {
    const { credentials } = config
    switch (credentials.mode) {
      case 'key': {
        const value = credentials.apiKey
        return { read: async () => ({ mode: 'key', value: sendable(value, 'the API key') }), invalidate: () => {} }
      }
      case 'ticket': {
        const file = options.ticketFile ?? `/tmp/${serviceName}_flexus_ticket`
        return {
          read: async () => {
            const value = (await readIfThere(file, 'the ticket')) ?? credentials.ticket
            return { mode: 'ticket', value: sendable(value.trim(), 'the ticket') }
          },
          invalidate: () => {},
        }
      }
      case 'superuser': {
        if (credentials.vaultEndpoint === null) {
          // A developer's box: no Vault, and a token that the developer's backend knows. The endpoint keeps its slash.
          const value = `curr-secret-password-for-${config.endpoint}`
          return { read: async () => ({ mode: 'superuser', value }), invalidate: () => {} }
        }
        return vaultSource(options, credentials.vaultEndpoint)
      }
    }
  }
}

/** The superuser token from Vault: one request at a time, kept for `vaultCacheMs`, dropped by `invalidate`. */
function vaultSource(options: CredentialsOptions, vaultEndpoint: string) {
  const now = options.now ?? (() => performance.now())
  const timeoutMs = options.vaultTimeoutMs ?? 3_000
  const cacheMs = options.vaultCacheMs ?? 300_000
  const url = `${vaultEndpoint.replace(/\/+$/, '')}/v1/kv/data/flexus${options.config.endpoint}`
  const tokenFile = options.vaultTokenFile ?? '/vault/token/token'
  const fetchToken = options.fetch ?? globalThis.fetch
  let cached: { readonly value: string; readonly untilMs: number } | null = null
  let pending: Promise<string> | null = null
  /** Raised by each invalidation, so that a request begun before it does not bring back the refused token. */
  let generation = 0

  async function request(signal: AbortSignal): Promise<string> {
    const vaultToken = await readIfThere(tokenFile, 'the Vault token')
    if (vaultToken === null) throw new BackendError('retry', 'there is no Vault token file')
    const vaultSecret = sendable(vaultToken.trim(), 'the Vault token')
    options.onSecret?.('Vault', vaultSecret)
    const headers = { 'X-Vault-Token': vaultSecret }
    const response = await fetchToken(url, { headers, signal, redirect: 'error' })
    if (!response.ok) {
      await response.body?.cancel()
      throw new BackendError('retry', `Vault answered HTTP ${response.status}`, { status: response.status })
    }
    const parsed = vaultAnswer.safeParse(await response.json())
    if (!parsed.success) throw new BackendError('retry', 'the answer of Vault has no data.data.current')
    return sendable(parsed.data.data.data.current, 'the superuser token')
  }

  function refresh(): Promise<string> {
    const mine = generation
    // Shared by all who wait, so no single caller's signal may abort it; the time limit ends it.
    const shared = withTimeLimit(timeoutMs, new AbortController().signal, request).then(
      value => {
        if (mine === generation) cached = { value, untilMs: now() + cacheMs }
        return value
      },
      error => {
        throw vaultError(error)
      },
    )
    const clear = () => {
      if (pending === shared) pending = null
    }
    shared.then(clear, clear)
    pending = shared
    return shared
  }

  return {
    async read(signal: AbortSignal): Promise<Secret> {
      if (cached !== null && now() < cached.untilMs) return { mode: 'superuser', value: cached.value }
      // Beyond the request's own limit only the caller's signal can end this wait.
      const value = await withTimeLimit(timeoutMs + 1_000, signal, () => pending ?? refresh())
      return { mode: 'superuser', value }
    },
    invalidate(): void {
      generation += 1
      cached = null
      pending = null
    },
  }
}

const vaultAnswer = z.object({ data: z.object({ data: z.object({ current: z.string().min(1) }) }) })

function vaultError(error: unknown): BackendError {
  if (error instanceof BackendError) return error
  if (error instanceof TimeLimitError) return new BackendError('retry', `Vault: ${error.message}`)
  const code = networkCode(error)
  return new BackendError('retry', code === null ? 'Vault: no usable answer' : `Vault: network: ${code}`)
}

/** null: there is no such file. One that is there and cannot be read is an error: another secret must not take its place. */
async function readIfThere(path: string, what: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const code = networkCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw new BackendError('retry', `the file of ${what} cannot be read: ${code}`)
  }
}

/** fetch quotes a header value that it refuses in its error, so a secret that can't be a header is stopped here. */
function sendable(value: string, what: string): string {
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw new BackendError('retry', `${what} is empty or has characters that a header cannot carry`)
  }
  return value
}

/**
 * Headers that say for which call a request is made. For the service itself (null) the key is empty and there is no
 * persona. Throws a BackendError of kind final, without the value, if the key can't be a header.
 */
export function callHeaders(
  call: Pick<ToolCall, 'fcall_untrusted_key' | 'connected_persona_id'> | null,
): Record<string, string> {
  if (call === null) return { 'x-flexus-call-untrusted-key': '' }
  const values = [call.fcall_untrusted_key, call.connected_persona_id ?? '']
  if (!values.every(value => /^[\x20-\x7e]*$/.test(value))) {
    throw new BackendError('final', 'the key or persona of the call has characters that a header cannot carry')
  }
  return {
    'x-flexus-call-untrusted-key': call.fcall_untrusted_key,
    ...(call.connected_persona_id ? { 'x-flexus-persona-id': call.connected_persona_id } : {}),
  }
}
