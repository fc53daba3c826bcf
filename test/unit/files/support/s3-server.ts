import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

interface S3Request {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
}

export interface S3Server {
  readonly url: string
  /** Key → what is stored under it. */
  readonly objects: Map<string, { readonly body: Buffer; readonly type: string; readonly at: number }>
  readonly requests: S3Request[]
  /** Answers in the place of the store; false: the store answers. */
  misbehave: (request: S3Request, response: ServerResponse) => boolean
}

const SIGNED =
  /^AWS4-HMAC-SHA256 Credential=AKIATEST\/\d{8}\/eu-test-1\/s3\/aws4_request, SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*, Signature=[0-9a-f]{64}$/

/** As much of S3 as the store speaks, for one bucket in path style. What is not signed as it has to be is refused. */
export async function startS3Server(bucket: string): Promise<S3Server> {
  const objects: S3Server['objects'] = new Map()
  const requests: S3Request[] = []
  const server = createServer(async (incoming, response) => {
    const url = new URL(incoming.url ?? '/', 'http://s3.invalid')
    const { method = '', headers } = incoming
    const request = { method, path: decodeURIComponent(url.pathname), query: url.searchParams, headers }
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    requests.push(request)
    if (state.misbehave(request, response)) return
    const hash = headers['x-amz-content-sha256']
    const isWhole = hash === 'UNSIGNED-PAYLOAD' || hash === createHash('sha256').update(body).digest('hex')
    if (
      !SIGNED.test(headers.authorization ?? '') ||
      !/^\d{8}T\d{6}Z$/.test(String(headers['x-amz-date'])) ||
      !isWhole
    ) {
      refuse(response, 403, 'SignatureDoesNotMatch')
      return
    }
    const prefix = `/${bucket}/`
    if (!`${request.path}/`.startsWith(prefix)) return refuse(response, 404, 'NoSuchBucket')
    answer(request, request.path.slice(prefix.length), body, objects, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const state: S3Server = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    objects,
    requests,
    misbehave: () => false,
  }
  return state
}

function answer(
  { method, query, headers }: S3Request,
  key: string,
  body: Buffer,
  objects: S3Server['objects'],
  response: ServerResponse,
): void {
  const known = objects.get(key)
  if (method === 'PUT') {
    objects.set(key, { body, type: headers['content-type'] ?? '', at: Date.now() })
    response.writeHead(200, { ETag: etag(body) }).end()
  } else if (method === 'POST' && query.has('delete')) {
    for (const [, escaped = ''] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) objects.delete(plain(escaped))
    response.writeHead(200).end('<DeleteResult/>')
  } else if (method === 'GET' && query.get('list-type') === '2') {
    const prefix = query.get('prefix') ?? ''
    const found = [...objects].filter(([name]) => name.startsWith(prefix))
    const entries = found.map(
      ([name, one]) =>
        `<Contents><Key>${xml(name)}</Key><LastModified>${new Date(one.at).toISOString()}</LastModified><ETag>${xml(etag(one.body))}</ETag><Size>${one.body.length}</Size></Contents>`,
    )
    response
      .writeHead(200)
      .end(`<ListBucketResult><IsTruncated>false</IsTruncated>${entries.join('')}</ListBucketResult>`)
  } else if (method === 'GET' && known !== undefined) {
    response.writeHead(200, { 'Content-Length': known.body.length, ETag: etag(known.body) }).end(known.body)
  } else refuse(response, 404, 'NoSuchKey')
}

export function refuse(response: ServerResponse, status: number, code: string): void {
  response
    .writeHead(status)
    .end(`<Error><Code>${code}</Code><Message>of the server, with a secret in it</Message></Error>`)
}

const etag = (body: Buffer) => `"${createHash('md5').update(body).digest('hex')}"`
const ENTITIES = [
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
] as const

function xml(text: string): string {
  return ENTITIES.reduce((so, [plainly, entity]) => so.replaceAll(plainly, entity), text)
}

function plain(text: string): string {
  return ENTITIES.toReversed().reduce((so, [plainly, entity]) => so.replaceAll(entity, plainly), text)
}
