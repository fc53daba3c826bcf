import type { TierName } from './outcome.js'

/** How the worker proves who it is; exactly one. The sources are PROTOCOL.md, "Addresses and credentials". */
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

export interface SandboxConfig {
  /** The command or path as configured; the probe finds the interpreter behind it. */
  readonly python: string
  readonly preload: readonly string[]
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
  readonly toolCallsMax: number
  readonly argumentsMaxBytes: number
  readonly resultMaxBytes: number
  readonly drainMs: number
  readonly confirmBefore: 'never' | 'always'
  readonly exitOnForbidden: boolean
  readonly prices: Prices
  /** Sentences to log once at start as warnings, such as an overcommit of memory with its arithmetic. */
  readonly warnings: readonly string[]
}
