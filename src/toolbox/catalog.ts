import { setMaxListeners } from 'node:events'
import { type ConsentRules, consentRules, type ToolGlobs } from './consent-rules.js'
import { type CategorySummary, describeTools, type Told } from './description.js'
import { mentionedTools } from './mentions.js'
import { aliasesOf, pythonName } from './names.js'
import { cut } from './python-text.js'
import { type CategoryTools, Snapshot } from './snapshot.js'
import { type Look, SourceLooks, type Wanted } from './source-looks.js'
import type { ToolEntry, ToolSource } from './tool-entry.js'
import { wordsOf } from './words.js'

const TOOLS_MOST = 2_000
const DESCRIPTION_CHARS_MOST = 16 * 1024

export interface CatalogOptions {
  /** In the order in which they are listed. Of two of the same category, the first has it. */
  readonly sources: readonly ToolSource[]
  readonly globs: ToolGlobs
  /** How long a look waits for a source that is wanted; then its last known tools are taken, or none. */
  readonly sourceLimitMs?: number
  /** For operators: globs that fit nothing, names that collide, tools left out. Each sentence is told once. */
  readonly onNotes?: (notes: readonly string[]) => void
}

/** Makes one list of the tools of all sources, by the rules of the configuration. */
export class ToolCatalog {
  readonly #options: CatalogOptions
  readonly #sources: readonly ToolSource[]
  readonly #rules: ConsentRules
  readonly #looks: SourceLooks
  /** A source's entry → as it is listed, by rules that do not change. */
  readonly #listed = new WeakMap<ToolEntry, ToolEntry>()
  readonly #aliases: ReadonlyMap<string, string>
  readonly #told = new Set<string>()
  readonly #doubles: readonly string[]
  #made: { readonly looks: readonly Look[]; readonly snapshot: Snapshot } | null = null

  constructor(options: CatalogOptions) {
    this.#options = options
    this.#rules = consentRules(options.globs)
    for (const { category } of options.sources) {
      // The first dot in category.tool ends the category: what a person approves has to be one tool.
      if (category.includes('.')) throw new Error(`category of tools "${category}": give a name without dots`)
    }
    this.#looks = new SourceLooks(options.sourceLimitMs, words => this.#tell([words]))
    const byCategory = new Map<string, ToolSource>()
    for (const source of options.sources) {
      if (!byCategory.has(source.category)) byCategory.set(source.category, source)
    }
    this.#sources = [...byCategory.values()]
    this.#aliases = aliasesOf([...byCategory.keys()], 'categories').of
    this.#doubles = options.sources
      .filter(source => byCategory.get(source.category) !== source)
      .map(({ category }) => `category of tools "${category}" is there twice: the second is left out`)
  }

