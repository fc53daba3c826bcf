import type { IncomingMessage } from 'node:http'
import type { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import zlib from 'node:zlib'
import { PageError } from './page-error.js'

/** Nobody compresses twice on purpose, but a proxy before a server may. */
const ENCODINGS_MAX = 2
const MIB = 1024 * 1024

/** A stream that ends too early gives what it held: many servers cut the checksum off. */
const LENIENT = { finishFlush: zlib.constants.Z_SYNC_FLUSH }

// Node 20 knows no zstd.
const createZstdDecompress = (zlib as { createZstdDecompress?: () => Transform }).createZstdDecompress

/** For the request. */
export const ACCEPT_ENCODING = `gzip, deflate, br${createZstdDecompress === undefined ? '' : ', zstd'}`

/**
 * The body, decompressed, of at most `bytesMax` in either form: what lies beyond is not even decompressed. Errors: PageError, the
 * connection's, the decompressor's, the reason of the signal.
 */
export async function readBody(message: IncomingMessage, bytesMax: number, signal: AbortSignal): Promise<Buffer> {
  const tooLarge = new PageError(`the page is larger than ${Math.round((bytesMax / MIB) * 10) / 10} MiB`)
  let over = false
  const check = (bytes: number) => {
    over ||= bytes > bytesMax
    if (over) throw tooLarge
  }
  try {
    check(Number(message.headers['content-length'] ?? 0))
    const chunks: Buffer[] = []
    let decoded = 0
    const collect = async (source: AsyncIterable<Buffer>) => {
      for await (const chunk of source) {
        decoded += chunk.length
        check(decoded)
        chunks.push(chunk)
      }
    }
    const counted = async function* (source: AsyncIterable<Buffer>) {
      let bytes = 0
      for await (const chunk of source) {
        bytes += chunk.length
        check(bytes)
        yield chunk
      }
    }
    // A server closes the connection of a body that has no length; one that has a length and ends too early is an error of the stream.
    await pipeline([message, counted, ...decoders(message), collect] as never, { signal })
    return Buffer.concat(chunks, decoded)
  } catch (error) {
    // The streams between may see each other close before they see why.
    if (over) throw tooLarge
    throw signal.aborted ? signal.reason : error
  } finally {
    message.destroy()
  }
}

/** In the order in which they are to be applied. */
function decoders(message: IncomingMessage): Transform[] {
  const encodings = (message.headers['content-encoding'] ?? '')
    .toLowerCase()
    .split(',')
    .map(encoding => encoding.trim())
    .filter(encoding => encoding !== '' && encoding !== 'identity')
  if (encodings.length > ENCODINGS_MAX) throw new PageError('the answer is compressed too many times over')
  return encodings.reverse().map(decoderOf)
}

function decoderOf(encoding: string): Transform {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return zlib.createGunzip(LENIENT)
    case 'deflate':
      return zlib.createInflate(LENIENT)
    case 'br':
      return zlib.createBrotliDecompress({ finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH })
    case 'zstd':
      if (createZstdDecompress !== undefined) return createZstdDecompress()
  }
  throw new PageError('the answer is compressed in a way that is not known here')
}
