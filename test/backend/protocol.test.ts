import { buildSchema, parse, validate } from 'graphql'
import { describe, expect, it } from 'vitest'
import {
  CONFIRM_EXISTS,
  deltaEndpoint,
  deltaFrame,
  httpEndpoint,
  POST_RESULT,
  parseToolCall,
  REQUEST_CONFIRMATION,
  WAIT_FOR_CALL,
  wsEndpoint,
} from '../../src/backend/protocol.js'
import { sampleCall, UNTRUSTED_KEY } from './support/fixtures.js'

describe('a call', () => {
  it('is read as it came', () => {
    expect(parseToolCall(sampleCall())).toEqual({ ok: true, call: sampleCall(), personaLeftOut: false })
  })

  it('may have fields that nobody knows yet', () => {
    expect(parseToolCall({ ...sampleCall(), new_field: 1 })).toMatchObject({ ok: true, call: sampleCall() })
  })

  it('may lack what is only shown or logged', () => {
    const { caller_fuser_id, fcall_fexp_name, fcall_call_n, connected_persona_id, confirmed_by_human, ...rest } =
      sampleCall()
    const parsed = parseToolCall({ ...rest, ws_id: null, fcall_arguments: null })
    expect(parsed).toMatchObject({
      ok: true,
      call: { caller_fuser_id: '', ws_id: '', fcall_arguments: '', fcall_call_n: 0, connected_persona_id: null },
    })
  })

  it.each([
    ['fcall_id', ''],
    ['fcall_id', 5],
    ['fcall_ft_id', null],
    ['fcall_ftm_alt', '100'],
    ['fcall_result_ftm_num', 1.5],
    ['fcall_created_ts', null],
    ['fcall_untrusted_key', 7],
    ['confirmed_by_human', 'yes'],
  ])('with a wrong %s (%j) is refused, naming the field and not the key', (field, value) => {
    const parsed = parseToolCall({ ...sampleCall(), [field]: value })
    expect(parsed).toMatchObject({ ok: false, reason: expect.stringContaining(field) })
    expect(parsed.ok ? '' : parsed.reason).not.toContain(UNTRUSTED_KEY)
  })

  it('that is refused still gives its id if that can be read, bounded', () => {
    expect(parseToolCall({ fcall_id: 'c9' })).toMatchObject({ ok: false, fcallId: 'c9', unreadable: null })
    expect(parseToolCall({ fcall_id: 'c'.repeat(5_000) })).toMatchObject({ fcallId: 'c'.repeat(200) })
  })

  it.each([
    [{ fcall_ftm_alt: 'x' }, { connected_persona_id: null, confirmed_by_human: null }],
    [{ fcall_ftm_alt: 'x', connected_persona_id: 'p1' }, { connected_persona_id: 'p1' }],
    [{ connected_persona_id: 7 }, { connected_persona_id: null }],
    [{ confirmed_by_human: 'yes' }, { confirmed_by_human: false }],
  ])('that is refused gives what it takes to answer it: %j', (changes, expected) => {
    expect(parseToolCall({ ...sampleCall(), ...changes })).toMatchObject({
      ok: false,
      unreadable: { fcall_id: 'c1', fcall_untrusted_key: UNTRUSTED_KEY, ...expected },
    })
  })

  it.each(['fcall_id', 'fcall_untrusted_key'])('that is refused without a readable %s cannot be answered', field => {
    expect(parseToolCall({ ...sampleCall(), [field]: 7 })).toMatchObject({ ok: false, unreadable: null })
  })

  it.each(['ключ', 'a\nb', 'a\u0000', ' a', 'k'.repeat(8_001)])(
    'with a key that no header can carry (%j) is refused, and cannot be answered',
    fcall_untrusted_key => {
      const parsed = parseToolCall({ ...sampleCall(), fcall_untrusted_key })
      expect(parsed).toMatchObject({ ok: false, fcallId: 'c1', unreadable: null })
      expect(parsed.ok ? '' : parsed.reason).toMatch(/^fcall_untrusted_key is wrong: .* header$/)
    },
  )

  it.each(['персона', 'a\r\nb', 'p'.repeat(1_001)])('goes on without a persona that no header can carry (%j)', bad => {
    expect(parseToolCall({ ...sampleCall(), connected_persona_id: bad })).toMatchObject({
      ok: true,
      call: { fcall_id: 'c1', connected_persona_id: null },
      personaLeftOut: true,
    })
    expect(parseToolCall({ ...sampleCall(), connected_persona_id: bad, fcall_ftm_alt: 'x' })).toMatchObject({
      unreadable: { fcall_id: 'c1', connected_persona_id: null },
    })
  })

  it.each([null, '', 'persona_1'])('keeps a persona that is %j', connected_persona_id => {
    expect(parseToolCall({ ...sampleCall(), connected_persona_id })).toMatchObject({
      call: { connected_persona_id },
      personaLeftOut: false,
    })
  })

  it.each([null, 'text', 5, [], {}])('that is %j is refused without an id', value => {
    expect(parseToolCall(value)).toMatchObject({ ok: false, fcallId: null })
  })
})

