import path from 'node:path'
import { z } from 'zod'
import { backendConfig } from './config/backend.js'
import {
  choice,
  dollars,
  flag,
  httpUrl,
  matching,
  mebibytes,
  moduleNames,
  port,
  toolGlobs,
  whole,
} from './config/fields.js'
import { type FilesConfig, filesConfig } from './config/files.js'
import { relatedLimits } from './config/limits.js'
import { misspeltVariables } from './config/misspelt.js'
import { configError, type Environment, type Fault } from './config/report.js'
import type { HostFacts } from './host.js'
import type { TierName } from './outcome.js'

/** How the worker proves who it is; exactly one. The sources are docs/protocol.md, "Addresses and credentials". */
export type CredentialConfig =
  | { readonly mode: 'key'; readonly apiKey: string }
  | { readonly mode: 'ticket'; readonly ticket: string }
  | { readonly mode: 'superuser'; readonly vaultEndpoint: string | null }

export interface BackendConfig {
  /** Base URL with a slash at its end. */
  readonly baseUrl: string
  /** Path of the GraphQL endpoint, for HTTP and websocket alike, for example /v1/graphql. */
  readonly endpoint: string
  readonly credentials: CredentialConfig
}

/** full: whatever the sandbox lets code do. restricted: compiled with RestrictedPython, without imports, as well. */
export type SandboxPolicy = 'full' | 'restricted'

export interface SandboxConfig {
  /** The command or path as configured; the probe finds the interpreter behind it. */
  readonly python: string
  readonly preload: readonly string[]
  readonly policy: SandboxPolicy
  readonly tier: TierName | 'auto'
  readonly minTier: TierName
  readonly wallMs: number
  readonly wallMaxMs: number
  /** CPU of the whole tree; null: wall × CPUs. */
  readonly cpuMs: number | null
  readonly memoryBytes: number
  /** Processes and threads together. */
  readonly processes: number
  readonly workspaceBytes: number
  readonly workspaceFiles: number
  readonly fileBytes: number
  readonly openFiles: number
  readonly stdoutKeptBytes: number
  readonly stderrKeptBytes: number
  /** Slots: sandboxes that may run code at once. */
  readonly slots: number
}

/** What tools sandboxed code may call. */
export interface ToolsConfig {
  /** Calls that one run may make; 0: none, and code is not told of tools. */
  readonly callsMax: number
  /** Globs over category.tool. null: all are allowed. */
  readonly allow: readonly string[] | null
  readonly ask: readonly string[]
  readonly deny: readonly string[]
  /** Whether tool calls show as lines of the output. */
  readonly progress: boolean
  readonly web: 'off' | 'ask' | 'allow'
  /** MCP servers: a file of JSON, or JSON itself. null: none. */
  readonly config: string | null
}

export interface Prices {
  readonly cpuSecondDollars: number
  readonly gibSecondDollars: number
  readonly callDollars: number
}

export interface Config {
  readonly serviceName: string
  /** null for exec, dev, demo and doctor, which need no backend of their own. */
  readonly backend: BackendConfig | null
  readonly fgroupId: string | null
  readonly fuserId: string | null
  readonly shared: boolean
  readonly stateDir: string
  readonly logLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'
  readonly sandbox: SandboxConfig
  readonly queueMaxCalls: number
  readonly callDeadlineMs: number
  readonly streamMaxBytes: number
  readonly tools: ToolsConfig
  readonly files: FilesConfig
  readonly argumentsMaxBytes: number
  readonly resultMaxBytes: number
  readonly drainMs: number
  readonly confirmBefore: 'never' | 'always'
  readonly exitOnForbidden: boolean
  /** Where /livez, /readyz, /metrics and the page are; port null: nowhere, 0: any that is free. */
  readonly health: { readonly host: string; readonly port: number | null }
  readonly prices: Prices
  /** Sentences to log once at start as warnings, such as an overcommit of memory with its arithmetic. */
  readonly warnings: readonly string[]
}

const MS = 'milliseconds'
const BYTES = 'bytes'
const IDENTIFIER = /^[\x21-\x7e]{1,200}$/

/**
 * Every variable that the worker reads. Defaults that hang on another variable or on the host are in config/limits.ts and
 * config/backend.ts; .env.example explains each. The lower bounds of durations catch seconds given as milliseconds.
 */
