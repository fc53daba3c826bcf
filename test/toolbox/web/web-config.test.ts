import { describe, expect, test } from 'vitest'
import { parseWebConfig, WEB_PORTS } from '../../../src/toolbox/web/web-config.js'

const OFF = { mode: 'off', search: null, ports: WEB_PORTS, deniedNetworks: [] }

describe('the configuration of web', () => {
  test('is off when nothing is set, or set to nothing', () => {
    expect(parseWebConfig({})).toEqual({ config: OFF, faults: [], secrets: [] })
    expect(parseWebConfig({ TOOLS_WEB: '', TOOLS_WEB_SEARCH_URL: ' ' })).toEqual({
      config: OFF,
      faults: [],
      secrets: [],
    })
  })

  test('has all that is set', () => {
    const { config, faults, secrets } = parseWebConfig({
      TOOLS_WEB: 'Ask',
      TOOLS_WEB_SEARCH_URL: 'http://searxng:8080/search',
      TOOLS_WEB_SEARCH_KEY: 'X-Subscription-Token: 0123456789ab',
      TOOLS_WEB_PORTS: '443, 8000',
      TOOLS_WEB_DENY_NETWORKS: '203.0.113.0/24,2001:db8::/32',
    })
    expect(faults).toEqual([])
    expect(config).toEqual({
      mode: 'ask',
      search: { url: 'http://searxng:8080/search', key: { header: 'x-subscription-token', value: '0123456789ab' } },
      ports: [443, 8000],
      deniedNetworks: ['203.0.113.0/24', '2001:db8::/32'],
    })
    expect(secrets).toEqual(['0123456789ab'])
  })

  test('sends a bare key as a bearer, and masks it in both forms', () => {
    const url = 'https://search.example/{query}'
    const { config, secrets } = parseWebConfig({ TOOLS_WEB_SEARCH_URL: url, TOOLS_WEB_SEARCH_KEY: '0123456789ab' })
    expect(config.search?.key).toEqual({ header: 'authorization', value: 'Bearer 0123456789ab' })
    expect(secrets).toEqual(['Bearer 0123456789ab', '0123456789ab'])
  })

  test.each([
    ['TOOLS_WEB', 'yes'],
    ['TOOLS_WEB_SEARCH_URL', 'no-url'],
    ['TOOLS_WEB_SEARCH_URL', 'ftp://x/'],
    ['TOOLS_WEB_SEARCH_URL', 'https://user:key@x/'],
    ['TOOLS_WEB_SEARCH_URL', 'https://{query}/'],
    ['TOOLS_WEB_SEARCH_URL', 'https://a.{query}?x'],
    ['TOOLS_WEB_SEARCH_KEY', 'short'],
    ['TOOLS_WEB_SEARCH_KEY', 'X-Key: short'],
    ['TOOLS_WEB_SEARCH_KEY', 'a-key\nX-Other: of two lines'],
    ['TOOLS_WEB_SEARCH_KEY', 'a-good-key-for-nothing'],
    ['TOOLS_WEB_PORTS', '80,x'],
    ['TOOLS_WEB_PORTS', '0'],
    ['TOOLS_WEB_PORTS', '65536'],
    ['TOOLS_WEB_DENY_NETWORKS', '10.0.0.1'],
  ])('refuses %s=%j without quoting it', (variable, value) => {
    const { faults, secrets } = parseWebConfig({ [variable]: value })
    expect(faults.map(fault => fault.variable)).toEqual([variable])
    expect(faults[0]?.right).not.toContain(value)
    expect(secrets).toHaveLength(variable === 'TOOLS_WEB_SEARCH_KEY' && value.startsWith('a-good') ? 2 : 0)
  })

  test('names all faults at once', () => {
    const { faults } = parseWebConfig({ TOOLS_WEB: 'x', TOOLS_WEB_PORTS: 'x', TOOLS_WEB_SEARCH_URL: 'x' })
    expect(faults.map(({ variable }) => variable)).toEqual(['TOOLS_WEB', 'TOOLS_WEB_SEARCH_URL', 'TOOLS_WEB_PORTS'])
  })
})
