import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import { isIP } from 'node:net'
import { hostOf, portOf } from './address-policy.js'
import { PageError } from './page-error.js'

const HEADER_BYTES_MAX = 16 * 1024
const CONNECT_MS = 4_000
/** Hosts with many addresses: trying all of them takes longer than a page may. */
const ADDRESSES_TRIED_MAX = 3

export interface GetOptions {
  readonly headers: Readonly<Record<string, string>>
  /** Ends the request, and the body that is being read, with its reason. */
  readonly signal: AbortSignal
}

/**
 * One GET over a connection of its own, to one of these addresses and to nothing else: the host's name is not looked up here, it
 * only stands in the Host header, in SNI and in what the certificate is checked for. The next address is tried where a connection
 * can't be made. Follows no redirect, knows no proxy. The caller reads or destroys the body.
 */
export async function httpGet(url: URL, addresses: readonly string[], options: GetOptions): Promise<IncomingMessage> {
  let failure: unknown = new PageError('there is no host of this name')
  for (const address of addresses.slice(0, ADDRESSES_TRIED_MAX)) {
    const attempt = { connected: false }
    try {
      return await getFrom(url, address, attempt, options)
    } catch (error) {
      if (attempt.connected || options.signal.aborted) throw error
      failure = error
    }
  }
  throw failure
}

function getFrom(
  url: URL,
  address: string,
  attempt: { connected: boolean },
  { headers, signal }: GetOptions,
): Promise<IncomingMessage> {
  const secure = url.protocol === 'https:'
  const name = hostOf(url).replace(/\.$/, '')
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const request = (secure ? https : http).get({
      host: address,
      port: portOf(url),
      path: `${url.pathname}${url.search}`,
      headers: { ...headers, host: url.host, connection: 'close' },
      // SNI is for names; of an IP address the certificate is checked for `host`.
      ...(secure ? { servername: isIP(name) === 0 ? name : '' } : {}),
      agent: false,
      maxHeaderSize: HEADER_BYTES_MAX,
    })
    const late = setTimeout(
      () => request.destroy(new PageError('the server can not be reached: no answer in time')),
      CONNECT_MS,
    )
    const abort = () => request.destroy(reasonOf(signal))
    signal.addEventListener('abort', abort, { once: true })
    const settled = () => clearTimeout(late)
    request.once('socket', socket =>
      socket.once(secure ? 'secureConnect' : 'connect', () => {
        settled()
        attempt.connected = true
      }),
    )
    request.once('close', () => {
      settled()
      signal.removeEventListener('abort', abort)
    })
    request.on('error', error => reject(signal.aborted ? reasonOf(signal) : error))
    request.once('response', message => {
      // Whoever reads the body sees its errors; an error of one that nobody reads is nobody's.
      message.on('error', () => {})
      resolve(message)
    })
  })
}

function reasonOf(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new PageError('nobody waits for the page any more')
}