const schema = z.object({
  SERVICE_NAME: matching(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, 'give letters, digits, _ and - only, at most 64').default(
    'python_execute',
  ),
  FLEXUS_API_BASEURL: httpUrl(
    "give the backend's base URL, http or https, without the endpoint's path, query or password, such as https://backend.example/",
    url => !/\/v1(\/|$)/.test(url.pathname),
  ),
  FLEXUS_ENDPOINT: matching(/^(\/[A-Za-z0-9._~-]+)+$/, 'give a path that starts with a slash, such as /v1/graphql'),
  FLEXUS_API_KEY: matching(
    /^fx-(?!.*:\/\/)[\x21-\x7e]+$/,
    'give a key that starts with fx- (a URL belongs in FLEXUS_API_BASEURL)',
  ),
  FLEXUS_WS_TICKET: matching(/^[\x21-\x7e]+$/, 'give a ticket without spaces or line breaks'),
  VAULT_ENDPOINT: httpUrl("give Vault's http or https URL without query or password, such as http://vault:8200"),
  FGROUP_ID: matching(IDENTIFIER, 'give an id without spaces'),
  FUSER_ID: matching(IDENTIFIER, 'give an id without spaces'),
  SHARED: flag().default(true),
  STATE_DIR: matching(/^[^\0\n]+$/, 'give the path of a folder'),
  LOG_LEVEL: choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent').default('info'),
  MAX_CONCURRENT_CALLS: whole('calls', 1, 1_000),
  QUEUE_MAX_CALLS: whole('calls', 0, 100_000).default(1_000),
  CALL_DEADLINE_MS: whole(MS, 2_000, 600_000),
  ARGUMENTS_MAX_BYTES: whole(BYTES, 1_024, 10_485_760).default(1_048_576),
  RESULT_MAX_BYTES: whole(BYTES, 4_096, 10_485_760).default(8_388_608),
  STREAM_MAX_BYTES: whole(BYTES, 0, 67_108_864).default(262_144),
  TOOL_CALLS_MAX: whole('calls', 0, 10_000).default(50),
  TOOLS_ALLOW: toolGlobs('all'),
  TOOLS_ASK: toolGlobs().transform(globs => globs ?? []),
  TOOLS_DENY: toolGlobs().transform(globs => globs ?? []),
  TOOLS_PROGRESS: flag().default(false),
  TOOLS_WEB: choice('off', 'ask', 'allow').default('off'),
  // What these mean is known to toolbox/web, which reads them.
  TOOLS_WEB_SEARCH_URL: matching(/^[^\0\n]+$/, 'give the http or https URL of a search'),
  TOOLS_WEB_SEARCH_KEY: matching(/^[^\0\n]+$/, 'give a key, or a whole header such as X-Key: …'),
  TOOLS_WEB_PORTS: matching(/^[^\0\n]+$/, 'give ports with commas between them, such as 80,443'),
  TOOLS_WEB_DENY_NETWORKS: matching(/^[^\0\n]+$/, 'give networks with commas between them, such as 203.0.113.0/24'),
  TOOLS_CONFIG: matching(/^[^\0]+$/, 'give the path of a JSON file with mcpServers, or the JSON itself'),
  FILES: choice('directory', 's3', 'off').default('directory'),
  FILES_DIR: matching(/^[^\0\n]+$/, 'give the path of a folder'),
  FILES_MAX_MB: mebibytes(1, 1_048_576).transform(value => value ?? 64 * 1024 * 1024),
  FILES_TOTAL_MB: mebibytes(1, 1_073_741_824),
  FILES_EXPIRE_HOURS: whole('hours', 1, 87_600).default(72),
  FILES_S3_BUCKET: matching(
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/,
    'give the name of a bucket: 3 to 63 of a-z, 0-9, . and -',
  ),
  FILES_S3_ENDPOINT: httpUrl('give the http or https URL of a service that speaks S3, without query or password'),
  FILES_S3_REGION: matching(/^[a-z0-9-]{1,63}$/, 'give a region such as eu-central-1').default('us-east-1'),
  FILES_S3_PREFIX: matching(
    /^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*\/?$/,
    'give names with slashes between them, such as team/files',
  ),
  FILES_S3_PATH_STYLE: flag().default(false),
  DRAIN_MS: whole(MS, 0, 600_000).default(25_000),
  SANDBOX_PYTHON: matching(/^[^\0\n]+$/, 'give a command such as python3 or the path of an interpreter').default(
    'python3',
  ),
  SANDBOX_PRELOAD: moduleNames().default(['numpy', 'pandas', 'matplotlib.pyplot']),
  SANDBOX_POLICY: choice('full', 'restricted').default('full'),
  SANDBOX_TIER: choice('auto', 'namespaces', 'landlock').default('auto'),
  SANDBOX_MIN_TIER: choice('landlock', 'namespaces').default('landlock'),
  SANDBOX_WALL_MS: whole(MS, 100, 540_000),
  SANDBOX_WALL_MAX_MS: whole(MS, 100, 540_000),
  SANDBOX_CPU_MS: whole(MS, 100, 540_000_000),
  SANDBOX_MEMORY_MB: mebibytes(16, 1_048_576),
  SANDBOX_PROCESSES: whole('processes and threads', 1, 32_768).default(64),
  SANDBOX_WORKSPACE_MB: mebibytes(1, 1_048_576),
  SANDBOX_WORKSPACE_FILES: whole('files', 16, 10_000_000).default(16_384),
  SANDBOX_FILE_MB: mebibytes(1, 1_048_576),
  SANDBOX_OPEN_FILES: whole('files', 16, 1_048_576).default(256),
  STDOUT_KEPT_BYTES: whole(BYTES, 64, 8_388_608).default(50_000),
  STDERR_KEPT_BYTES: whole(BYTES, 64, 8_388_608).default(10_000),
  CONFIRM_BEFORE: choice('never', 'always').default('never'),
  EXIT_ON_FORBIDDEN: flag().default(false),
  HEALTH_HOST: matching(
    /^[0-9A-Za-z.:_-]{1,253}$/,
    'give an address to listen on, such as 127.0.0.1 or 0.0.0.0',
  ).default('127.0.0.1'),
  HEALTH_PORT: port().default(8470),
  PRICE_CPU_SECOND: dollars().default(0),
  PRICE_GIB_SECOND: dollars().default(0),
  PRICE_CALL: dollars().default(0),
})

