import { GraphQLClient } from 'graphql-request'
import type { Logger } from 'pino'
import { Agent, fetch as undiciFetch } from 'undici'
import type { BackendConfig } from '../config.js'
import { withTimeLimit } from '../time-limit.js'
import { type Credentials, callHeaders } from './credentials.js'
import { BackendError, classifyBackendError, isAlreadyRequested } from './errors.js'
import {
  type CallIdentity,
  CONFIRM_EXISTS,
  httpEndpoint,
  loggedId,
  POST_RESULT,
  REQUEST_CONFIRMATION,
} from './protocol.js'

/** A tool as the backend registers it. */
export interface RegisteredTool {
  readonly name: string
  readonly description: string
  /** JSON text of the parameter schema, after ordering. */
  readonly parametersJson: string
  readonly strict: boolean
}

/** For whom a tool is registered and calls are taken. `fuserId` is null for a shared tool. */
export interface Audience {
  readonly fgroupId: string | null
  readonly fuserId: string | null
  readonly shared: boolean
}

interface PostedResult {
  /** JSON text: a string, or an array of parts. */
  readonly content: string
  /** JSON text of an object with at least `system`. */
  readonly provenance: string
  readonly dollars: number
}

interface ConfirmationRequest {
  /** Settings key that the page links to, "" for none. */
  readonly setupKey: string
  /** Shown in monospace below the explanation. */
  readonly command: string
  /** The first line that a person sees. */
  readonly explanation: string
}

/** The three mutations. Each takes a bounded time, see BackendApiOptions, and rejects with a BackendError, whatever went wrong. */
export interface BackendApi {
  confirmExists(tool: RegisteredTool, audience: Audience, signal: AbortSignal): Promise<void>
  postResult(
    call: CallIdentity,
    result: PostedResult,
    options: { readonly asPlaceholder: boolean },
    signal: AbortSignal,
  ): Promise<void>
  /** Resolves as well when the confirmation had been requested before, which need not have been by this worker. */
  requestConfirmation(
    call: CallIdentity,
    request: ConfirmationRequest,
    signal: AbortSignal,
  ): Promise<'asked' | 'asked_before'>
  /** Ends idle connections; requests in flight are cut off. */
  close(): Promise<void>
}

export interface BackendApiOptions {
  readonly config: BackendConfig
  readonly credentials: Credentials
  readonly log: Logger
  /** For each mutation, credentials included, and besides the time that its bytes may take; the reference client allows 10 s. */
  readonly timeoutMs?: number
  /** Bytes a second below which a wire counts as one that does not get an answer through. */
  readonly slowestBytesPerSecond?: number
}

/** 8 MiB get 74 s, and so several attempts within the backend's ten minutes. */
const SLOWEST_BYTES_PER_SECOND = 128 * 1024
/** No attempt is longer: the backend has given the call up by then. */
const LONGEST_ATTEMPT_MS = 600_000

/** As many as the reference client keeps calls in flight; more mutations wait their turn, within their time limit. */
const CONNECTIONS_MAX = 64

export function createBackendApi(options: BackendApiOptions): BackendApi {
  const { config, credentials, log, timeoutMs = 10_000, slowestBytesPerSecond = SLOWEST_BYTES_PER_SECOND } = options
  // A connection pool of our own: closing the worker must not wait for keep-alive sockets of the process-wide one, and a
  // thousand "busy" answers at once must not open a thousand sockets.
  const agent = new Agent({
    connections: CONNECTIONS_MAX,
    connect: { timeout: timeoutMs },
    // Of its own limits the first counts from the beginning of a request; ours, which knows how long that is, ends both.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  const fetchWithAgent = ((input: string | URL, init?: object) =>
    undiciFetch(input, { ...init, dispatcher: agent })) as unknown as typeof globalThis.fetch
  // Followed to another host, a redirect would take the x-flexus-* headers along: fetch strips only `authorization`.
  const client = new GraphQLClient(httpEndpoint(config), { fetch: fetchWithAgent, redirect: 'error' })

  /** How long a request of so many bytes may take. */
  function limitMs(bytes: number): number {
    return Math.min(LONGEST_ATTEMPT_MS, Math.ceil(timeoutMs + (1_000 * bytes) / slowestBytesPerSecond))
  }

  /** `call` null: made for the service itself. `field` must be in the answer, else it is no answer. `bytes`: roughly, of `variables`. */
  async function mutate(
    document: string,
    field: string,
    variables: Record<string, unknown>,
    call: CallIdentity | null,
    signal: AbortSignal,
    bytes = 0,
  ): Promise<void> {
    const secrets = call === null ? [] : [call.fcall_untrusted_key]
    const fcallId = call === null ? undefined : loggedId(call.fcall_id)
    const startedMs = performance.now()
    try {
      await withTimeLimit(limitMs(bytes), signal, async limited => {
        const forService = await credentials.headers(limited)
        for (const [name, value] of Object.entries(forService)) {
          if (name !== 'x-flexus-service-name') secrets.push(value.replace(/^Bearer /, ''))
        }
        const requestHeaders = { ...forService, ...callHeaders(call) }
        const data = await client.request<Record<string, unknown> | null>({
          document,
          variables,
          requestHeaders,
          signal: limited,
        })
        if (typeof data !== 'object' || data === null || !(field in data)) {
          throw new BackendError('retry', 'the answer has no data')
        }
      })
      log.debug({ mutation: field, fcall_id: fcallId, ms: elapsed(startedMs) }, 'backend mutation done')
    } catch (error) {
      const failure = classifyBackendError(error, secrets)
      if (failure.kind === 'auth') credentials.invalidate()
      log.debug(
        {
          mutation: field,
          fcall_id: fcallId,
          ms: elapsed(startedMs),
          kind: failure.kind,
          status: failure.status,
          reason: failure.message,
        },
        'backend mutation failed',
      )
      throw failure
    }
  }

  return {
    confirmExists: (tool, audience, signal) =>
      mutate(
        CONFIRM_EXISTS,
        'cloudtool_confirm_exists',
        {
          name: tool.name,
          desc: tool.description,
          params: tool.parametersJson,
          fgroup_id: audience.fgroupId,
          fuser_id: audience.shared ? null : audience.fuserId,
          shared: audience.shared,
          strict: tool.strict,
        },
        null,
        signal,
      ),

    postResult: (call, result, { asPlaceholder }, signal) =>
      mutate(
        POST_RESULT,
        'cloudtool_post_result',
        {
          input: {
            fcall_id: call.fcall_id,
            fcall_untrusted_key: call.fcall_untrusted_key,
            ftm_content: result.content,
            ftm_provenance: result.provenance,
            dollars: result.dollars,
          },
          as_placeholder: asPlaceholder,
        },
        call,
        signal,
        Buffer.byteLength(result.content) + Buffer.byteLength(result.provenance),
      ),

    async requestConfirmation(call, request, signal) {
      try {
        await mutate(
          REQUEST_CONFIRMATION,
          'cloudtool_confirmation_request',
          {
            fcall_id: call.fcall_id,
            confirm_setup_key: request.setupKey,
            confirm_command: request.command,
            confirm_explanation: request.explanation,
          },
          call,
          signal,
        )
      } catch (error) {
        if (error instanceof BackendError && isAlreadyRequested(error)) return 'asked_before'
        throw error
      }
      return 'asked'
    },

    close: () => agent.destroy(),
  }

  function elapsed(sinceMs: number): number {
    return Math.round(performance.now() - sinceMs)
  }
}
