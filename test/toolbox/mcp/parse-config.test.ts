import { describe, expect, test } from 'vitest'
import { parseToolServers } from '../../../src/toolbox/mcp/parse-config.js'

const SECRET = 'hunter2-hunter2'
const environment = { TOKEN: SECRET, SHORT: 'abc', EMPTY: '', HOME: '/home/somebody', PATH: '/usr/bin:/bin' }
const ref = (inner: string) => `\${${inner}}`
const parse = (mcpServers: unknown, env: Record<string, string | undefined> = environment) =>
  parseToolServers(JSON.stringify({ mcpServers }), env)
const faultsOf = (server: unknown) => parse({ s: server }).faults

describe('TOOLS_CONFIG', () => {
  test('is the common mcpServers JSON, with defaults for what is left out', () => {
    const { servers, faults, warnings, secrets } = parse({
      'my files': { command: 'npx', args: ['-y', 'pkg'], env: { A: 'b' }, cwd: '/tmp' },
      remote: { type: 'http', url: 'https://x.example/mcp', headers: { Authorization: `Bearer ${ref('TOKEN')}` } },
      off: { command: 'x', disabled: true, env: { A: ref('NOT_SET') } },
    })
    expect([faults, warnings]).toEqual([[], []])
    expect(secrets).toEqual([SECRET])
    expect(servers).toEqual([
      {
        name: 'my files',
        description: 'tools of the MCP server my files',
        connection: { kind: 'stdio', command: 'npx', args: ['-y', 'pkg'], env: { A: 'b' }, cwd: '/tmp' },
        timeoutMs: 600_000,
        startTimeoutMs: 10_000,
        maxConcurrent: 8,
        consent: { allow: null, deny: [], ask: [], free: [] },
      },
      expect.objectContaining({
        name: 'remote',
        connection: { kind: 'http', url: 'https://x.example/mcp', headers: { Authorization: `Bearer ${SECRET}` } },
      }),
    ])
  })

  test.each([
    ['', 'the JSON can not be read at'],
    ['{"mcpServers": {"a": {"command": "x", "env": {"K": sesame}}}}', 'the JSON can not be read'],
    ['[]', 'TOOLS_CONFIG: got []; give an object of servers'],
    ['[{"env": {"K": "sesame"}}]', 'TOOLS_CONFIG: got a list; give an object of servers'],
    ['"{\\"K\\": \\"sesame\\"}"', 'TOOLS_CONFIG: got a value of the type string; give an object of servers'],
    ['\'{"mcpServers": {}}\'', 'without quotes around it'],
    ['{"servers": {}}', 'mcpServers: got nothing; give an object of servers'],
    ['{"mcpServers": 7}', 'mcpServers: got 7; give an object of servers'],
  ])('that is none is refused: %s', (json, words) => {
    const { faults } = parseToolServers(json, {})
    expect(faults).toHaveLength(1)
    expect(`${faults[0]}`.replace(/read;/, 'read at;')).toContain(words)
    expect(faults[0]).not.toContain('sesame')
  })

  test('with several faults names them all, each with its path, what it got and what would be right', () => {
    const { faults } = parse({
      files: { command: 'x' },
      'bad/name': { command: 'x' },
      'a.b': { command: 'x' },
      a: { command: 7, args: ['x', 1], timeoutMs: 1.5, allow: 'x', env: { N: 5 } },
      b: {},
      c: { command: 'x', url: 'http://x' },
      d: { type: 'sse', url: 'http://x' },
      e: { url: 'ftp://user:pw@x' },
      f: 'npx',
    })
    expect(faults).toEqual([
      'mcpServers.files: got "files"; give another name: this one is a category that is built in',
      'mcpServers["bad/name"]: got "bad/name"; give a name of at most 64 letters, digits, spaces, "_" and "-"',
      'mcpServers["a.b"]: got "a.b"; give a name of at most 64 letters, digits, spaces, "_" and "-"',
      'mcpServers.a.timeoutMs: got 1.5; give a whole number of milliseconds from 100 to 3600000',
      'mcpServers.a.allow: got "x"; give a list of globs over names of tools, such as ["read_*"]',
      'mcpServers.a.command: got 7; give the program that is the server, such as "npx"',
      'mcpServers.a.args[1]: got 1; give a string',
      'mcpServers.a.env.N: got a value of the type number; give the value as a string, in quotes',
      'mcpServers.b.command: got nothing; give the program that is the server, such as "npx"',
      'mcpServers.c: got both "command" and "url"; give one of them',
      'mcpServers.d.type: got "sse"; give "stdio" or "http" (servers that have only the older SSE transport are not supported)',
      'mcpServers.e.url: got "ftp://user:pw@x"; give the http or https URL of the server, without user and password',
      'mcpServers.f: got "npx"; give an object with "command" or "url"',
    ])
  })

  test('with fields that are not known warns, and of references where none are replaced', () => {
    const { faults, warnings } = parse({ a: { command: 'x', args: [ref('TOKEN')], autoApprove: [], timeout: 5 } })
    expect(faults).toEqual([])
    expect(warnings).toEqual([
      'mcpServers.a.autoApprove is not known here and has no effect',
      'mcpServers.a.timeout is not known here and has no effect; did you mean timeoutMs?',
      `mcpServers.a.args: ${ref('…')} is replaced in values of env and headers only, not here`,
    ])
  })
})

