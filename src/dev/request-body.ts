import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * The whole body as UTF-8, or null if it is longer than `maxBytes`. The rest is read and dropped then: a connection closed on unread data
 * is reset, and the client would never see the refusal.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    const piece = Buffer.from(chunk)
    bytes += piece.length
    if (bytes <= maxBytes) chunks.push(piece)
    else chunks.length = 0
  }
  return bytes > maxBytes ? null : Buffer.concat(chunks).toString('utf8')
}

export function answerText(response: ServerResponse, status: number, text: string): void {
  if (!response.hasHeader('content-type')) response.setHeader('content-type', 'text/plain; charset=utf-8')
  response.writeHead(status)
  response.end(text)
}
