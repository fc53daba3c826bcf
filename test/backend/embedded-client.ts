import { createClient } from 'graphql-ws'
import { WebSocket } from 'ws'
import type { ToolCall } from '../../src/backend/protocol.js'

/** A small client of the tests' own, so that the embedded backend is not tested with the worker that it is there to test. */

const FIELDS = `caller_fuser_id located_fgroup_id ws_id fcall_id fcall_ft_id fcall_ft_btest_name fcall_fexp_name fcall_ftm_alt
  fcall_called_ftm_num fcall_call_n fcall_result_ftm_num fcall_name fcall_arguments fcall_created_ts fcall_untrusted_key
  connected_persona_id confirmed_by_human`

export const WAIT = `subscription CloudtoolWait($names: [String!]!, $fgroup_id: String, $fuser_id: String) {
  cloudtool_wait_for_call(tool_names: $names, fgroup_id: $fgroup_id, fuser_id: $fuser_id) { ${FIELDS} }
}`

const POST = `mutation CloudtoolPost($input: CloudtoolResultInput!, $as_placeholder: Boolean!) {
  cloudtool_post_result(input: $input, as_placeholder: $as_placeholder)
}`

const CONFIRM = `mutation CloudtoolConfirmationRequest($fcall_id: String!, $confirm_setup_key: String!,
  $confirm_command: String!, $confirm_explanation: String!) {
  cloudtool_confirmation_request(fcall_id: $fcall_id, confirm_setup_key: $confirm_setup_key,
    confirm_command: $confirm_command, confirm_explanation: $confirm_explanation)
}`

const REGISTER = `mutation CloudtoolConfirm($name: String!, $desc: String!, $params: String!, $fgroup_id: String,
  $fuser_id: String, $shared: Boolean!, $strict: Boolean!) {
  cloudtool_confirm_exists(tool_name: $name, ctool_description: $desc, ctool_parameters: $params,
    fgroup_id: $fgroup_id, fuser_id: $fuser_id, shared: $shared, ctool_strict: $strict)
}`

/** Where to and as whom; an EmbeddedBackend is one. */
export interface Target {
  readonly url: string
  readonly apiKey: string
}

export interface Subscriber {
  /** What was delivered, in order. */
  readonly calls: ToolCall[]
  /** Every `next` payload, whatever is in it. */
  readonly payloads: unknown[]
  /** How the subscription ended: 'complete', GraphQL errors or the websocket's close event. */
  readonly ended: Promise<unknown>
  close(): Promise<void>
}

export function wsUrl(backend: Target, path: string): string {
  return new URL(path, backend.url.replace('http', 'ws')).href
}

export function subscribe(
  backend: Target,
  options: { readonly params?: Record<string, unknown>; readonly ackMs?: number; readonly path?: string } = {},
): Subscriber {
  const client = createClient({
    url: wsUrl(backend, options.path ?? '/v1/graphql'),
    webSocketImpl: WebSocket,
    connectionParams: options.params ?? { apikey: backend.apiKey, 'x-flexus-service-name': 'python_execute' },
    retryAttempts: 0,
    connectionAckWaitTimeout: options.ackMs ?? 0,
  })
  const calls: ToolCall[] = []
  const payloads: unknown[] = []
  const ended = new Promise<unknown>(resolve => {
    client.subscribe<{ cloudtool_wait_for_call: ToolCall }>(
      { query: WAIT, variables: { names: ['python_execute'], fgroup_id: null, fuser_id: null } },
      {
        next(payload) {
          payloads.push(payload)
          if (payload.data?.cloudtool_wait_for_call != null) calls.push(payload.data.cloudtool_wait_for_call)
        },
        error: resolve,
        complete: () => resolve('complete'),
      },
    )
  })
  return {
    calls,
    payloads,
    ended,
    async close() {
      await client.dispose()
    },
  }
}

export interface GraphqlAnswer {
  readonly data?: unknown
  readonly errors?: readonly { readonly message: string }[]
}