export type Variables = z.output<typeof schema>

/** The names of all variables, in the order of .env.example. */
export const VARIABLES: readonly string[] = Object.keys(schema.shape)

export interface ConfigNeeds {
  readonly backend: boolean
  /** What is wrong inside of variables whose meaning others know, and what may explain it; it joins the one report. */
  toolFaults?(tools: ToolsConfig): { readonly faults: readonly Fault[]; readonly hints: readonly string[] }
}

/**
 * Environment to configuration, deeply frozen. Values are trimmed (a secret from a file often ends in a line break) and an
 * empty one counts as unset. Commands that bring their own backend or need none (`needs.backend` false) ignore how to reach
 * one, right or wrong. Throws ConfigError with one report of every fault.
 */
export function loadConfig(env: Environment, host: HostFacts, needs: ConfigNeeds): Config {
  const given = trimmed(env)
  const { values, faults: fieldFaults } = parseFields(needs.backend ? given : withoutBackend(given))
  const misspelt = misspeltVariables(given, VARIABLES)
  const related = relatedLimits(values, host)
  const reach = needs.backend ? backendConfig(values, given) : { backend: null, faults: [], warnings: [] }
  const kept = filesConfig(values)
  const tools = toolsConfig(values, env)
  const ofTools = needs.toolFaults?.(tools) ?? { faults: [], hints: [] }
  const faults = [
    ...fieldFaults,
    ...related.faults,
    ...kept.faults.filter(({ variable }) => !fieldFaults.some(fault => fault.variable === variable)),
    ...reach.faults,
    ...contradictions(values, fieldFaults),
    ...ofTools.faults.filter(({ variable }) => !fieldFaults.some(fault => fault.variable === variable)),
  ]
  if (faults.length > 0) throw configError(faults, [...misspelt, ...ofTools.hints], given)

  const { limits } = related
  const stateDir = path.resolve(values.STATE_DIR ?? defaultStateDir(given))
  const place =
    values.STATE_DIR === undefined || path.isAbsolute(values.STATE_DIR)
      ? []
      : [`STATE_DIR=${values.STATE_DIR} is relative to where the worker is started: it is ${stateDir}`]
  return deepFreeze({
    serviceName: values.SERVICE_NAME,
    backend: reach.backend,
    fgroupId: values.FGROUP_ID ?? null,
    fuserId: values.FUSER_ID ?? null,
    shared: values.SHARED,
    stateDir,
    logLevel: values.LOG_LEVEL,
    sandbox: {
      python: values.SANDBOX_PYTHON,
      preload: values.SANDBOX_PRELOAD,
      policy: values.SANDBOX_POLICY,
      tier: values.SANDBOX_TIER,
      minTier: values.SANDBOX_MIN_TIER,
      wallMs: limits.wallMs,
      wallMaxMs: limits.wallMaxMs,
      cpuMs: values.SANDBOX_CPU_MS ?? null,
      memoryBytes: limits.memoryBytes,
      processes: values.SANDBOX_PROCESSES,
      workspaceBytes: limits.workspaceBytes,
      workspaceFiles: values.SANDBOX_WORKSPACE_FILES,
      fileBytes: limits.fileBytes,
      openFiles: values.SANDBOX_OPEN_FILES,
      stdoutKeptBytes: values.STDOUT_KEPT_BYTES,
      stderrKeptBytes: values.STDERR_KEPT_BYTES,
      slots: limits.slots,
    },
    queueMaxCalls: values.QUEUE_MAX_CALLS,
    callDeadlineMs: limits.callDeadlineMs,
    streamMaxBytes: values.STREAM_MAX_BYTES,
    tools,
    files: kept.files,
    argumentsMaxBytes: values.ARGUMENTS_MAX_BYTES,
    resultMaxBytes: values.RESULT_MAX_BYTES,
    drainMs: values.DRAIN_MS,
    confirmBefore: values.CONFIRM_BEFORE,
    exitOnForbidden: values.EXIT_ON_FORBIDDEN,
    health: { host: values.HEALTH_HOST, port: values.HEALTH_PORT },
    prices: {
      cpuSecondDollars: values.PRICE_CPU_SECOND,
      gibSecondDollars: values.PRICE_GIB_SECOND,
      callDollars: values.PRICE_CALL,
    },
    warnings: [...place, ...related.warnings, ...reach.warnings, ...misspelt],
  })
}

