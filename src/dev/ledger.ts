import { GraphQLError } from 'graphql'
import type { ToolCall } from '../backend/protocol.js'
import { type Checked, parseContent, parseProvenance } from './answer-format.js'
import type { CallStore } from './call-store.js'
import type { Answer, BackendEvent, Confirmation, Delta, Registration } from './records.js'
import { checkParameters } from './registration-check.js'

export interface PostedResult {
  readonly fcall_id: string
  readonly fcall_untrusted_key: string
  readonly ftm_content: string
  readonly ftm_provenance: string
  readonly dollars?: number | null
}

/** What the request itself said in its call-scoped headers. */
export interface CallHeaders {
  readonly untrustedKey: string | null
  readonly personaId: string | null
}

export interface RegistrationRequest {
  readonly tool_name: string
  readonly ctool_description: string
  readonly ctool_parameters: string
  readonly fgroup_id?: string | null
  readonly fuser_id?: string | null
  readonly shared: boolean
  readonly ctool_strict: boolean
}

export interface ConfirmationRequest {
  readonly fcall_id: string
  readonly confirm_setup_key: string
  readonly confirm_command: string
  readonly confirm_explanation: string
}

export interface Ledger {
  /** By fcall_id: the one final answer first, then the duplicates that were refused. */
  readonly answers: Map<string, Answer[]>
  readonly placeholders: Answer[]
  readonly duplicates: Answer[]
  readonly registrations: Registration[]
  readonly confirmations: Confirmation[]
  /** Frames on the delta websocket that no front end could have used, in words. */
  readonly deltaFaults: string[]
  deltas(fcallId: string): readonly Delta[]
  /** These three throw a GraphQLError with a numbered message, as the backend words its refusals. */
  post(input: PostedResult, asPlaceholder: boolean, headers: CallHeaders): void
  register(request: RegistrationRequest): void
  requestConfirmation(request: ConfirmationRequest, headers: CallHeaders): void
  recordDelta(fcallId: string, text: string): void
  recordDeltaFault(reason: string): void
}

/** What the worker did, as the backend saw it: all is checked against docs/protocol.md before it is written down. */
export function createLedger(options: {
  readonly calls: CallStore
  readonly emit: (event: BackendEvent) => void
  readonly now: () => number
}): Ledger {
  const { calls, emit, now } = options
  const answers = new Map<string, Answer[]>()
  const placeholders: Answer[] = []
  const duplicates: Answer[] = []
  const registrations: Registration[] = []
  const confirmations: Confirmation[] = []
  const deltas = new Map<string, Delta[]>()
  const deltaFaults: string[] = []

  function refuse(reason: string): never {
    emit({ type: 'request_refused', reason })
    throw new GraphQLError(reason)
  }

  function checked<T>(result: Checked<T>): T {
    return 'fault' in result ? refuse(`400: ${result.fault}`) : result.value
  }

  function callOf(fcallId: string, headers: CallHeaders): ToolCall {
    const call = calls.find(fcallId)
    if (call === null) return refuse('404: no such call')
    if (headers.untrustedKey !== call.fcall_untrusted_key) {
      return refuse('403: x-flexus-call-untrusted-key is not the key of this call')
    }
    return call
  }

  function post(input: PostedResult, asPlaceholder: boolean, headers: CallHeaders): void {
    const call = callOf(input.fcall_id, headers)
    if (input.fcall_untrusted_key !== call.fcall_untrusted_key)
      refuse('403: fcall_untrusted_key is not the key of this call')
    const content = checked(parseContent(input.ftm_content))
    const provenance = checked(parseProvenance(input.ftm_provenance))
    const earlier = answers.get(call.fcall_id) ?? []
    const answer: Answer = {
      fcallId: call.fcall_id,
      content,
      provenance,
      dollars: input.dollars ?? null,
      placeholder: asPlaceholder,
      duplicate: earlier.length > 0,
      personaId: headers.personaId,
      atMs: now(),
    }
    if (answer.duplicate) {
      duplicates.push(answer)
      answers.set(call.fcall_id, [...earlier, answer])
      emit({ type: 'duplicate', answer })
      throw new GraphQLError('409: this call already has its result')
    }
    calls.settle(call.fcall_id)
    if (asPlaceholder) {
      placeholders.push(answer)
      emit({ type: 'placeholder', answer })
      return
    }
    answers.set(call.fcall_id, [answer])
    emit({ type: 'answered', answer })
  }

  function register(request: RegistrationRequest): void {
    const registration: Registration = {
      toolName: request.tool_name,
      description: request.ctool_description,
      parameters: checked(checkParameters(request.ctool_parameters, request.ctool_strict)),
      fgroupId: request.fgroup_id ?? null,
      fuserId: request.fuser_id ?? null,
      shared: request.shared,
      strict: request.ctool_strict,
      atMs: now(),
    }
    registrations.push(registration)
    emit({ type: 'registered', registration })
  }

  function requestConfirmation(request: ConfirmationRequest, headers: CallHeaders): void {
    // No argument proves a right to act on this call, so the header alone does.
    const call = callOf(request.fcall_id, headers)
    if (answers.has(call.fcall_id)) refuse('409: this call already has its result')
    if (confirmations.some(asked => asked.fcallId === call.fcall_id)) refuse('409: confirmation already requested')
    const confirmation: Confirmation = {
      fcallId: call.fcall_id,
      setupKey: request.confirm_setup_key,
      command: request.confirm_command,
      explanation: request.confirm_explanation,
      atMs: now(),
    }
    confirmations.push(confirmation)
    emit({ type: 'confirmation_requested', confirmation })
  }

  return {
    answers,
    placeholders,
    duplicates,
    registrations,
    confirmations,
    deltaFaults,
    deltas: fcallId => deltas.get(fcallId) ?? [],
    post,
    register,
    requestConfirmation,
    recordDelta(fcallId, text) {
      const delta: Delta = { text, atMs: now() }
      const earlier = deltas.get(fcallId)
      if (earlier === undefined) deltas.set(fcallId, [delta])
      else earlier.push(delta)
      emit({ type: 'delta', fcallId, delta })
    },
    recordDeltaFault(reason) {
      deltaFaults.push(reason)
      emit({ type: 'delta_refused', reason })
    },
  }
}
