import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'
import { PageError } from './page-error.js'

/** Which servers pages may come from. Plain data: it travels to the process that fetches. */
export interface AddressPolicy {
  readonly ports: readonly number[]
  /** More networks that are refused, as "203.0.113.0/24": those of the operator that have public addresses. */
  readonly deniedNetworks: readonly string[]
  /** Exactly these addresses with port ("127.0.0.1:8080", "[::1]:80") are allowed, whatever the rules say: for tests. */
  readonly exempt: readonly string[]
}

const URL_CHARS_MAX = 8_192

/** Public by their number, and yet the machine's own: Azure's agent, which gives out certificates and settings. */
const METADATA = new Set(['168.63.129.16'])

/**
 * The address to fetch, with everything but the addresses behind its host checked. WHATWG's parser is what makes octal, hex,
 * decimal, percent-encoded and full-width forms of an IP address into the usual one. Errors: PageError.
 */
export function targetUrl(text: string, policy: AddressPolicy, base?: URL): URL {
  if (text.length > URL_CHARS_MAX) throw new PageError(`the address is longer than ${URL_CHARS_MAX} characters`)
  if (!URL.canParse(text, base?.href))
    throw new PageError('this is no address of a page: give a URL such as https://example.com/')
  const url = new URL(text, base)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new PageError('only http and https addresses can be read')
  }
  if (url.username !== '' || url.password !== '') {
    throw new PageError('an address with a user name or password in it is not read')
  }
  const port = portOf(url)
  const exempt = policy.exempt.some(pair => pair.endsWith(`:${port}`))
  if (!policy.ports.includes(port) && !exempt) {
    throw new PageError(`port ${port} is not allowed, only ${policy.ports.join(', ')}`)
  }
  url.hash = ''
  return url
}

export function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port)
  return url.protocol === 'https:' ? 443 : 80
}

/** Without the brackets of IPv6. */
export function hostOf(url: URL): string {
  return url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
}

/** Refuses (PageError) an address that is not on the public internet. The message does not say which address it was. */
export function checkAddress(address: string, port: number, policy: AddressPolicy): void {
  const pair = address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
  if (policy.exempt.includes(pair)) return
  const parsed = ipaddr.isValid(address) ? ipaddr.parse(address) : null
  if (parsed === null || !isPublic(parsed)) throw new PageError('the host is not on the public internet')
  if (METADATA.has(address) || isOwn(parsed)) throw new PageError('the host is not on the public internet')
  if (policy.deniedNetworks.some(network => isWithin(parsed, network))) {
    throw new PageError('the host is in a network that is not allowed here')
  }
}

/**
 * What ipaddr.js calls unicast is global; everything that embeds an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64) has a
 * range of its own, so is refused whatever it embeds. In IPv6 only 2000::/3 has been given out: the rest is refused as well, also
 * where it has no name yet.
 */
function isPublic(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== 'unicast') return false
  return (
    address instanceof ipaddr.IPv4 || (address.zoneId === undefined && ((address.parts[0] ?? 0) & 0xe000) === 0x2000)
  )
}

/** A public address of this machine leads to what listens here, past the firewall that guards it from outside. */
function isOwn(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  const text = address.toNormalizedString()
  return Object.values(networkInterfaces()).some(interfaces =>
    interfaces?.some(({ address: own }) => ipaddr.isValid(own) && ipaddr.parse(own).toNormalizedString() === text),
  )
}

function isWithin(address: ipaddr.IPv4 | ipaddr.IPv6, network: string): boolean {
  const [base, bits] = ipaddr.parseCIDR(network)
  return address.kind() === base.kind() && address.match([base, bits] as never)
}
