import { describe, expect, test } from 'vitest'
import type { Environment } from '../../../src/config/report.js'
import { KEY, local, MIB, refusal, remote, report } from './fixtures.js'

const withKey = { FLEXUS_API_BASEURL: 'https://backend.example', FLEXUS_API_KEY: KEY }

describe('an empty environment', () => {
  test('gives the documented limits', () => {
    expect(local()).toMatchObject({
      serviceName: 'python_execute',
      backend: null,
      fgroupId: null,
      fuserId: null,
      shared: true,
      logLevel: 'info',
      queueMaxCalls: 1_000,
      callDeadlineMs: 585_000,
      streamMaxBytes: 256 * 1024,
      tools: {
        callsMax: 50,
        allow: null,
        ask: [],
        deny: [],
        progress: false,
        web: 'off',
        config: null,
      },
      argumentsMaxBytes: MIB,
      resultMaxBytes: 8 * MIB,
      drainMs: 25_000,
      confirmBefore: 'never',
      exitOnForbidden: false,
      prices: { cpuSecondDollars: 0, gibSecondDollars: 0, callDollars: 0 },
      warnings: [],
    })
    expect(local().sandbox).toEqual({
      python: 'python3',
      preload: ['numpy', 'pandas', 'matplotlib.pyplot'],
      policy: 'full',
      tier: 'auto',
      minTier: 'landlock',
      wallMs: 60_000,
      wallMaxMs: 540_000,
      cpuMs: null,
      memoryBytes: 512 * MIB,
      processes: 64,
      workspaceBytes: 256 * MIB,
      workspaceFiles: 16_384,
      fileBytes: 128 * MIB,
      openFiles: 256,
      stdoutKeptBytes: 50_000,
      stderrKeptBytes: 10_000,
      slots: 8,
    })
  })

  test('is frozen at every depth', () => {
    const config = remote(withKey)
    const parts = [
      config,
      config.sandbox,
      config.sandbox.preload,
      config.prices,
      config.backend,
      config.backend?.credentials,
    ]
    expect(parts.every(part => Object.isFrozen(part))).toBe(true)
  })

  test('is the same as one of empty and blank values', () => {
    expect(local({ SANDBOX_WALL_MS: '', SHARED: ' ', SANDBOX_PRELOAD: '', FLEXUS_API_KEY: '' })).toEqual(local())
  })
})

describe('a value', () => {
  test.each<[Environment, object]>([
    [{ SHARED: 'No' }, { shared: false }],
    [{ SHARED: '1' }, { shared: true }],
    [{ EXIT_ON_FORBIDDEN: 'yes' }, { exitOnForbidden: true }],
    [{ LOG_LEVEL: 'DEBUG' }, { logLevel: 'debug' }],
    [{ SANDBOX_PRELOAD: ' numpy, a.b_c ,numpy,' }, { sandbox: { preload: ['numpy', 'a.b_c'] } }],
    [{ SANDBOX_PRELOAD: 'none' }, { sandbox: { preload: [] } }],
    [{ PRICE_CPU_SECOND: '5e-5', PRICE_CALL: '.01' }, { prices: { cpuSecondDollars: 0.00005, callDollars: 0.01 } }],
    [{ SANDBOX_CPU_MS: '30000\n' }, { sandbox: { cpuMs: 30_000 } }],
    [
      { SHARED: 'false', FUSER_ID: 'u1', FGROUP_ID: 'g1' },
      { shared: false, fuserId: 'u1', fgroupId: 'g1' },
    ],
    [{ SANDBOX_TIER: 'landlock' }, { sandbox: { tier: 'landlock', minTier: 'landlock' } }],
  ])('is understood: %j', (env, expected) => {
    expect(local(env)).toMatchObject(expected)
  })

  test.each<[string, string, string]>([
    ['SANDBOX_WALL_MS', '60', 'whole number of milliseconds from 100 to 540000'],
    ['SANDBOX_WALL_MS', '60s', 'whole number of milliseconds'],
    ['SANDBOX_WALL_MAX_MS', '540001', 'from 100 to 540000'],
    ['SANDBOX_MEMORY_MB', '1.5', 'whole number of MiB'],
    ['SANDBOX_PROCESSES', '-1', 'whole number of processes and threads from 1'],
    ['SANDBOX_OPEN_FILES', '0x40', 'whole number of files'],
    ['QUEUE_MAX_CALLS', '1e3', 'whole number of calls'],
    ['STDOUT_KEPT_BYTES', '8388609', 'whole number of bytes from 64 to 8388608'],
    ['STDERR_KEPT_BYTES', '8388609', 'whole number of bytes from 64 to 8388608'],
    ['SHARED', 'maybe', 'true or false'],
    ['LOG_LEVEL', 'verbose', 'one of trace, debug, info'],
    ['SANDBOX_TIER', 'docker', 'one of auto, namespaces, landlock'],
    ['SANDBOX_MIN_TIER', 'auto', 'one of landlock, namespaces'],
    ['CONFIRM_BEFORE', 'yes', 'one of never, always'],
    ['SANDBOX_PRELOAD', 'numpy;os', 'Python module names'],
    ['SANDBOX_PRELOAD', '../evil', 'Python module names'],
    ['PRICE_CALL', '-1', 'price in dollars'],
    ['PRICE_CALL', '0x10', 'price in dollars'],
    ['SERVICE_NAME', 'a/b', 'letters, digits'],
    ['FGROUP_ID', 'a b', 'without spaces'],
  ])('is refused with what would be right: %s=%s', (variable, value, right) => {
    const text = refusal({ [variable]: value })
    expect(text).toContain('(1 error)')
    expect(text).toContain(`  ${variable}: got ${JSON.stringify(value)}; give `)
    expect(text).toContain(right)
  })
})