describe('references to the environment', () => {
  test('are replaced, with defaults where the variable is not set or empty', () => {
    const env = { A: `<${ref('TOKEN')}>`, B: ref('NO:-d e'), C: ref('EMPTY:-'), D: `${ref('SHORT')}${ref('SHORT')}` }
    expect(parse({ s: { command: 'x', env } }).servers[0]?.connection).toMatchObject({
      env: { A: `<${SECRET}>`, B: 'd e', C: '', D: 'abcabc' },
    })
  })

  test('that can not be replaced are faults that name the variable and show no value', () => {
    expect(faultsOf({ command: 'x', env: { A: ref('NO'), B: `${SECRET}${ref('EMPTY')}`, C: ref('1-2') } })).toEqual([
      `mcpServers.s.env.A: got a value of 5 characters (not shown); the variable NO is not set: set it, or write ${ref('NO:-default')}`,
      `mcpServers.s.env.B: got a value of 23 characters (not shown); the variable EMPTY is not set: set it, or write ${ref('EMPTY:-default')}`,
      `mcpServers.s.env.C: got a value of 6 characters (not shown); a reference is written ${ref('NAME')} or ${ref('NAME:-default')}`,
    ])
  })
})

describe('secrets', () => {
  test('are values of 12 characters and more that come from the environment, but no paths that every server gets', () => {
    const long = { ...environment, LINES: `-----BEGIN KEY-----\nabcdefghijklmnop\n`, OTHER: 'twelve-chars' }
    const env = { A: ref('TOKEN'), B: 'a literal of some length', C: ref('SHORT'), H: ref('HOME'), P: ref('PATH') }
    expect(parse({ s: { command: 'x', env } }, long).secrets).toEqual([SECRET])
    const more = { A: `${ref('OTHER')} ${ref('NO:-default value')}`, K: ref('LINES') }
    expect(parse({ s: { command: 'x', env: more } }, long).secrets).toEqual([
      'twelve-chars',
      long.LINES,
      '-----BEGIN KEY-----',
      'abcdefghijklmnop',
    ])
  })

  test('that are declared but too short to be masked, literal, or not there are refused', () => {
    const env = { A: ref('SHORT'), B: 'literal', C: ref('TOKEN') }
    expect(faultsOf({ command: 'x', env, secretEnv: ['A', 'B', 'C', 'D'] })).toEqual([
      'mcpServers.s.env.A: got 3 characters from the variable SHORT; a secret has to have at least 12 characters, or it can not be masked',
      `mcpServers.s.env.B: got a value of 7 characters (not shown), which secretEnv declares a secret; secrets come from the environment: write ${ref('…')}`,
      'mcpServers.s.secretEnv[3]: got "D"; give a name that stands in env',
    ])
    const declared = { command: 'x', env: { H: ref('HOME') }, secretEnv: ['H'] }
    expect(parse({ s: declared }).secrets).toEqual(['/home/somebody'])
    const url = 'http://x'
    expect(faultsOf({ url, headers: { 'X-Key': ref('SHORT') }, secretEnv: ['x-key'] })).toHaveLength(1)
  })

  test('are also what stands literally under the name of one, where it is no generated text; other values are none', () => {
    const env = {
      DB_PASSWORD: 'correct horse battery',
      api_key: 'example-example',
      TOKEN: 'short',
      KEYCLOAK_REALM: 'my-production-realm-name',
      TOKEN_URL: 'https://auth.example.com/oauth2/token',
      SSL_KEY: '/etc/ssl/private/server-key.pem',
      NOTE: 'a value as any other',
    }
    expect(parse({ s: { command: 'x', env } }).secrets).toEqual(['correct horse battery', 'example-example'])
    const headers = { Authorization: 'Basic correcthorsebattery' }
    const { secrets } = parse({ s: { url: 'http://x', headers } })
    expect(secrets).toEqual(['Basic correcthorsebattery', 'correcthorsebattery'])
  })

  const KEY = 'sk-live-4eC39HqLyjWDarjtT1zdp7dc'
  test.each([
    [{ command: 'x', env: { API_KEY: KEY } }, 'env.API_KEY'],
    [{ command: 'x', env: { API_KEY: ref(`NO:-${KEY}`) } }, 'env.API_KEY'],
    [{ url: 'http://x', headers: { authorization: `Bearer ${KEY}` } }, 'headers.authorization'],
    [{ url: `http://x/?api_key=${KEY}` }, 'url'],
  ])('that stand in the configuration are refused, without being shown: %j', (server, at) => {
    const faults = faultsOf(server)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(`mcpServers.s.${at}: got a`)
    expect(faults[0]).toContain('secrets come from the environment')
    expect(faults[0]).not.toContain(KEY)
  })

  test('are not seen in ordinary values', () => {
    const env = {
      KEY_FILE: '/etc/ssl/private/Server-01-key.pem',
      TOKEN_URL: 'https://auth.example.com/oauth2/token',
      KEYCLOAK_REALM: 'my-production-realm-name',
      TOKEN: 'short1',
      OTHER: KEY,
    }
    expect(faultsOf({ command: 'x', env })).toEqual([])
  })

  test.each([
    [{ url: 'http://x', headers: { Host: 'y' } }, 'the client does not set itself'],
    [{ url: 'http://x', headers: { 'a b': 'y' } }, 'the name of a header'],
    [{ url: 'http://x', headers: { A: 'b\r\nC: d' } }, 'a value of one line'],
    [{ command: 'x', env: { 'A=B': 'y' } }, 'the name of an environment variable'],
    [{ command: 'x', env: { A: '\0' } }, 'without NUL'],
  ])('and names that can not be sent are refused: %j', (server, words) => {
    expect(faultsOf(server)[0]).toContain(words)
  })
})
