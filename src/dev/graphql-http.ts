import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DocumentNode, execute, GraphQLError, type GraphQLSchema, getOperationAST, parse, validate } from 'graphql'
import { z } from 'zod'
import { parseJson } from './answer-format.js'
import type { AcceptedCredentials } from './credential-check.js'
import { presentedInHeaders, refusalOf } from './credential-check.js'
import type { CallHeaders } from './ledger.js'
import type { HttpMisbehaviour, Rulebook } from './misbehaviour.js'
import { answerText, readBody } from './request-body.js'
import type { Roots } from './schema.js'

const requestSchema = z.object({
  query: z.string(),
  variables: z.record(z.string(), z.unknown()).nullish(),
  operationName: z.string().nullish(),
})

type GraphqlRequest = z.infer<typeof requestSchema>

export interface GraphqlHttpOptions {
  readonly schema: GraphQLSchema
  readonly roots: Roots
  readonly rules: Rulebook
  readonly accepted: () => AcceptedCredentials
  readonly maxBodyBytes: number
  readonly onRequest: (operation: string) => void
  readonly onRefused: (reason: string) => void
}

/**
 * Answers one GraphQL POST. GraphQL's own errors come with status 200, as the real backend sends them. `stopping` aborts when the backend
 * is killed: what was not carried out by then never is, while a client that merely hung up is served to the end.
 */
export async function answerGraphql(
  options: GraphqlHttpOptions,
  request: IncomingMessage,
  response: ServerResponse,
  stopping: AbortSignal,
): Promise<void> {
  const body = await readBody(request, options.maxBodyBytes)
  if (body === null) return answerText(response, 413, `413: more than ${options.maxBodyBytes} bytes`)
  const parsed = requestSchema.safeParse(parseJson(body))
  if (!parsed.success) return answerText(response, 400, '400: the body is not a GraphQL request')
  const read = readDocument(options.schema, parsed.data)
  if ('errors' in read) return answerJson(response, { errors: read.errors })
  options.onRequest(read.operation)

  const rules = options.rules.takeDelays(read.operation)
  const spoil = options.rules.take(['http_status', 'http_reset', 'http_body', 'graphql_error'], {
    operation: read.operation,
  })
  for (const rule of rules) if (rule.commit !== true) await sleep(rule.ms, undefined, { signal: stopping })
  if (spoil !== null && spoil.commit !== true) return misbehave(spoil, request, response)

  const answer = await carryOut(options, parsed.data, read.document, request)
  for (const rule of rules) if (rule.commit === true) await sleep(rule.ms, undefined, { signal: stopping })
  if (spoil !== null) return misbehave(spoil, request, response)
  answerJson(response, answer)
}

function readDocument(
  schema: GraphQLSchema,
  { query, operationName }: GraphqlRequest,
): { readonly document: DocumentNode; readonly operation: string } | { readonly errors: readonly GraphQLError[] } {
  try {
    const document = parse(query)
    const errors = validate(schema, document)
    if (errors.length > 0) return { errors }
    const operation = getOperationAST(document, operationName)
    if (operation === null || operation === undefined) return { errors: [new GraphQLError('400: which operation?')] }
    if (operation.operation === 'subscription') {
      return { errors: [new GraphQLError('400: subscriptions go over the websocket')] }
    }
    const field = operation.selectionSet.selections[0]
    return { document, operation: field?.kind === 'Field' ? field.name.value : '' }
  } catch (error) {
    return { errors: [error instanceof GraphQLError ? error : new GraphQLError(String(error))] }
  }
}

async function carryOut(
  options: GraphqlHttpOptions,
  request: GraphqlRequest,
  document: DocumentNode,
  { headers }: IncomingMessage,
): Promise<unknown> {
  const refusal = refusalOf(options.accepted(), presentedInHeaders(headers))
  if (refusal !== null) {
    options.onRefused(refusal)
    return { data: null, errors: [{ message: refusal }] }
  }
  const contextValue: CallHeaders = {
    untrustedKey: header(headers['x-flexus-call-untrusted-key']),
    personaId: header(headers['x-flexus-persona-id']),
  }
  return await execute({
    schema: options.schema,
    document,
    rootValue: { ...options.roots.query, ...options.roots.mutation },
    contextValue,
    variableValues: request.variables,
    operationName: request.operationName,
  })
}

function misbehave(rule: HttpMisbehaviour, request: IncomingMessage, response: ServerResponse): void {
  switch (rule.kind) {
    case 'http_status':
      for (const [name, value] of Object.entries(rule.headers ?? {})) response.setHeader(name, value)
      answerText(response, rule.status, rule.body ?? `the embedded backend was told to answer ${rule.status}`)
      return
    case 'http_reset':
      request.socket.resetAndDestroy()
      return
    case 'http_body':
      answerText(response, 200, rule.body)
      return
    case 'graphql_error':
      answerJson(response, { data: null, errors: [{ message: rule.message }] })
      return
  }
}

function answerJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}

function header(value: string | string[] | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}
