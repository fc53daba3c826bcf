import type { CatalogView } from './broker-options.js'
import { type CategorySummary, describeTools, type Told } from './description.js'
import { instead, nearest } from './did-you-mean.js'
import { aliasesOf } from './names.js'
import { type Bound, bindArguments } from './parameters.js'
import { oneLine } from './python-text.js'
import { parametersOf } from './schema-shape.js'
import { descriptionOf } from './schema-types.js'
import { ToolIndex } from './search.js'
import { type Called, signatureOf, stubOf, summaryOf } from './stubs.js'
import type { Json, ToolEntry } from './tool-entry.js'
import { checkerOf } from './validation.js'
import { named, type ToolFile, type ToolFolder, VirtualFiles } from './virtual-files.js'

export interface CategoryTools {
  readonly category: string
  readonly description: string
  readonly problem: string | null
  /** Its tools are not known before somebody wants them. */
  readonly isPending: boolean
  readonly tools: readonly ToolEntry[]
  /** Exact names of tools that may not be called here. */
  readonly denied: ReadonlySet<string>
}

interface Tool extends ToolFile {
  readonly entry: ToolEntry
  readonly called: Called
}

interface Category extends ToolFolder {
  readonly tools: readonly Tool[]
  readonly isPending: boolean
  readonly denied: ReadonlySet<string>
}

/** The tools as they are at one time. What is costly to make is made when it is asked for, once. */
export class Snapshot implements CatalogView {
  readonly entries: readonly ToolEntry[]
  /** Names that code has to spell otherwise than it might think, as sentences. */
  readonly collisions: readonly string[]

  readonly #categories: readonly Category[]
  readonly #tools: readonly Tool[]
  readonly #byEntry: ReadonlyMap<ToolEntry, Tool>
  readonly #files: VirtualFiles
  #index: ToolIndex | null = null

