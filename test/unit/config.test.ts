import { describe, expect, test } from 'vitest'
import { ConfigError, type Environment } from '../../src/config/report.js'
import { type Config, loadConfig } from '../../src/config.js'

const MIB = 1024 ** 2
const host = { cpus: 2, memoryBytes: 8 * 1024 * MIB }
const KEY = 'fx-8qT4-canary9'
const withKey = { FLEXUS_API_BASEURL: 'https://backend.example', FLEXUS_API_KEY: KEY }

const local = (env: Environment = {}): Config => loadConfig(env, host, { backend: false })
const remote = (env: Environment = {}): Config => loadConfig(env, host, { backend: true })

/** The report that the environment is refused with. */
function report(load: () => Config): string {
  try {
    load()
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  throw new Error('the configuration was accepted')
}

const refusal = (env: Environment): string => report(() => local(env))

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
      toolCallsMax: 50,
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

describe('credentials', () => {
  test('are a key at the usual endpoint', () => {
    expect(remote(withKey).backend).toEqual({
      baseUrl: 'https://backend.example/',
      endpoint: '/v1/graphql',
      credentials: { mode: 'key', apiKey: KEY },
    })
  })

  test('are a ticket, at an endpoint of choice', () => {
    const env = {
      FLEXUS_API_BASEURL: 'http://127.0.0.1:8008//',
      FLEXUS_WS_TICKET: 'abc',
      FLEXUS_ENDPOINT: '/v1/jailed-bot',
    }
    expect(remote(env).backend).toEqual({
      baseUrl: 'http://127.0.0.1:8008/',
      endpoint: '/v1/jailed-bot',
      credentials: { mode: 'ticket', ticket: 'abc' },
    })
  })

  test('are a superuser with Vault at an endpoint of its own', () => {
    const env = {
      FLEXUS_API_BASEURL: 'http://b/',
      VAULT_ENDPOINT: 'http://vault:8200/',
      FLEXUS_ENDPOINT: '/v1/superuser',
    }
    expect(remote(env).backend).toMatchObject({
      endpoint: '/v1/superuser',
      credentials: { mode: 'superuser', vaultEndpoint: 'http://vault:8200' },
    })
  })

  test("are a developer's superuser where only a superuser's endpoint is named, and that is warned of", () => {
    const config = remote({ FLEXUS_API_BASEURL: 'http://b/', FLEXUS_ENDPOINT: '/v1/superuser' })
    expect(config.backend?.credentials).toEqual({ mode: 'superuser', vaultEndpoint: null })
    expect(config.warnings).toEqual([expect.stringContaining('set VAULT_ENDPOINT')])
  })

  test.each<[string, Environment, string, string]>([
    ['none', {}, 'FLEXUS_API_KEY', 'one of FLEXUS_API_KEY (starts with fx-), FLEXUS_WS_TICKET, or VAULT_ENDPOINT'],
    [
      'none, at the endpoint for keys',
      { FLEXUS_ENDPOINT: '/v1/jailed-bot' },
      'FLEXUS_API_KEY',
      'one of FLEXUS_API_KEY',
    ],
    [
      'Vault without an endpoint',
      { VAULT_ENDPOINT: 'http://v' },
      'FLEXUS_ENDPOINT',
      "give the superuser's endpoint path",
    ],
    [
      'Vault at the endpoint for keys',
      { VAULT_ENDPOINT: 'http://v', FLEXUS_ENDPOINT: '/v1/graphql' },
      'FLEXUS_ENDPOINT',
      "give the superuser's endpoint path",
    ],
    ['a key without fx-', { FLEXUS_API_KEY: 'abc' }, 'FLEXUS_API_KEY', 'starts with fx-'],
    [
      'an endpoint that is a URL',
      { FLEXUS_API_KEY: KEY, FLEXUS_ENDPOINT: 'https://b/v1' },
      'FLEXUS_ENDPOINT',
      'starts with a slash',
    ],
    [
      'no endpoint that can be read',
      { VAULT_ENDPOINT: 'http://v', FLEXUS_ENDPOINT: 'x' },
      'FLEXUS_ENDPOINT',
      'starts with a slash',
    ],
    [
      'Vault that is no URL',
      { VAULT_ENDPOINT: 'vault:8200', FLEXUS_ENDPOINT: '/su' },
      'VAULT_ENDPOINT',
      'http or https URL',
    ],
  ])('are refused, once: %s', (_, env, variable, right) => {
    const text = report(() => remote({ FLEXUS_API_BASEURL: 'http://b/', ...env }))
    expect(text).toContain('(1 error)')
    expect(text).toMatch(new RegExp(`^ {2}${variable}: `, 'm'))
    expect(text).toContain(right)
  })

  test('are refused when two are set, each named', () => {
    const text = report(() => remote({ ...withKey, FLEXUS_WS_TICKET: 't', VAULT_ENDPOINT: 'http://v' }))
    expect(text.match(/set only one of FLEXUS_API_KEY, FLEXUS_WS_TICKET, VAULT_ENDPOINT/g)).toHaveLength(3)
  })

  test.each([
    'backend.example',
    'ftp://b/',
    'wss://b/',
    'https:b',
    'https://b/v1/graphql',
    'https://b/?x=1',
    'https://b/#',
  ])('are refused with the base URL %s', url => {
    expect(report(() => remote({ FLEXUS_API_BASEURL: url, FLEXUS_API_KEY: KEY }))).toContain(
      "the backend's base URL, http or https",
    )
  })

  test('are ignored, right or wrong, where no backend is needed', () => {
    const env = {
      FLEXUS_API_KEY: 'nonsense',
      FLEXUS_WS_TICKET: 't',
      FLEXUS_API_BASEURL: '?',
      FLEXUS_ENDPOINT: '?',
      VAULT_ENDPOINT: '?',
    }
    expect(local(env)).toEqual(local())
  })

  test('of a user contradict a shared tool, which the report explains', () => {
    expect(refusal({ FUSER_ID: 'u1' })).toContain('FUSER_ID: got "u1"; unset it or set SHARED=false: a shared tool')
  })
})

describe('related limits', () => {
  test.each<[string, Environment, object]>([
    ['a small workspace', { SANDBOX_WORKSPACE_MB: '32' }, { workspaceBytes: 32 * MIB, fileBytes: 32 * MIB }],
    ['a large file', { SANDBOX_FILE_MB: '300' }, { workspaceBytes: 300 * MIB, fileBytes: 300 * MIB }],
    [
      'little memory',
      { SANDBOX_MEMORY_MB: '64' },
      { memoryBytes: 64 * MIB, workspaceBytes: 64 * MIB, fileBytes: 64 * MIB },
    ],
    ['a short longest wall time', { SANDBOX_WALL_MAX_MS: '5000' }, { wallMs: 5_000, wallMaxMs: 5_000 }],
    ['a long wall time', { SANDBOX_WALL_MS: '540000' }, { wallMs: 540_000, wallMaxMs: 540_000 }],
    ['a short wall time', { SANDBOX_WALL_MS: '2000' }, { wallMs: 2_000, wallMaxMs: 540_000 }],
    ['a short deadline', { CALL_DEADLINE_MS: '30000' }, { wallMs: 27_000, wallMaxMs: 27_000 }],
    [
      'a wall time near a short deadline',
      { CALL_DEADLINE_MS: '30000', SANDBOX_WALL_MS: '29000' },
      { wallMs: 29_000, wallMaxMs: 29_000 },
    ],
    [
      'the limits of a test run',
      { SANDBOX_WALL_MS: '2000', SANDBOX_MEMORY_MB: '256', SANDBOX_PROCESSES: '32', LANG: 'C' },
      { processes: 32 },
    ],
  ])('fit to the one that is set, without a warning: %s', (_, env, sandbox) => {
    const config = local(env)
    expect(config.sandbox).toMatchObject(sandbox)
    expect(config.warnings).toEqual([])
  })

  test.each<[Environment, string]>([
    [
      { SANDBOX_WALL_MS: '3000', SANDBOX_WALL_MAX_MS: '2000' },
      'SANDBOX_WALL_MS: got "3000"; give at most SANDBOX_WALL_MAX_MS, which is 2000',
    ],
    [
      { SANDBOX_WALL_MAX_MS: '30000', CALL_DEADLINE_MS: '30000' },
      'SANDBOX_WALL_MAX_MS: got "30000"; give less than CALL_DEADLINE_MS',
    ],
    [
      { SANDBOX_WALL_MS: '30000', CALL_DEADLINE_MS: '20000' },
      'SANDBOX_WALL_MS: got "30000"; give less than CALL_DEADLINE_MS',
    ],
    [
      { SANDBOX_FILE_MB: '64', SANDBOX_WORKSPACE_MB: '32' },
      'SANDBOX_FILE_MB: got "64"; give at most SANDBOX_WORKSPACE_MB, which is 32',
    ],
    [{ SANDBOX_TIER: 'landlock', SANDBOX_MIN_TIER: 'namespaces' }, 'SANDBOX_TIER: got "landlock"; '],
  ])('that contradict each other are refused: %j', (env, line) => {
    const text = refusal(env)
    expect(text).toContain('(1 error)')
    expect(text).toContain(line)
  })

  test('warn of a workspace that memory cannot hold', () => {
    const { warnings } = local({ SANDBOX_WORKSPACE_MB: '1024' })
    expect(warnings).toEqual([
      expect.stringContaining('the workspace (1024 MiB) is larger than the memory limit (SANDBOX_MEMORY_MB=512)'),
    ])
  })
})

describe('calls at once', () => {
  const slots = (cpus: number, memoryMib: number, env: Environment = {}) =>
    loadConfig(env, { cpus, memoryBytes: memoryMib * MIB }, { backend: false })

  test.each<[string, number, number, Environment, number]>([
    ['bounded by CPUs', 2, 64_000, {}, 8],
    ['bounded by half a CPU', 0.5, 64_000, {}, 2],
    ['bounded by memory', 16, 2_600, {}, 4],
    ['bounded by memory at another limit', 16, 2_600, { SANDBOX_MEMORY_MB: '256' }, 8],
    ['fewer when configured', 2, 64_000, { MAX_CONCURRENT_CALLS: '3' }, 3],
  ])('are %s', (_, cpus, memoryMib, env, expected) => {
    const config = slots(cpus, memoryMib, env)
    expect(config.sandbox.slots).toBe(expected)
    expect(config.warnings).toEqual([])
  })

  test('may be more than fit, with one warning that shows the arithmetic', () => {
    const config = slots(2, 2_600, { MAX_CONCURRENT_CALLS: '32' })
    expect(config.sandbox.slots).toBe(32)
    expect(config.warnings).toEqual([
      expect.stringContaining(
        'MAX_CONCURRENT_CALLS=32 is more than this machine surely holds: min(4 × 2 CPUs = 8, (2600 MiB − 512 MiB) ÷ 512 MiB = 4) = 4',
      ),
    ])
  })

  test.each([
    [2, 300],
    [0.1, 64_000],
  ])('are one at least, with a warning, on %d CPUs and %d MiB', (cpus, memoryMib) => {
    const config = slots(cpus, memoryMib)
    expect(config.sandbox.slots).toBe(1)
    expect(config.warnings).toEqual([expect.stringContaining('one call at once')])
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
    expect(local({ STATE_DIR: 'state' }).stateDir).toBe(`${process.cwd()}/state`)
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
