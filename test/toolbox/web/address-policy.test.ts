import { networkInterfaces } from 'node:os'
import { describe, expect, test } from 'vitest'
import { type AddressPolicy, checkAddress, hostOf, targetUrl } from '../../../src/toolbox/web/address-policy.js'

const policy: AddressPolicy = { ports: [80, 443], deniedNetworks: ['9.9.0.0/16', '2620:fe::/48'], exempt: [] }

describe('an address that is not on the public internet is refused', () => {
  test.each([
    ['loopback', '127.0.0.1'],
    ['all of loopback', '127.255.0.9'],
    ['private, 10/8', '10.1.2.3'],
    ['private, 172.16/12', '172.31.255.1'],
    ['private, 192.168/16', '192.168.1.1'],
    ['link-local', '169.254.1.1'],
    ['cloud metadata', '169.254.169.254'],
    ['metadata in shared address space', '100.100.100.200'],
    ['carrier-grade NAT', '100.64.0.1'],
    ['metadata at a reserved address', '192.0.0.192'],
    ["metadata at a public address, Azure's", '168.63.129.16'],
    ['this network, 0/8', '0.0.0.0'],
    ['this network, another of it', '0.1.2.3'],
    ['broadcast', '255.255.255.255'],
    ['multicast', '224.0.0.1'],
    ['class E', '240.0.0.1'],
    ['documentation', '192.0.2.1'],
    ['benchmarking', '198.18.0.1'],
    ['6to4 relay', '192.88.99.1'],
    ['IPv6 loopback', '::1'],
    ['IPv6 unspecified', '::'],
    ['IPv6 unique local', 'fd00:ec2::254'],
    ['IPv6 link-local', 'fe80::1'],
    ['IPv6 link-local with a zone', 'fe80::1%eth0'],
    ['public with a zone', '2606:4700::1111%eth0'],
    ['IPv6 site-local', 'fec0::1'],
    ['IPv6 multicast', 'ff02::1'],
    ['IPv4-mapped', '::ffff:127.0.0.1'],
    ['IPv4-mapped in hex', '::ffff:7f00:1'],
    ['IPv4-mapped public', '::ffff:8.8.8.8'],
    ['IPv4-compatible', '::7f00:1'],
    ['IPv4-translated', '::ffff:0:7f00:1'],
    ['6to4 of loopback', '2002:7f00:1::'],
    ['Teredo', '2001:0:7f00:1::'],
    ['NAT64 of 10.0.0.1', '64:ff9b::a00:1'],
    ['NAT64, local prefix', '64:ff9b:1::a00:1'],
    ['IPv6 documentation', '2001:db8::1'],
    ['outside of what was given out', '4000::1'],
    ['denied by the operator', '9.9.9.9'],
    ['denied by the operator, IPv6', '2620:fe::9'],
    ['not an address', 'localhost'],
    ['empty', ''],
  ])('%s: %s', (_, address) => {
    expect(() => checkAddress(address, 80, policy)).toThrow(
      /^the host is (not on the public internet|in a network that)/,
    )
  })

  test('public ones are not', () => {
    for (const address of ['8.8.8.8', '1.1.1.1', '93.184.215.14', '172.32.0.1', '2606:4700::1111']) {
      expect(() => checkAddress(address, 80, policy)).not.toThrow()
    }
  })

  test('an address of this machine, were it public', () => {
    const own = Object.values(networkInterfaces()).flatMap(list => list?.map(({ address }) => address) ?? [])
    for (const address of own) expect(() => checkAddress(address, 80, policy)).toThrow('not on the public internet')
  })

  test('exempt is the exact pair of address and port, and nothing beside it', () => {
    const exempt = { ...policy, exempt: ['127.0.0.1:8123', '[::1]:8123'] }
    expect(() => checkAddress('127.0.0.1', 8123, exempt)).not.toThrow()
    expect(() => checkAddress('::1', 8123, exempt)).not.toThrow()
    expect(() => checkAddress('127.0.0.1', 8124, exempt)).toThrow('not on the public internet')
    expect(() => checkAddress('127.0.0.2', 8123, exempt)).toThrow('not on the public internet')
  })
})

describe('however an IP address is written, it is checked as what it is', () => {
  test.each([
    ['decimal', 'http://2130706433/', '127.0.0.1'],
    ['hex', 'http://0x7f000001/', '127.0.0.1'],
    ['hex parts', 'http://0x7f.0.0x0.1/', '127.0.0.1'],
    ['octal', 'http://0177.0.0.01/', '127.0.0.1'],
    ['short', 'http://127.1/', '127.0.0.1'],
    ['zero', 'http://0/', '0.0.0.0'],
    ['a trailing dot', 'http://127.0.0.1./', '127.0.0.1'],
    ['percent-encoded', 'http://127%2e0%2e0%2e1/', '127.0.0.1'],
    ['full-width digits', 'http://１２７.０.０.１/', '127.0.0.1'],
    ['an ideographic full stop', 'http://127。0。0。1/', '127.0.0.1'],
    ['circled digits', 'http://①②⑦.⓪.⓪.①/', '127.0.0.1'],
    ['IPv4-mapped', 'http://[::ffff:127.0.0.1]/', '::ffff:7f00:1'],
    ['a backslash for a slash', 'http:\\\\127.0.0.1\\', '127.0.0.1'],
    ['tabs and newlines inside', 'ht\ntp://127.\t0.0.1/', '127.0.0.1'],
    ['a public name before a #', 'http://127.0.0.1#@example.com/', '127.0.0.1'],
  ])('%s: %j', (_, text, host) => {
    const url = targetUrl(text, policy)
    expect(hostOf(url)).toBe(host)
    expect(() => checkAddress(hostOf(url), 80, policy)).toThrow('not on the public internet')
  })
})

describe('an address that is no page of the web is refused before anything is looked up', () => {
  test.each([
    ['file', 'file:///etc/passwd', 'only http and https'],
    ['data', 'data:text/html,x', 'only http and https'],
    ['ftp', 'ftp://example.com/', 'only http and https'],
    ['gopher', 'gopher://example.com/', 'only http and https'],
    ['javascript', 'javascript:alert(1)', 'only http and https'],
    ['a user name', 'http://example.com@127.0.0.1/', 'user name or password'],
    ['a user name and password', 'https://u:p@example.com/', 'user name or password'],
    ['a user name made of a URL', 'http://http:%2F%2Fa@example.com/', 'user name or password'],
    ['the port of SSH', 'http://example.com:22/', 'port 22 is not allowed, only 80, 443'],
    ['port 0', 'http://example.com:0/', 'port 0 is not allowed'],
    ['relative', '/etc/passwd', 'no address of a page'],
    ['empty', '', 'no address of a page'],
    ['words', 'example', 'no address of a page'],
    ['a broken IPv6 address', 'http://[::1/', 'no address of a page'],
    ['a number that is none', 'http://256.256.256.256/', 'no address of a page'],
    ['a NUL in the host', 'http://exa\0mple.com/', 'no address of a page'],
    ['an endless one', `http://example.com/${'a'.repeat(9_000)}`, 'longer than 8192 characters'],
  ])('%s', (_, text, words) => {
    expect(() => targetUrl(text, policy)).toThrow(words)
  })
})
