/** One configured MCP server, with all references to the environment resolved. */
export interface McpServerConfig {
  /** The category of its tools. */
  readonly name: string
  readonly description: string
  readonly connection: StdioConnection | HttpConnection
  /** For one call, from when it is sent. */
  readonly timeoutMs: number
  /** For `initialize`, and again for the list of tools. */
  readonly startTimeoutMs: number
  readonly maxConcurrent: number
  readonly consent: ConsentGlobs
}

export interface StdioConnection {
  readonly kind: 'stdio'
  readonly command: string
  readonly args: readonly string[]
  /** On top of PATH, HOME, LANG and TMPDIR of the worker. */
  readonly env: Readonly<Record<string, string>>
  /** null: the folder that the worker was started in. */
  readonly cwd: string | null
}

export interface HttpConnection {
  readonly kind: 'http'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** Globs over the exact names of a server's tools; `allow` null: all. See consentOf for what goes before what. */
export interface ConsentGlobs {
  readonly allow: readonly string[] | null
  readonly deny: readonly string[]
  readonly ask: readonly string[]
  readonly free: readonly string[]
}
