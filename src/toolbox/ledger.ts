import { createHash } from 'node:crypto'
import type { ToolCallRecord } from '../outcome.js'
import type { Json } from './tool-entry.js'

const PREVIEW_CHARS = 200

type Arguments = { readonly [name: string]: Json }

/** The calls of one run, in the order in which they were let through. */
export class Ledger {
  /** null: it was not made after all. */
  readonly #calls: (ToolCallRecord | null)[]
  #size = 0

  /** `kept`: how many places are there for calls that were made before, and may be made again in any order. */
  constructor(kept = 0) {
    this.#calls = Array.from({ length: kept }, () => null)
  }

  /**
   * A call that is under way: of which nothing is known but that it was made. Returns its place: the one of those kept that it is
   * given, else the next.
   */
  begin(tool: string, argsPreview: string, place: number | null = null): number {
    const error = 'had not answered when the run ended'
    const n = place ?? this.#calls.length
    this.#calls[n] = { tool, ok: false, ms: 0, args_preview: argsPreview, error, bytes: 0, dollars: 0 }
    this.#size++
    return n
  }

  /** It was not made after all. Its place stays taken. */
  drop(n: number): void {
    if ((this.#calls[n] ?? null) === null) return
    this.#calls[n] = null
    this.#size--
  }

  end(n: number, end: Pick<ToolCallRecord, 'ok' | 'ms' | 'error' | 'bytes' | 'dollars'>): ToolCallRecord | null {
    const call = this.#calls[n]
    if (call === undefined || call === null) return null
    const ended = { ...call, ...end }
    this.#calls[n] = ended
    return ended
  }

  get calls(): readonly ToolCallRecord[] {
    return this.#calls.filter(call => call !== null)
  }

  /** How many were let through, and are or were made. */
  get size(): number {
    return this.#size
  }
}

/** The arguments on one line, cut, with secrets masked before the cut: half of one must not show. */
export function previewOf(args: Arguments, mask: (text: string) => string): string {
  const text = mask(JSON.stringify(args)).toWellFormed()
  return text.length <= PREVIEW_CHARS ? text : `${text.slice(0, PREVIEW_CHARS - 1).toWellFormed()}…`
}

/** The same for the same arguments, in whatever order they were given. */
export function hashOf(args: Arguments): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(args)))
    .digest('hex')
}

function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value as Arguments).map(([name, inner]) => [name, sorted(inner)] as const)
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
