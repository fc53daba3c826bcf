import ipaddr from 'ipaddr.js'

/** How the `web` tools are configured. */
export interface WebConfig {
  /** ask: a person approves the script that calls them. */
  readonly mode: 'off' | 'ask' | 'allow'
  /** null: there is no web_search. */
  readonly search: SearchProvider | null
  /** That pages are fetched from. */
  readonly ports: readonly number[]
  /** Networks that pages are never fetched from, besides all that are not public. */
  readonly deniedNetworks: readonly string[]
}

export interface SearchProvider {
  readonly url: string
  readonly key: { readonly header: string; readonly value: string } | null
}

interface WebConfigFault {
  readonly variable: string
  /** Completes "got …; ", and quotes nothing. */
  readonly right: string
}

export interface ParsedWebConfig {
  readonly config: WebConfig
  /** All of them at once; where there are any, `config` has defaults in their place. */
  readonly faults: readonly WebConfigFault[]
  /** To be masked wherever they occur. */
  readonly secrets: readonly string[]
}

export const WEB_PORTS: readonly number[] = [80, 443, 8080, 8443]
/** A shorter one would be masked out of ordinary words. */
const KEY_CHARS_MIN = 12

/**
 * TOOLS_WEB, TOOLS_WEB_SEARCH_URL, TOOLS_WEB_SEARCH_KEY, TOOLS_WEB_PORTS and TOOLS_WEB_DENY_NETWORKS. An empty variable counts as
 * unset.
 */
export function parseWebConfig(env: Readonly<Record<string, string | undefined>>): ParsedWebConfig {
  const faults: WebConfigFault[] = []
  const read = <T>(variable: string, unset: T, right: string, parse: (text: string) => T | undefined): T => {
    const text = env[variable]?.trim() ?? ''
    if (text === '') return unset
    const value = parse(text)
    if (value === undefined) faults.push({ variable, right })
    return value ?? unset
  }
  const mode = read('TOOLS_WEB', 'off', 'give off, ask or allow', modeOf)
  const url = read(
    'TOOLS_WEB_SEARCH_URL',
    null,
    'give the http or https URL of a SearXNG, such as http://searxng:8080/search, or one with {query} in it; a key belongs into TOOLS_WEB_SEARCH_KEY',
    searchTemplateOf,
  )
  const key = read(
    'TOOLS_WEB_SEARCH_KEY',
    null,
    `give a key of ${KEY_CHARS_MIN} characters or more, which is sent as "Authorization: Bearer …", or a whole header as "X-Subscription-Token: …"`,
    keyOf,
  )
  if (key !== null && url === null && faults.length === 0) {
    faults.push({ variable: 'TOOLS_WEB_SEARCH_KEY', right: 'set TOOLS_WEB_SEARCH_URL too, which it is for' })
  }
  const ports = read('TOOLS_WEB_PORTS', WEB_PORTS, 'give ports from 1 to 65535, separated by commas', portsOf)
  const deniedNetworks = read(
    'TOOLS_WEB_DENY_NETWORKS',
    [],
    'give networks such as 203.0.113.0/24 or 2001:db8::/32, separated by commas',
    networksOf,
  )
  return {
    config: { mode, search: url === null ? null : { url, key }, ports, deniedNetworks },
    faults,
    secrets: key === null ? [] : [...new Set([key.value, key.value.replace(/^Bearer\s+/i, '')])],
  }
}

function modeOf(text: string): WebConfig['mode'] | undefined {
  const mode = text.toLowerCase()
  return mode === 'off' || mode === 'ask' || mode === 'allow' ? mode : undefined
}

function searchTemplateOf(text: string): string | undefined {
  const example = text.replaceAll('{query}', 'words').replaceAll('{limit}', '5')
  if (!URL.canParse(example)) return undefined
  const { protocol, username, password } = new URL(example)
  const fits = /^https?:$/.test(protocol) && username === '' && password === ''
  // The host is never made of what the code asks for.
  const host = text.split('/', 3).join('/').split(/[?#]/)[0] ?? ''
  return fits && !/[{}]/.test(host) ? text : undefined
}

function keyOf(text: string): SearchProvider['key'] | undefined {
  const header = /^([\w-]{1,100}):\s+(.+)$/.exec(text)
  const value = header?.[2] ?? text
  if (!/^[\x20-\x7e]+$/.test(value) || value.replace(/^Bearer\s+/i, '').length < KEY_CHARS_MIN) return undefined
  return header === null
    ? { header: 'authorization', value: `Bearer ${value}` }
    : { header: (header[1] ?? '').toLowerCase(), value }
}

function portsOf(text: string): readonly number[] | undefined {
  const ports = listOf(text).map(port => (/^\d{1,5}$/.test(port) ? Number(port) : 0))
  return ports.length > 0 && ports.every(port => port >= 1 && port <= 65_535) ? ports : undefined
}

function networksOf(text: string): readonly string[] | undefined {
  const networks = listOf(text)
  return networks.every(network => ipaddr.isValidCIDR(network)) ? networks : undefined
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map(part => part.trim())
    .filter(part => part !== '')
}
