import { buildSchema, type GraphQLSchema } from 'graphql'
import type { ToolCall } from '../backend/protocol.js'
import type { CallStore } from './call-store.js'
import type { CallHeaders, ConfirmationRequest, Ledger, PostedResult, RegistrationRequest } from './ledger.js'

/** The operations of docs/protocol.md and nothing else. The mutations have no selections in the protocol, so they return a scalar. */
const SDL = `
  type CloudtoolCall {
    caller_fuser_id: String!
    located_fgroup_id: String!
    ws_id: String!
    fcall_id: String!
    fcall_ft_id: String!
    fcall_ft_btest_name: String!
    fcall_fexp_name: String!
    fcall_ftm_alt: Int!
    fcall_called_ftm_num: Int!
    fcall_call_n: Int!
    fcall_result_ftm_num: Int!
    fcall_name: String!
    fcall_arguments: String!
    fcall_created_ts: Float!
    fcall_untrusted_key: String!
    connected_persona_id: String
    confirmed_by_human: Boolean
  }

  input CloudtoolResultInput {
    fcall_id: String!
    fcall_untrusted_key: String!
    ftm_content: String!
    ftm_provenance: String!
    dollars: Float
  }

  "GraphQL wants one; the protocol has no queries."
  type Query {
    service: String!
  }

  type Mutation {
    cloudtool_confirm_exists(
      tool_name: String!
      ctool_description: String!
      ctool_parameters: String!
      fgroup_id: String
      fuser_id: String
      shared: Boolean!
      ctool_strict: Boolean!
    ): Boolean!
    cloudtool_post_result(input: CloudtoolResultInput!, as_placeholder: Boolean!): Boolean!
    cloudtool_confirmation_request(
      fcall_id: String!
      confirm_setup_key: String!
      confirm_command: String!
      confirm_explanation: String!
    ): Boolean!
  }

  type Subscription {
    cloudtool_wait_for_call(tool_names: [String!]!, fgroup_id: String, fuser_id: String): CloudtoolCall!
  }
`

interface WaitArguments {
  readonly tool_names: readonly string[]
  readonly fgroup_id?: string | null
  readonly fuser_id?: string | null
}

/** Root values per operation, as graphql-ws and graphql's execute take them; arguments are what the schema has checked. */
export interface Roots {
  readonly query: Record<string, unknown>
  readonly mutation: Record<string, unknown>
  readonly subscription: Record<string, unknown>
}

export function createSchema(): GraphQLSchema {
  return buildSchema(SDL)
}

export function createRoots(calls: CallStore, ledger: Ledger): Roots {
  return {
    query: { service: 'embedded backend' },
    mutation: {
      cloudtool_confirm_exists(args: RegistrationRequest) {
        ledger.register(args)
        return true
      },
      cloudtool_post_result(args: { input: PostedResult; as_placeholder: boolean }, headers: CallHeaders) {
        ledger.post(args.input, args.as_placeholder, headers)
        return true
      },
      cloudtool_confirmation_request(args: ConfirmationRequest, headers: CallHeaders) {
        ledger.requestConfirmation(args, headers)
        return true
      },
    },
    subscription: {
      cloudtool_wait_for_call(args: WaitArguments) {
        const taken = calls.subscribe({
          toolNames: args.tool_names,
          fgroupId: args.fgroup_id ?? null,
          fuserId: args.fuser_id ?? null,
        })
        return asEvents(taken)
      },
    },
  }
}

/** The subscription's events are root values themselves: the call under the field's name. */
function asEvents(
  taken: AsyncIterableIterator<ToolCall>,
): AsyncIterableIterator<{ cloudtool_wait_for_call: ToolCall }> {
  const done = { done: true, value: undefined } as const
  // Written out: an async generator would hold its return() back until the call that it waits for has come.
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    async next() {
      const result = await taken.next()
      return result.done === true ? done : { done: false, value: { cloudtool_wait_for_call: result.value } }
    },
    async return() {
      await taken.return?.()
      return done
    },
  }
}