  /**
   * The tools as they are now; sources are asked in parallel, and those that would have to be started only where they are wanted.
   * The same object until something changes. Never rejects.
   */
  async snapshot(signal: AbortSignal, wanted: Wanted = 'all'): Promise<Snapshot> {
    if (this.#options.globs.allow?.length === 0) return this.#snapshotOf([])
    setMaxListeners(0, signal) // one for each source and look
    const looks = await Promise.all(this.#sources.map(source => this.#looks.look(source, wanted, signal)))
    return this.#snapshotOf(looks)
  }

  /** The categories that code names, by exact names or by those that it has to use. */
  categoriesIn(code: string): ReadonlySet<string> {
    const words = wordsOf(code)
    const named = this.#sources.filter(({ category }) => {
      const names = [category, pythonName(category), this.#aliases.get(category) ?? category]
      return names.some(name => words.has(name))
    })
    return new Set(named.map(({ category }) => category))
  }

  /** What a model is told of the tools; before the first snapshot without numbers, for no source is started by this. */
  describe(told: Told): string {
    if (this.#options.globs.allow?.length === 0) return ''
    if (this.#made !== null) return this.#made.snapshot.describe(told)
    const summaries: readonly CategorySummary[] = this.#sources
      .filter(({ category }) => this.#rules.mayHave(category))
      .map(({ category, description, problem }) => ({
        alias: this.#aliases.get(category) ?? category,
        description,
        tools: null,
        problem,
      }))
    return describeTools(summaries, told)
  }

  /** Those of the entries that code mentions, by exact names or by those that it has to use: see mentions.ts. */
  mentioned(code: string, entries: readonly ToolEntry[]): readonly ToolEntry[] {
    const snapshot = this.#made?.snapshot
    return mentionedTools(code, entries, entry => snapshot?.calledOf(entry))
  }

  #snapshotOf(looks: readonly Look[]): Snapshot {
    if (this.#made !== null && areSame(this.#made.looks, looks)) return this.#made.snapshot
    const notes = [...this.#doubles]
    let left = TOOLS_MOST
    const categories: CategoryTools[] = []
    for (const { source, tools, problem, isPending } of looks) {
      const { kept, denied, overflow } = this.#sorted(source.category, tools, left)
      left -= kept.length
      const more =
        overflow === 0 ? null : `${overflow} of its tools are left out, for there are more than ${TOOLS_MOST} in all`
      if (more !== null) notes.push(`category of tools "${source.category}": ${more}`)
      // A category that nothing of may be called is not there.
      if (kept.length === 0 && denied.size > 0 && overflow === 0) continue
      const problems = [problem, more].filter(words => words !== null)
      categories.push({
        category: source.category,
        description: cut(source.description, 1_000),
        problem: problems.length === 0 ? null : problems.join('; '),
        tools: kept,
        denied,
        isPending,
      })
    }
    const snapshot = new Snapshot(categories, this.#made?.snapshot)
    const names = looks.flatMap(({ source, tools }) => tools.map(({ name }) => [source.category, name] as const))
    const unknown = looks
      .filter(({ problem, isPending }) => problem !== null || isPending)
      .map(({ source }) => source.category)
    if (looks.length > 0) notes.push(...this.#rules.unmatched(names, unknown))
    notes.push(...snapshot.collisions)
    this.#made = { looks, snapshot }
    this.#tell(notes)
    return snapshot
  }

  #sorted(category: string, tools: readonly ToolEntry[], left: number) {
    const kept = new Map<string, ToolEntry>()
    const denied = new Set<string>()
    let overflow = 0
    for (const entry of tools) {
      if (kept.has(entry.name)) continue
      const consent = this.#rules.consentOf({ ...entry, category })
      if (consent === 'deny') denied.add(entry.name)
      else if (kept.size >= left) overflow++
      else {
        const listed = this.#listed.get(entry) ?? entryWith(entry, { category, consent })
        this.#listed.set(entry, listed)
        kept.set(entry.name, listed)
      }
    }
    return { kept: [...kept.values()], denied, overflow }
  }

  #tell(notes: readonly string[]): void {
    const news = notes.filter(note => !this.#told.has(note))
    for (const note of news) this.#told.add(note)
    if (news.length > 0) this.#options.onNotes?.(news)
  }
}

function entryWith(entry: ToolEntry, changes: Pick<ToolEntry, 'category' | 'consent'>): ToolEntry {
  const description = cut(entry.description, DESCRIPTION_CHARS_MOST)
  const same = entry.category === changes.category && entry.consent === changes.consent
  if (same && description === entry.description) return entry
  const { name, parameters, returns } = entry
  return {
    ...changes,
    name,
    description,
    parameters,
    ...(returns === undefined ? {} : { returns }),
    ...(entry.call === undefined ? {} : { call: (args, context) => callOf(entry, args, context) }),
  }
}

function callOf(entry: ToolEntry, ...given: Parameters<NonNullable<ToolEntry['call']>>) {
  if (entry.call === undefined) throw new Error('the tool has no call')
  return entry.call(...given)
}

function areSame(a: readonly Look[], b: readonly Look[]): boolean {
  return (
    a.length === b.length &&
    a.every((one, n) => {
      const other = b[n]
      return (
        other !== undefined &&
        one.source === other.source &&
        one.problem === other.problem &&
        one.isPending === other.isPending &&
        one.tools.length === other.tools.length &&
        (one.tools === other.tools || one.tools.every((tool, m) => tool === other.tools[m]))
      )
    })
  )
}
