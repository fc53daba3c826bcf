import type { Logger } from 'pino'
import type { RecordedCall } from './replay.js'
import type { Request } from './requests.js'
import type { Json, ToolEntry } from './tool-entry.js'
import type { ToolLog } from './tool-log.js'

/** The tools that there are, as the code of one run sees them. */
export interface CatalogView {
  find(category: string, tool: string): ToolEntry | { readonly problem: string }
  /** Arguments by their exact names, or what is wrong with them. */
  bind(
    entry: ToolEntry,
    args: readonly Json[],
    kw: { readonly [name: string]: Json },
  ): { readonly args: { readonly [name: string]: Json } } | { readonly problem: string }
  overview(callsMax: number): Json
  ls(path: string): readonly string[]
  read(path: string): string
  tree(path: string): string
  search(words: string, limit: number): Json
}

export interface BrokerOptions {
  /** The tools as a request has to see them. */
  catalog(signal: AbortSignal, request: Request): Promise<CatalogView>
  readonly callsMax: number
  /** Whether a person has approved that this code calls the tool, named category.tool. */
  approved(name: string): boolean
  /** The calls that were made before the person was asked; answered from the record. */
  readonly recorded: readonly RecordedCall[]
  readonly toolLog: ToolLog
  /** Whether a person may still be asked, after which the answers are needed again. */
  readonly mayAsk: boolean
  mask(text: string): string
  readonly log: Logger
  /**
   * Told once, before the code is: it called a tool that nobody has approved, and nothing is called any more. `answered` resolves
   * when the calls that are under way have their answers, which are needed when the code runs again.
   */
  onBlocked(answered: Promise<unknown>): void
  /** The code does not do again what it did: it must be ended before it does more. A phrase for the model. */
  onDiverged(reason: string): void
}