describe('the report', () => {
  test('names a variable once, also where others need it', () => {
    const text = refusal({ FILES: 's3', FILES_S3_BUCKET: 'b' })
    expect(text).toContain('(1 error)')
    expect(text).toContain('FILES_S3_BUCKET: got "b"; give the name of a bucket: 3 to 63')
  })

  test('has all faults at once, of values and of relations', () => {
    const text = report(() =>
      remote({
        SANDBOX_MEMORY_MB: 'x',
        SHARED: 'maybe',
        SANDBOX_FILE_MB: '64',
        SANDBOX_WORKSPACE_MB: '32',
        FUSER_ID: 'u',
      }),
    )
    const variables = text.split('\n').flatMap(line => /^ {2}([A-Z_]+):/.exec(line)?.[1] ?? [])
    expect(variables.sort()).toEqual([
      'FLEXUS_API_BASEURL',
      'FLEXUS_API_KEY',
      'SANDBOX_FILE_MB',
      'SANDBOX_MEMORY_MB',
      'SHARED',
    ])
    expect(text.split('\n')[0]).toBe('The configuration cannot be used (5 errors):')
  })

  test('refuses globs that can fit no tool: words without a dot, brackets that are not closed', () => {
    for (const globs of ['shell', 'web.*,files', 'files.[', 'a.b c', '{web,files}.*']) {
      expect(refusal({ TOOLS_DENY: globs })).toContain(`TOOLS_DENY: got "${globs}"; give globs over category.tool`)
    }
    expect(local({ TOOLS_DENY: 'shell.*,*_file,a.[bc]', TOOLS_ALLOW: '*', TOOLS_ASK: '!(web.*)' }).tools.allow).toEqual(
      ['*'],
    )
  })

  test('comes as an error whose exit code is that of a configuration fault', () => {
    expect(() => local({ SHARED: 'x' })).toThrow(expect.objectContaining({ name: 'ConfigError', exitCode: 78 }))
  })

  test('cuts a long value and keeps it on one line', () => {
    const text = refusal({ LOG_LEVEL: `a\nb${'c'.repeat(5_000)}` })
    expect(text.length).toBeLessThan(400)
    expect(text.split('\n')).toHaveLength(2)
  })

  test('names a misspelt variable, which may be the reason', () => {
    const text = report(() => remote({ FLEXUS_API_KEY: KEY, FLEXUS_API_BASE_URL: 'https://x.example' }))
    expect(text).toMatch(
      /FLEXUS_API_BASEURL: not set;[\s\S]*Note: FLEXUS_API_BASE_URL .*did you mean FLEXUS_API_BASEURL\?/,
    )
  })

  test.each<[string, Environment]>([
    ['a key that does not fit', { FLEXUS_API_KEY: 'canary9-key' }],
    ['a key that is a URL', { FLEXUS_API_KEY: 'fx-https://canary9.example' }],
    ['two ways to log in', { FLEXUS_API_KEY: 'fx-canary9', FLEXUS_WS_TICKET: 'ticket-canary9' }],
    ['a ticket with a line break', { FLEXUS_WS_TICKET: 'canary9\ncanary9' }],
    ['a key in the wrong variable', { FLEXUS_ENDPOINT: 'fx-canary9-canary9' }],
    ['the ticket in the wrong variable too', { FLEXUS_WS_TICKET: 'ticket-canary9', LOG_LEVEL: 'ticket-canary9' }],
    [
      'a secret that would be cut',
      { FLEXUS_WS_TICKET: 'canary9canary9', LOG_LEVEL: `${'x'.repeat(75)}canary9canary9` },
    ],
    ['a password in a URL', { FLEXUS_API_BASEURL: 'https://u:canary9@backend.example/' }],
    ['a secret in a misspelt variable', { FLEXUS_API_KEYS: 'canary9' }],
  ])('never shows a secret: %s', (_, env) => {
    expect(report(() => remote(env))).not.toContain('canary')
  })
})

