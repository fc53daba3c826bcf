import { lookup } from 'node:dns/promises'
import { STATUS_CODES } from 'node:http'
import { isIP } from 'node:net'
import { type AddressPolicy, checkAddress, hostOf, portOf, targetUrl } from './address-policy.js'
import { ACCEPT_ENCODING, readBody } from './body.js'
import { decodeText } from './charset.js'
import { contentKind } from './content-kind.js'
import { httpGet } from './http-get.js'
import { PageError } from './page-error.js'

const REDIRECTS_MAX = 5
const REDIRECTS = new Set([301, 302, 303, 307, 308])

const HEADERS = {
  'user-agent': 'Mozilla/5.0 (compatible; python-execute-worker)',
  accept: 'text/html,application/xhtml+xml;q=0.9,text/plain;q=0.8,application/json;q=0.8,*/*;q=0.5',
  'accept-language': 'en,*;q=0.5',
  'accept-encoding': ACCEPT_ENCODING,
}

/** All addresses of a host. */
export type Resolve = (host: string) => Promise<readonly string[]>

export interface FetchOptions {
  readonly policy: AddressPolicy
  readonly bodyBytesMax: number
  readonly signal: AbortSignal
  /** Default: as the machine looks names up. */
  readonly resolve?: Resolve
}

export interface Page {
  /** Where it was found, after redirects. */
  readonly url: string
  readonly kind: 'html' | 'text'
  readonly text: string
}

/**
 * Fetches one page. At every hop the host is looked up once, each of its addresses is checked, and the connection is made to one
 * of those that were checked. Errors: PageError, and those that `wordsFor` has words for.
 */
export async function fetchPage(address: string, options: FetchOptions): Promise<Page> {
  const { policy, signal, bodyBytesMax } = options
  let url = targetUrl(address, policy)
  for (let hop = 0; hop <= REDIRECTS_MAX; hop++) {
    const message = await httpGet(url, await checkedAddresses(url, options), { headers: HEADERS, signal })
    const status = message.statusCode ?? 0
    const location = message.headers.location
    if (REDIRECTS.has(status) && location !== undefined) {
      message.destroy()
      url = targetUrl(location, policy, url)
      continue
    }
    if (status < 200 || status > 299) {
      message.destroy()
      throw new PageError(`the server answered ${status} ${STATUS_CODES[status] ?? ''}`.trim())
    }
    const type = message.headers['content-type'] ?? ''
    const bytes = await readBody(message, bodyBytesMax, signal)
    return { url: url.href, kind: contentKind(type, bytes), text: decodeText(bytes, type) }
  }
  throw new PageError(`the page redirects more than ${REDIRECTS_MAX} times`)
}

/** One bad address spoils the host: an attacker's name server would mix them. */
async function checkedAddresses(url: URL, options: FetchOptions): Promise<readonly string[]> {
  const host = hostOf(url)
  const addresses = isIP(host) === 0 ? await addressesOf(host, options.signal, options.resolve) : [host]
  for (const address of addresses) checkAddress(address, portOf(url), options.policy)
  return addresses
}

/** A look-up can't be ended, only left alone. */
export async function addressesOf(
  host: string,
  signal: AbortSignal,
  resolve: Resolve = systemResolve,
): Promise<readonly string[]> {
  signal.throwIfAborted()
  return await new Promise((done, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    resolve(host)
      .then(done, reject)
      .finally(() => signal.removeEventListener('abort', abort))
  })
}

async function systemResolve(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true, verbatim: true })
  return found.map(({ address }) => address)
}