export function serviceHeaders(backend: Target): Record<string, string> {
  return { authorization: `Bearer ${backend.apiKey}`, 'x-flexus-service-name': 'python_execute' }
}

export async function send(
  backend: Target,
  query: string,
  variables: unknown,
  headers: Record<string, string>,
  signal: AbortSignal | null = null,
): Promise<Response> {
  return await fetch(`${backend.url}v1/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ query, variables }),
    signal,
  })
}

export async function postResponse(
  backend: Target,
  call: ToolCall,
  content: unknown,
  options: { readonly placeholder?: boolean; readonly key?: string; readonly signal?: AbortSignal } = {},
): Promise<Response> {
  return await postWith(backend, call, JSON.stringify(content), { system: 'python_execute' }, options)
}

/** Posts a result whose content is JSON text already. */
export async function postWith(
  backend: Target,
  call: ToolCall,
  ftmContent: string,
  provenance: Record<string, unknown>,
  options: { readonly placeholder?: boolean; readonly key?: string; readonly signal?: AbortSignal } = {},
): Promise<Response> {
  const input = {
    fcall_id: call.fcall_id,
    fcall_untrusted_key: options.key ?? call.fcall_untrusted_key,
    ftm_content: ftmContent,
    ftm_provenance: JSON.stringify(provenance),
    dollars: 0.25,
  }
  const headers = { ...serviceHeaders(backend), 'x-flexus-call-untrusted-key': call.fcall_untrusted_key }
  const variables = { input, as_placeholder: options.placeholder ?? false }
  return await send(backend, POST, variables, headers, options.signal ?? null)
}

export async function post(
  backend: Target,
  call: ToolCall,
  content: unknown,
  options: { readonly placeholder?: boolean; readonly key?: string } = {},
): Promise<GraphqlAnswer> {
  return (await (await postResponse(backend, call, content, options)).json()) as GraphqlAnswer
}

export async function askPerson(
  backend: Target,
  call: ToolCall,
  headers: Record<string, string> = { 'x-flexus-call-untrusted-key': call.fcall_untrusted_key },
): Promise<GraphqlAnswer> {
  const variables = {
    fcall_id: call.fcall_id,
    confirm_setup_key: '',
    confirm_command: 'print(1)',
    confirm_explanation: 'Run this?',
  }
  const response = await send(backend, CONFIRM, variables, { ...serviceHeaders(backend), ...headers })
  return (await response.json()) as GraphqlAnswer
}

export async function register(
  backend: Target,
  parameters: unknown,
  headers: Record<string, string> = serviceHeaders(backend),
): Promise<GraphqlAnswer> {
  const variables = {
    name: 'python_execute',
    desc: 'Runs Python.',
    params: typeof parameters === 'string' ? parameters : JSON.stringify(parameters),
    fgroup_id: null,
    fuser_id: null,
    shared: true,
    strict: true,
  }
  return (await (await send(backend, REGISTER, variables, headers)).json()) as GraphqlAnswer
}

export const GOOD_PARAMETERS = {
  type: 'object',
  properties: { code: { type: 'string', order: 0 } },
  required: ['code'],
  additionalProperties: false,
}

/** Opens a delta websocket; `text` sends one frame for a call. */
export async function openDelta(backend: Target): Promise<{
  readonly socket: WebSocket
  text(call: ToolCall, content: string): void
}> {
  const socket = new WebSocket(wsUrl(backend, '/v1/delta/ws'))
  await new Promise((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('error', reject)
  })
  return { socket, text: (call, content) => socket.send(JSON.stringify(deltaFrame(call, content))) }
}

export function deltaFrame(call: ToolCall, content: string): Record<string, unknown> {
  return {
    ftm_belongs_to_ft_id: call.fcall_ft_id,
    ftm_alt: call.fcall_ftm_alt,
    ftm_num: call.fcall_result_ftm_num,
    ftm_prev_alt: call.fcall_ftm_alt,
    delta: { ftm_role: 'tool', ftm_content: content, ftm_call_id: call.fcall_id },
  }
}