describe('a value in quotes', () => {
  const words = 'that starts with a quote, which docker’s --env-file keeps: leave the quotes out; '

  test('is told by its quote, a secret as well', () => {
    const text = report(() => remote({ FLEXUS_API_KEY: '"fx-a"', FLEXUS_API_BASEURL: "'http://b/'" }))
    expect(text).toContain(`FLEXUS_API_KEY: got a value of 6 characters (not shown) ${words}`)
    expect(text).toContain(`FLEXUS_API_BASEURL: got "'http://b/'", a value ${words}`)
  })

  test('has one character or several', () => {
    expect(report(() => remote({ FLEXUS_API_KEY: 'x', FLEXUS_API_BASEURL: 'http://b/' }))).toContain(
      'got a value of 1 character (not shown); give a key',
    )
  })
})

describe('the state folder', () => {
  test.each<[Environment, string]>([
    [{ STATE_DIR: '/state', HOME: '/home/u' }, '/state'],
    [{ XDG_STATE_HOME: '/xdg', HOME: '/home/u' }, '/xdg/python-execute'],
    [{ XDG_STATE_HOME: 'relative', HOME: '/home/u' }, '/home/u/.local/state/python-execute'],
    [{ HOME: '/home/u' }, '/home/u/.local/state/python-execute'],
    [{ HOME: '/' }, '/var/lib/python-execute'],
    [{}, '/var/lib/python-execute'],
  ])('of %j is %s', (env, expected) => {
    expect(local(env).stateDir).toBe(expected)
  })

  test('is absolute whatever was given', () => {
    const { stateDir, warnings } = local({ STATE_DIR: 'state' })
    expect(stateDir).toBe(`${process.cwd()}/state`)
    expect(warnings).toEqual([expect.stringMatching(/^STATE_DIR=state is relative .*: it is \/.*\/state$/)])
    expect(local({ STATE_DIR: '/state' }).warnings).toEqual([])
  })
})

describe('an unknown variable', () => {
  test.each([
    ['SANDBOX_WALLMS', 'SANDBOX_WALL_MS'],
    ['SANDBOX_MEMORY', 'SANDBOX_MEMORY_MB'],
    ['DRIAN_MS', 'DRAIN_MS'],
    ['QUEUE_MAX_CALL', 'QUEUE_MAX_CALLS'],
    ['STDOUT_KEEP_BYTES', 'STDOUT_KEPT_BYTES'],
    ['MAX_CONCURENT_CALLS', 'MAX_CONCURRENT_CALLS'],
  ])('that looks like a slip is warned of: %s', (name, meant) => {
    expect(local({ [name]: '1' }).warnings).toEqual([
      expect.stringMatching(new RegExp(`^${name} .*did you mean ${meant}\\?$`)),
    ])
  })

  test('with our prefix is warned of even if nothing resembles it', () => {
    expect(local({ SANDBOX_COLOUR_OF_THE_WALLS: 'x' }).warnings).toEqual([expect.stringMatching(/has no effect$/)])
  })

  test.each([
    'PATH',
    'HOME',
    'HOSTNAME',
    'LANG',
    'DATABASE_URL',
    'AWS_SECRET_ACCESS_KEY',
    'FLEXUS_BACKEND_SERVICE_HOST',
    'FLEXUS_BACKEND_PORT_8008_TCP_ADDR',
    'SANDBOX_PORT',
  ])('that is somebody else’s is not: %s', name => {
    expect(local({ [name]: '/x' }).warnings).toEqual([])
  })
})
