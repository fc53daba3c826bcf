import { z } from 'zod'

/**
 * What goes over the wire, as docs/protocol.md has it: operation documents, addresses, the parser for a call, and the
 * delta frame. Everything that knows a field name of the backend's schema lives here.
 */

/** One call as the backend delivers it; field names are the wire's. docs/protocol.md, "Taking calls". */
export interface ToolCall {
  readonly caller_fuser_id: string
  readonly located_fgroup_id: string
  readonly ws_id: string
  readonly fcall_id: string
  readonly fcall_ft_id: string
  readonly fcall_ft_btest_name: string
  readonly fcall_fexp_name: string
  readonly fcall_ftm_alt: number
  readonly fcall_called_ftm_num: number
  readonly fcall_call_n: number
  readonly fcall_result_ftm_num: number
  readonly fcall_name: string
  readonly fcall_arguments: string
  /** Seconds since the epoch. */
  readonly fcall_created_ts: number
  /** Capability for acting on this call; never logged. */
  readonly fcall_untrusted_key: string
  readonly connected_persona_id: string | null
  /** null: not asked; true: approved; false: declined. */
  readonly confirmed_by_human: boolean | null
}

export const WAIT_FOR_CALL = /* GraphQL */ `
  subscription CloudtoolWait($names: [String!]!, $fgroup_id: String, $fuser_id: String) {
    cloudtool_wait_for_call(tool_names: $names, fgroup_id: $fgroup_id, fuser_id: $fuser_id) {
      caller_fuser_id
      located_fgroup_id
      ws_id
      fcall_id
      fcall_ft_id
      fcall_ft_btest_name
      fcall_fexp_name
      fcall_ftm_alt
      fcall_called_ftm_num
      fcall_call_n
      fcall_result_ftm_num
      fcall_name
      fcall_arguments
      fcall_created_ts
      fcall_untrusted_key
      connected_persona_id
      confirmed_by_human
    }
  }
`

export const CONFIRM_EXISTS = /* GraphQL */ `
  mutation CloudtoolConfirm($name: String!, $desc: String!, $params: String!, $fgroup_id: String,
                            $fuser_id: String, $shared: Boolean!, $strict: Boolean!) {
    cloudtool_confirm_exists(tool_name: $name, ctool_description: $desc, ctool_parameters: $params,
      fgroup_id: $fgroup_id, fuser_id: $fuser_id, shared: $shared, ctool_strict: $strict)
  }
`

export const POST_RESULT = /* GraphQL */ `
  mutation CloudtoolPost($input: CloudtoolResultInput!, $as_placeholder: Boolean!) {
    cloudtool_post_result(input: $input, as_placeholder: $as_placeholder)
  }
`

export const REQUEST_CONFIRMATION = /* GraphQL */ `
  mutation CloudtoolConfirmationRequest($fcall_id: String!, $confirm_setup_key: String!,
      $confirm_command: String!, $confirm_explanation: String!) {
    cloudtool_confirmation_request(fcall_id: $fcall_id, confirm_setup_key: $confirm_setup_key,
      confirm_command: $confirm_command, confirm_explanation: $confirm_explanation)
  }
`

/** Null where a text is only shown or logged costs nothing, so it reads as "". */
const harmlessText = z
  .string()
  .nullish()
  .transform(text => text ?? '')

/** Null where a number is only provenance reads as 0. */
const harmlessInt = z
  .int()
  .nullish()
  .transform(number => number ?? 0)

const id = z.string().min(1, 'must not be empty')

/** What goes into a header as it is and comes out as it was; longer ones are refused by common servers. */
const headerText = z.string().regex(/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/, 'can not be sent as a header')
const key = headerText.max(8_000, 'is too long to be sent as a header')
const persona = headerText.max(1_000)

/**
 * Strict where a wrong value would do harm: the call's id and key (an answer to nobody), the coordinates (deltas shown
 * under another message), the creation time (the deadline). Unknown fields are ignored: the backend may grow.
 */