function toolsConfig(values: Variables, env: Environment): ToolsConfig {
  return {
    callsMax: values.TOOL_CALLS_MAX,
    // An empty list allows nothing: here, unlike elsewhere, a variable that is set to nothing is set.
    allow: values.TOOLS_ALLOW === undefined && env['TOOLS_ALLOW']?.trim() === '' ? [] : (values.TOOLS_ALLOW ?? null),
    ask: values.TOOLS_ASK,
    deny: values.TOOLS_DENY,
    progress: values.TOOLS_PROGRESS,
    web: values.TOOLS_WEB,
    config: values.TOOLS_CONFIG ?? null,
  }
}

function trimmed(env: Environment): Environment {
  const entries = Object.entries(env).map(([name, value]) => [name, value?.trim()] as const)
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined && value !== ''))
}

const BACKEND_VARIABLES = [
  'FLEXUS_API_BASEURL',
  'FLEXUS_ENDPOINT',
  'FLEXUS_API_KEY',
  'FLEXUS_WS_TICKET',
  'VAULT_ENDPOINT',
]

function withoutBackend(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !BACKEND_VARIABLES.includes(name)))
}

/** Parses what can be parsed: the others count as unset, so that relations are still checked and all faults come at once. */
function parseFields(env: Environment): { readonly values: Variables; readonly faults: readonly Fault[] } {
  const first = schema.safeParse(env)
  if (first.success) return { values: first.data, faults: [] }
  const faults = first.error.issues.map(issue => ({ variable: String(issue.path[0]), right: issue.message }))
  const wrong = new Set(faults.map(fault => fault.variable))
  return { values: schema.parse(Object.fromEntries(Object.entries(env).filter(([name]) => !wrong.has(name)))), faults }
}

/** Pairs that were both given and exclude each other; one that did not parse has its own fault already. */
function contradictions(values: Variables, fieldFaults: readonly Fault[]): Fault[] {
  const faults: Fault[] = []
  const sharedParsed = !fieldFaults.some(fault => fault.variable === 'SHARED')
  if (sharedParsed && values.SHARED && values.FUSER_ID !== undefined) {
    faults.push({
      variable: 'FUSER_ID',
      right: 'unset it or set SHARED=false: a shared tool is registered without a user',
    })
  }
  if (values.SANDBOX_TIER === 'landlock' && values.SANDBOX_MIN_TIER === 'namespaces') {
    faults.push({ variable: 'SANDBOX_TIER', right: 'it is less than SANDBOX_MIN_TIER=namespaces allows' })
  }
  return faults
}

/**
 * The XDG state folder. A service without a home (no HOME, or "/" as for a container's unknown user) gets the system's place
 * for state, never /tmp: what lies there must outlive a reboot.
 */
function defaultStateDir(env: Environment): string {
  const xdg = env['XDG_STATE_HOME']
  if (xdg !== undefined && path.isAbsolute(xdg)) return path.join(xdg, 'python-execute')
  const home = env['HOME']
  if (home !== undefined && path.isAbsolute(home) && home !== '/') return path.join(home, '.local/state/python-execute')
  return '/var/lib/python-execute'
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) if (typeof inner === 'object' && inner !== null) deepFreeze(inner)
  return Object.freeze(value)
}
