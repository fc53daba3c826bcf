import type { ToolEntry, ToolSource } from './tool-entry.js'

/**
 * Of which sources tools are wanted: those of these categories, by exact name, or of all that there are, which is waited for only
 * for a short time. Sources that are ready anyway are always asked.
 */
export type Wanted = ReadonlySet<string> | 'all'

const SOURCE_LIMIT_MS = 20_000
const ALL_LIMIT_MS = 2_000
const STARTING = 'it is still being started, so its tools are not known yet'

export interface Look {
  readonly source: ToolSource
  readonly tools: readonly ToolEntry[]
  readonly problem: string | null
  /** Its tools are not known, and can be if they are wanted. */
  readonly isPending: boolean
}

interface Listing {
  readonly sinceMs: number
  readonly done: Promise<void>
}

/**
 * Asks sources for their tools. A source is asked once at a time, and how long is waited for it counts from there on, so that one
 * that hangs is waited for once, and only by whoever wants it: 20 s, or 2 s by those who want all that there are, and by all
 * once it has failed.
 */
export class SourceLooks {
  readonly #limitMs: number
  readonly #note: (words: string) => void
  /** Of a source whose listing has ended. */
  readonly #last = new Map<ToolSource, readonly ToolEntry[]>()
  readonly #failed = new Set<ToolSource>()
  readonly #words = new Map<ToolSource, string>()
  readonly #listings = new Map<ToolSource, Listing>()
  /** Sources end their listings themselves when they are closed. */
  readonly #unending = new AbortController().signal

  /** `note`: for operators. */
  constructor(limitMs: number = SOURCE_LIMIT_MS, note: (words: string) => void = () => {}) {
    this.#limitMs = limitMs
    this.#note = note
  }

  /** Never rejects. */
  async look(source: ToolSource, wanted: Wanted, signal: AbortSignal): Promise<Look> {
    const isReady = source.isReady ?? true
    const isWanted = wanted === 'all' || wanted.has(source.category)
    if (!isReady && !isWanted) return this.#known(source, null)
    const isShort = !isReady && (wanted === 'all' || this.#failed.has(source))
    const limitMs = isShort ? Math.min(ALL_LIMIT_MS, this.#limitMs) : this.#limitMs
    const { sinceMs, done } = this.#listings.get(source) ?? this.#list(source)
    const hasEnded = await settled(done, sinceMs + limitMs - performance.now(), signal)
    const late = isReady ? `its tools were not there within ${limitMs / 1_000} s` : STARTING
    return this.#known(source, hasEnded || signal.aborted ? null : late)
  }

  #known(source: ToolSource, late: string | null): Look {
    const isReady = source.isReady ?? true
    const tools = this.#last.get(source) ?? []
    const isStarting = !isReady && this.#listings.has(source) ? STARTING : null
    const problem = source.problem ?? this.#words.get(source) ?? isStarting ?? late
    return { source, tools, problem, isPending: !isReady && tools.length === 0 }
  }

  #list(source: ToolSource): Listing {
    const done = Promise.resolve(source.tools(this.#unending))
      .then(
        tools => {
          this.#words.delete(source)
          this.#last.set(source, tools)
        },
        (error: unknown) => {
          // A fault of ours. Its words may name what is nothing to the code.
          this.#words.set(source, 'its tools could not be listed')
          const words = error instanceof Error ? error.message : String(error)
          this.#note(`category of tools "${source.category}": its tools could not be listed: ${words}`)
        },
      )
      .then(() => {
        this.#listings.delete(source)
        const hasFailed = source.problem !== null && (this.#last.get(source) ?? []).length === 0
        if (hasFailed) this.#failed.add(source)
        else this.#failed.delete(source)
      })
    const listing = { sinceMs: performance.now(), done }
    this.#listings.set(source, listing)
    return listing
  }
}

/** Whether it settled before the time was over and the signal aborted. */
function settled(work: Promise<void>, ms: number, signal: AbortSignal): Promise<boolean> {
  return new Promise(resolve => {
    let timer: NodeJS.Timeout | undefined
    const finish = (is: boolean) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', give)
      resolve(is)
    }
    const give = () => finish(false)
    // What has settled already is heard of before a time that is over.
    timer = setTimeout(give, Math.max(0, ms))
    if (signal.aborted) give()
    signal.addEventListener('abort', give, { once: true })
    void work.then(() => finish(true))
  })
}