const callSchema = z.object({
  caller_fuser_id: harmlessText,
  located_fgroup_id: harmlessText,
  ws_id: harmlessText,
  fcall_id: id,
  fcall_ft_id: z.string(),
  fcall_ft_btest_name: harmlessText,
  fcall_fexp_name: harmlessText,
  fcall_ftm_alt: z.int(),
  fcall_called_ftm_num: harmlessInt,
  fcall_call_n: harmlessInt,
  fcall_result_ftm_num: z.int(),
  fcall_name: id,
  fcall_arguments: harmlessText,
  fcall_created_ts: z.number(),
  // Before anything runs: with a key that cannot be sent no answer can be posted.
  fcall_untrusted_key: key,
  connected_persona_id: z
    .string()
    .nullish()
    .transform(persona => persona ?? null),
  confirmed_by_human: z
    .boolean()
    .nullish()
    .transform(confirmed => confirmed ?? null),
})

/** What names a call to the backend, and so all that is needed to answer it. */
export type CallIdentity = Pick<ToolCall, 'fcall_id' | 'fcall_untrusted_key' | 'connected_persona_id'>

/** A call of which no more could be read than who asks and whether a person has decided. */
export type UnreadableCall = CallIdentity & Pick<ToolCall, 'confirmed_by_human'>

/** The persona counts as absent, and a person's word as a no, where they are what cannot be read: nothing runs either way. */
const unreadableCallSchema = z.object({
  fcall_id: id,
  fcall_untrusted_key: key,
  connected_persona_id: persona.nullable().catch(null),
  confirmed_by_human: z.unknown().transform(word => (word === null || word === undefined ? null : word === true)),
})

export type ParsedCall =
  /** `personaLeftOut`: there was one, but it cannot be sent as a header; the call is made for nobody in particular. */
  | { readonly ok: true; readonly call: ToolCall; readonly personaLeftOut: boolean }
  | {
      readonly ok: false
      readonly reason: string
      readonly fcallId: string | null
      readonly unreadable: UnreadableCall | null
    }

/**
 * Reads one call. On failure `reason` names the fields and what was expected, never a value (one of them is the key);
 * `fcallId` is the call's id if that much could be read, `unreadable` what it takes to answer it if that could be.
 */
export function parseToolCall(value: unknown): ParsedCall {
  const parsed = callSchema.safeParse(value)
  if (parsed.success) {
    const call = parsed.data
    const personaLeftOut = Boolean(call.connected_persona_id) && !persona.safeParse(call.connected_persona_id).success
    return { ok: true, call: personaLeftOut ? { ...call, connected_persona_id: null } : call, personaLeftOut }
  }
  // Not "field: fault": the log would take what follows the key's name for the key, and mask it.
  const faults = parsed.error.issues
    .slice(0, 5)
    .map(issue => `${issue.path.join('.') || 'the call'} is wrong: ${issue.message}`)
  const known = z.object({ fcall_id: id }).safeParse(value)
  const answerable = unreadableCallSchema.safeParse(value)
  return {
    ok: false,
    reason: faults.join('; '),
    fcallId: known.success ? loggedId(known.data.fcall_id) : null,
    unreadable: answerable.success ? answerable.data : null,
  }
}

const LOGGED_ID_CHARS = 200

/** An id as it may stand in a log line: it comes from outside, and nothing bounds its length there. */
export function loggedId(id: string): string {
  return id.slice(0, LOGGED_ID_CHARS)
}

/** The part of BackendConfig that makes addresses. */
interface Address {
  readonly baseUrl: string
  readonly endpoint: string
}

export function httpEndpoint(address: Address): string {
  return `${address.baseUrl.replace(/\/+$/, '')}${address.endpoint}`
}

/** The websocket side has the same addresses with ws for http and wss for https. */
export function wsEndpoint(address: Address): string {
  return httpEndpoint(address).replace(/^http/i, 'ws')
}

export function deltaEndpoint(address: Pick<Address, 'baseUrl'>): string {
  return wsEndpoint({ baseUrl: address.baseUrl, endpoint: '/v1/delta/ws' })
}

/** The coordinates a delta needs. */
export type DeltaTarget = Pick<ToolCall, 'fcall_id' | 'fcall_ft_id' | 'fcall_ftm_alt' | 'fcall_result_ftm_num'>

/** One frame for the delta websocket: the front end appends `text` to the message at these coordinates. */
export function deltaFrame(call: DeltaTarget, text: string): string {
  return JSON.stringify({
    ftm_belongs_to_ft_id: call.fcall_ft_id,
    ftm_alt: call.fcall_ftm_alt,
    ftm_num: call.fcall_result_ftm_num,
    ftm_prev_alt: call.fcall_ftm_alt,
    delta: { ftm_role: 'tool', ftm_content: text, ftm_call_id: call.fcall_id },
  })
}