  /** `previous`: what it made of tools that are the same is taken over. */
  constructor(categories: readonly CategoryTools[], previous: Snapshot | null = null) {
    const aliases = aliasesOf(
      categories.map(({ category }) => category),
      'categories',
    )
    const collisions = aliases.collisions.map(words => `category of tools ${words}`)
    this.#categories = categories.map(one => {
      const alias = aliases.of.get(one.category) ?? one.category
      const ofTools = aliasesOf(
        one.tools.map(({ name }) => name),
        'tools',
      )
      collisions.push(...ofTools.collisions.map(words => `tool of ${alias}: ${words}`))
      const tools = one.tools.map(entry => {
        const called = { category: alias, tool: ofTools.of.get(entry.name) ?? entry.name }
        const known = previous === null ? undefined : previous.#byEntry.get(entry)
        const isSame = known?.called.category === called.category && known.called.tool === called.tool
        return known !== undefined && isSame ? known : toolOf(entry, called)
      })
      const { description, problem, isPending, denied } = one
      return { name: one.category, alias, description, problem, isPending, tools, denied }
    })
    this.collisions = collisions
    this.#tools = this.#categories.flatMap(({ tools }) => tools)
    if (previous !== null && areSame(previous.#tools, this.#tools)) this.#index = previous.#index
    this.#byEntry = new Map(this.#tools.map(tool => [tool.entry, tool]))
    this.entries = this.#tools.map(({ entry }) => entry)
    this.#files = new VirtualFiles(this.#categories)
  }

  /** By exact names or aliases, exact ones first; `.py` may be behind the tool's. */
  find(category: string, tool: string): ToolEntry | { readonly problem: string } {
    const found = named(this.#categories, category)
    if (found === undefined) return { problem: this.#noCategory(category, tool) }
    const plain = tool.replace(/\.py$/, '')
    const one = named(found.tools, tool) ?? named(found.tools, plain)
    if (one !== undefined) return one.entry
    const where = `tools.${found.alias}`
    if (found.denied.has(tool) || found.denied.has(plain))
      return { problem: `${where} has no ${plain} here: it may not be called` }
    const problem = found.problem === null ? '' : oneLine(found.problem, 500)
    if (found.tools.length === 0 && problem !== '') return { problem: `${where} has no tools now: ${problem}` }
    const aliases = new Map(
      found.tools.flatMap(({ name, alias }) => [name, alias].map(key => [key, `${where}.${alias}`])),
    )
    const near = [...new Set(nearest(plain, aliases.keys()).map(key => aliases.get(key) ?? key))]
    const all = found.tools.map(({ alias }) => alias)
    const text = `there is no tool "${oneLine(tool, 100)}" in ${where}; ${instead(near, all, 'tools')}`
    return { problem: problem === '' ? text : `${text} (not all of its tools may be there: ${problem})` }
  }

  bind(entry: ToolEntry, args: readonly Json[], kw: { readonly [name: string]: Json }): Bound {
    return bindArguments(entry, this.calledOf(entry), args, kw)
  }

  /** The names that code calls a tool by. */
  calledOf(entry: ToolEntry): Called {
    return this.#byEntry.get(entry)?.called ?? { category: entry.category, tool: entry.name }
  }

  overview(callsMax: number): Json {
    const categories = this.#categories.map(({ name, alias, description, problem, isPending, tools }) => ({
      name,
      alias,
      description,
      problem,
      pending: isPending,
      tools: tools.map(tool => ({ name: tool.name, alias: tool.alias, local: tool.entry.call === undefined })),
    }))
    return { categories, calls_max: callsMax }
  }

  /** The exact name of a category that is not known yet. By exact name or alias; null: any. */
  pending(name: string | null): string | null {
    const found = name === null ? this.#categories.find(({ isPending }) => isPending) : named(this.#categories, name)
    return found?.isPending === true ? found.name : null
  }

  /** The category that a path of the virtual files leads into, by its exact name; null: into none, or to all. */
  categoryOf(path: string): string | null {
    return this.#files.folderOf(path)
  }

  ls(path: string): readonly string[] {
    return this.#files.ls(path)
  }

  read(path: string): string {
    return this.#files.read(path)
  }

  tree(path: string): string {
    return this.#files.tree(path)
  }

  search(words: string, limit: number): Json {
    this.#index ??= new ToolIndex(
      this.#tools.map(({ name, alias, called, summary, entry }) => ({
        name: alias === name ? name : `${name} ${alias}`,
        category: called.category,
        summary,
        description: entry.description,
        parameters: parameterWords(entry),
      })),
    )
    return this.#index.search(words, limit).flatMap(({ n, score }) => {
      const tool = this.#tools[n]
      if (tool === undefined) return []
      const { entry, called, summary } = tool
      return [
        { category: entry.category, tool: entry.name, call: `tools.${called.category}.${called.tool}`, summary, score },
      ]
    })
  }

  /** What a model is told of the tools. */
  describe(told: Told): string {
    const summaries: readonly CategorySummary[] = this.#categories.map(({ tools, isPending, ...one }) => ({
      ...one,
      tools: isPending ? null : tools.length,
    }))
    return describeTools(summaries, told)
  }

  #noCategory(category: string, tool: string): string {
    const plain = tool.replace(/\.py$/, '')
    const elsewhere = this.#categories.flatMap(one => {
      const found = named(one.tools, plain)
      return found === undefined ? [] : [`tools.${one.alias}.${found.alias}`]
    })
    const aliases = new Map(
      this.#categories.flatMap(({ name, alias }) => [name, alias].map(key => [key, `tools.${alias}`])),
    )
    const near = nearest(category, aliases.keys()).map(key => aliases.get(key) ?? key)
    const all = this.#categories.map(({ alias }) => alias)
    const words = instead([...new Set([...elsewhere.slice(0, 3), ...near])], all, 'categories')
    return `there is no category of tools "${oneLine(category, 100)}"; ${words}`
  }
}

function toolOf(entry: ToolEntry, called: Called): Tool {
  let signature: string | null = null
  let text: string | null = null
  return {
    entry,
    called,
    name: entry.name,
    alias: called.tool,
    summary: summaryOf(entry.description),
    get signature() {
      signature ??= signatureOf(entry, called)
      return signature
    },
    text: () => {
      if (text !== null) return text
      const checker = checkerOf(entry.parameters)
      text = stubOf(entry, called, 'unchecked' in checker ? checker.unchecked : null)
      return text
    },
  }
}

function areSame(a: readonly Tool[], b: readonly Tool[]): boolean {
  return a.length === b.length && a.every((tool, n) => tool === b[n])
}

function parameterWords(entry: ToolEntry): string {
  return parametersOf(entry.parameters)
    .list.map(({ name, schema }) => `${name} ${descriptionOf(entry.parameters, schema).slice(0, 500)}`)
    .join(' ')
}
