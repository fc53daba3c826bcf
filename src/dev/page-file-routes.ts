import type { IncomingMessage, ServerResponse } from 'node:http'
import type { KeptFiles } from './demo.js'
import type { EmbeddedBackend } from './embedded-backend.js'
import { safeFileName } from './file-name.js'
import { refusalOf } from './local-access.js'
import type { PageFeed } from './page-feed.js'
import { answerText } from './request-body.js'

const HEADERS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
}

/**
 * GET /dev/files?id= lists what is kept of the thread of a call: JSON, [{path, bytes}]. GET /dev/file?id=&path= is one of them, to be saved
 * and never shown: its bytes are the code's, and on this origin they could be a page.
 */
export function addFileRoutes(backend: EmbeddedBackend, feed: PageFeed, files: () => KeptFiles | null): void {
  backend.addRoute('/dev/files', async (request, response, stopping) => {
    const asked = accept(request, response, feed)
    if (asked === null) return
    const found = (await files()?.look(asked.key, stopping)) ?? []
    response.writeHead(200, { ...HEADERS, 'content-type': 'application/json' })
    response.end(JSON.stringify(found.map(({ path, bytes }) => ({ path, bytes }))))
  })

  backend.addRoute('/dev/file', async (request, response, stopping) => {
    const asked = accept(request, response, feed)
    if (asked === null) return
    const path = asked.parameters.get('path') ?? ''
    const content = (await files()?.read(asked.key, path, stopping)) ?? null
    if (content === null) return answerText(response, 404, 'there is no such file any more\n')
    const name = safeFileName(path)
    const plain = name.replace(/[^\w.-]/g, '_')
    response.writeHead(200, {
      ...HEADERS,
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="${plain}"; filename*=UTF-8''${encodeURIComponent(name)}`,
      'content-security-policy': "default-src 'none'; sandbox",
      'content-length': content.length,
    })
    response.end(request.method === 'HEAD' ? undefined : content)
  })
}

function accept(request: IncomingMessage, response: ServerResponse, feed: PageFeed) {
  const refusal = refusalOf(request, { method: 'GET' })
  if (refusal !== null) {
    answerText(response, refusal.status, `${refusal.text}\n`)
    return null
  }
  const parameters = new URL(request.url ?? '', 'http://localhost').searchParams
  const key = feed.threadOf(parameters.get('id') ?? '')
  if (key === null) {
    answerText(response, 404, 'there is no such call\n')
    return null
  }
  return { key, parameters }
}