describe('addresses', () => {
  it.each([
    ['https://host/', 'https://host/v1/graphql', 'wss://host/v1/graphql', 'wss://host/v1/delta/ws'],
    ['http://host:8080/', 'http://host:8080/v1/graphql', 'ws://host:8080/v1/graphql', 'ws://host:8080/v1/delta/ws'],
  ])('are made from %s', (baseUrl, http, ws, delta) => {
    const address = { baseUrl, endpoint: '/v1/graphql' }
    expect([httpEndpoint(address), wsEndpoint(address), deltaEndpoint(address)]).toEqual([http, ws, delta])
  })
})

it('a delta frame carries the coordinates of the result', () => {
  expect(JSON.parse(deltaFrame(sampleCall(), 'hé'))).toEqual({
    ftm_belongs_to_ft_id: 't1',
    ftm_alt: 100,
    ftm_num: 4,
    ftm_prev_alt: 100,
    delta: { ftm_role: 'tool', ftm_content: 'hé', ftm_call_id: 'c1' },
  })
})

it.each([
  ['subscription', WAIT_FOR_CALL],
  ['confirm exists', CONFIRM_EXISTS],
  ['post result', POST_RESULT],
  ['confirmation request', REQUEST_CONFIRMATION],
])('the %s document fits the schema of the protocol', (_name, document) => {
  const schema = buildSchema(`
    input CloudtoolResultInput { fcall_id: String!, fcall_untrusted_key: String!, ftm_content: String!, ftm_provenance: String!, dollars: Float }
    type Call {
      caller_fuser_id: String! located_fgroup_id: String! ws_id: String! fcall_id: String! fcall_ft_id: String!
      fcall_ft_btest_name: String! fcall_fexp_name: String! fcall_ftm_alt: Int! fcall_called_ftm_num: Int! fcall_call_n: Int!
      fcall_result_ftm_num: Int! fcall_name: String! fcall_arguments: String! fcall_created_ts: Float! fcall_untrusted_key: String!
      connected_persona_id: String confirmed_by_human: Boolean
    }
    type Query { x: Int }
    type Subscription { cloudtool_wait_for_call(tool_names: [String!]!, fgroup_id: String, fuser_id: String): Call! }
    type Mutation {
      cloudtool_confirm_exists(tool_name: String!, ctool_description: String!, ctool_parameters: String!, fgroup_id: String, fuser_id: String, shared: Boolean!, ctool_strict: Boolean!): Boolean!
      cloudtool_post_result(input: CloudtoolResultInput!, as_placeholder: Boolean!): Boolean!
      cloudtool_confirmation_request(fcall_id: String!, confirm_setup_key: String!, confirm_command: String!, confirm_explanation: String!): Boolean!
    }`)
  expect(validate(schema, parse(document))).toEqual([])
})
