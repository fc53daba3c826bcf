import type { ExactNumber } from '../exact-json.js'

/** What the rooms that bring tools and the broker that calls them have in common. */

export type Json = null | boolean | number | ExactNumber | string | readonly Json[] | { readonly [key: string]: Json }

/** A JSON schema of an object, as an MCP server's inputSchema. */
export type ParameterSchema = { readonly [key: string]: unknown }

/** free: called at once. ask: only after a person has approved the script that calls it. deny: never, and not listed. */
export type Consent = 'free' | 'ask' | 'deny'

export interface ToolCallContext {
  /** Aborts when the run that called has ended: nobody waits for the result any more. One and the same for all calls of a run. */
  readonly signal: AbortSignal
}

interface ToolResult {
  /** Reaches the code exactly as it is. */
  readonly value: Json
  /** What the tool charges for this call. */
  readonly dollars?: number
}

/**
 * The tool says no, or can't be reached. The message is for the model. `isLost`: it did its work, and its result can not be had; called
 * again it would do it twice, for the same.
 */
export class ToolFailure extends Error {
  override readonly name = 'ToolFailure'
  readonly isLost: boolean

  constructor(message: string, isLost = false) {
    super(message)
    this.isLost = isLost
  }
}

/** One tool that sandboxed code may call. */
export interface ToolEntry {
  /** Exactly as the source spells them; names.ts makes the names that Python code can write. */
  readonly category: string
  readonly name: string
  /** The first line is its summary. */
  readonly description: string
  readonly parameters: ParameterSchema
  /** Of its result, where the source says so. */
  readonly returns?: ParameterSchema
  readonly consent: Consent
  /**
   * Runs one call in the worker, with arguments by their exact names. Absent: the tool runs inside the sandbox, and the worker
   * only counts it, asks for consent and writes it down. Errors: ToolFailure; any other is a fault of ours.
   */
  call?(args: { readonly [name: string]: Json }, context: ToolCallContext): Promise<ToolResult>
}

/** As rules, the ledger and people name a tool. */
export function nameOf(entry: ToolEntry): string {
  return `${entry.category}.${entry.name}`
}

/** Where the tools of one category come from. */
export interface ToolSource {
  readonly category: string
  /** One line. */
  readonly description: string
  /** Its tools as they are known now; a source that has to be started first is started by this. Never rejects: see `problem`. */
  tools(signal: AbortSignal): Promise<readonly ToolEntry[]>
  /** Why it has no tools, or not all, as a phrase for operators and the model; null where nothing is wrong. */
  readonly problem: string | null
  /** Whether its tools are there at once, without anything being started; left out: always. */
  readonly isReady?: boolean
  close(): Promise<void>
}
