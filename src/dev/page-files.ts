import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { EmbeddedBackend } from './embedded-backend.js'
import { refusalOf } from './local-access.js'
import { answerText } from './request-body.js'

/** Where the build puts the page: beside this file in dist/. */
const BUILT = fileURLToPath(new URL('page/', import.meta.url))
/** Stands in index.html where the editor finds the nonce for its own styles. */
const NONCE_MARK = '__STYLE_NONCE__'

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const SAME_ORIGIN: OutgoingHttpHeaders = {
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
}

/**
 * Adds the page at / and its scripts and styles, all from this process and read once. What the page may load is this origin's alone, nothing
 * inline but the editor's styles, and nothing may frame it: else a click on "Approve" could be another site's. A build without the page
 * answers with words.
 */
export async function addPageFiles(backend: EmbeddedBackend, folder = BUILT): Promise<void> {
  const assets = path.join(folder, 'assets')
  const names = await readdir(assets).catch(() => null)
  // Beside its source there are no bundles.
  const html = names === null ? null : await readFile(path.join(folder, 'index.html'), 'utf8').catch(() => null)
  backend.addRoute('/', async (request, response) => {
    if (isRefused(request, response, true)) return
    if (html === null) return answerText(response, 503, 'the page is not built: npm run build\n')
    const nonce = randomBytes(16).toString('base64url')
    send(request, response, html.replaceAll(NONCE_MARK, nonce), {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy': policy(nonce),
      'cross-origin-opener-policy': 'same-origin',
      'x-frame-options': 'DENY',
    })
  })
  for (const name of names ?? []) {
    const type = TYPES[path.extname(name)]
    if (type === undefined) continue
    const body = await readFile(path.join(assets, name))
    backend.addRoute(`/assets/${name}`, async (request, response) => {
      if (isRefused(request, response, false)) return
      // Their names carry a hash of what they hold.
      send(request, response, body, { 'content-type': type, 'cache-control': 'max-age=31536000, immutable' })
    })
  }
}

function policy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    // blob: pictures of results; data: the arrows and ticks in the style sheet.
    "img-src 'self' blob: data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ')
}

function isRefused(request: IncomingMessage, response: ServerResponse, navigation: boolean): boolean {
  const refusal = refusalOf(request, { method: 'GET', navigation })
  if (refusal !== null) answerText(response, refusal.status, `${refusal.text}\n`)
  return refusal !== null
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  body: string | Buffer,
  headers: OutgoingHttpHeaders,
): void {
  response.writeHead(200, { ...SAME_ORIGIN, ...headers, 'content-length': Buffer.byteLength(body) })
  response.end(request.method === 'HEAD' ? undefined : body)
}
