import type { Request } from './requests.js'
import type { Wanted } from './source-looks.js'

/** What a run needs to know of a snapshot beside what the code sees. */
interface Pending {
  pending(name: string | null): string | null
  categoryOf(path: string): string | null
}

const NOTHING: Wanted = new Set<string>()

/**
 * The tools as the code of one run sees them: looked at once, and again only for what it asks for and is not known yet. So a
 * source that is slow or hangs is waited for by the request that wants its tools, and by no other.
 */
export class RunCatalog<T extends Pending> {
  readonly #look: (signal: AbortSignal, wanted: Wanted) => Promise<T>
  #current: Promise<T> | null = null

  constructor(look: (signal: AbortSignal, wanted: Wanted) => Promise<T>) {
    this.#look = look
  }

  async for(request: Request, signal: AbortSignal): Promise<T> {
    this.#current ??= this.#look(signal, NOTHING)
    const current = await this.#current
    const wanted = wantedBy(request, current)
    if (wanted === null) return current
    const pending = current.pending(wanted.category)
    if (pending === null) return current
    this.#current = this.#look(signal, wanted.category === null ? 'all' : new Set([pending]))
    return await this.#current
  }
}

/** A category, or all where that is null; null: nothing that is not known. */
function wantedBy(request: Request, current: Pending): { readonly category: string | null } | null {
  switch (request.op) {
    case 'call':
      return { category: request.category }
    case 'catalog':
      return request.category === undefined ? null : { category: request.category }
    case 'search':
      return { category: null }
    case 'read':
    case 'tree':
      return { category: current.categoryOf(request.path) }
    case 'ls': {
      // Of the root it lists categories, for which nothing has to be started.
      const category = current.categoryOf(request.path)
      return category === null ? null : { category }
    }
    case 'done':
      return null
  }
}
