import { instead, nearest } from './did-you-mean.js'
import { oneLine } from './python-text.js'

/** The tools as files that code can list and read; none of them is on a disk. */

export interface ToolFile {
  readonly name: string
  readonly alias: string
  readonly summary: string
  /** How it is called, on one line. */
  readonly signature: string
  /** The Python stub. */
  text(): string
}

export interface ToolFolder {
  readonly name: string
  readonly alias: string
  readonly description: string
  readonly problem: string | null
  readonly tools: readonly ToolFile[]
}

const ROOT = 'tools/'
const INDEX = '__index__.md'

type Place =
  | { readonly kind: 'root' | 'index' }
  | { readonly kind: 'folder' | 'folder index'; readonly folder: ToolFolder }
  | { readonly kind: 'tool'; readonly folder: ToolFolder; readonly tool: ToolFile }

export class VirtualFiles {
  readonly #folders: readonly ToolFolder[]
  readonly #known = new Map<string, string>()

  constructor(folders: readonly ToolFolder[]) {
    this.#folders = folders
  }

  /** Names below a folder: categories end with a slash, tools with .py, and each of them can be called. [] for what is no folder. */
  ls(path: string): readonly string[] {
    const place = this.#place(path)
    if (place?.kind === 'root') return this.#folders.map(({ alias }) => `${alias}/`)
    return place?.kind === 'folder' ? place.folder.tools.map(({ alias }) => `${alias}.py`) : []
  }

  /** The text of a file, the index of a folder, or a text that says that there is no such file. */
  read(path: string): string {
    const place = this.#place(path)
    switch (place?.kind) {
      case 'root':
      case 'index':
        return this.#once('', () => indexOf(this.#folders))
      case 'folder':
      case 'folder index':
        return this.#once(place.folder.alias, () => folderIndexOf(place.folder))
      case 'tool':
        return place.tool.text()
      case undefined:
        return this.#unknown(path)
    }
  }

  /** All that is below a folder, or a text that says that there is none. */
  tree(path: string): string {
    const place = this.#place(path)
    if (place?.kind === 'root') {
      return this.#once('/tree', () =>
        [ROOT, `  ${INDEX}`, ...this.#folders.flatMap(one => branchOf(one, '  '))].join('\n'),
      )
    }
    if (place?.kind === 'folder') return branchOf(place.folder, '').join('\n')
    return place === undefined ? this.#unknown(path) : `${oneLine(path, 200)} is a file: read it`
  }

  /** The exact name of the folder in which a path lies, also where it leads to nothing there. */
  folderOf(path: string): string | null {
    const steps = stepsOf(path)
    const inRoot = steps[0] === 'tools' ? steps.slice(1) : steps
    for (const those of [inRoot, steps]) {
      for (let n = 1; n <= Math.min(those.length, 8); n++) {
        const folder = named(this.#folders, those.slice(0, n).join('/'))
        if (folder !== undefined) return folder.name
      }
    }
    return null
  }

  #once(key: string, text: () => string): string {
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const made = text()
    this.#known.set(key, made)
    return made
  }

  #place(path: string): Place | undefined {
    const steps = stepsOf(path)
    return this.#below(steps[0] === 'tools' ? steps.slice(1) : steps) ?? this.#below(steps)
  }

  #below(steps: readonly string[]): Place | undefined {
    if (steps.length === 0) return { kind: 'root' }
    if (steps.length === 1 && steps[0] === INDEX) return { kind: 'index' }
    // Exact names may hold slashes.
    for (let n = 1; n <= Math.min(steps.length, 8); n++) {
      const folder = named(this.#folders, steps.slice(0, n).join('/'))
      if (folder === undefined) continue
      const rest = steps.slice(n).join('/')
      if (rest === '') return { kind: 'folder', folder }
      const tool = named(folder.tools, rest) ?? named(folder.tools, rest.replace(/\.py$/, ''))
      if (tool !== undefined) return { kind: 'tool', folder, tool }
      if (rest === INDEX) return { kind: 'folder index', folder }
    }
    return undefined
  }

  #unknown(path: string): string {
    const steps = stepsOf(path)
    const [category = '', ...rest] = steps[0] === 'tools' ? steps.slice(1) : steps
    const folder = named(this.#folders, category)
    const what = `There is no ${oneLine(path, 200)}`
    if (folder === undefined) {
      const paths = new Map(
        this.#folders.flatMap(({ name, alias }) => [name, alias].map(key => [key, `${ROOT}${alias}/`])),
      )
      const folders = this.#folders.map(({ alias }) => `${ROOT}${alias}/`)
      const near = nearest(category, paths.keys()).map(key => paths.get(key) ?? key)
      const other = this.#folders.flatMap(one => {
        const tool = named(one.tools, category.replace(/\.py$/, ''))
        return tool === undefined ? [] : [`${ROOT}${one.alias}/${tool.alias}.py`]
      })
      const meant = [...new Set([...other.slice(0, 3), ...near])]
      const files = named(this.#folders, 'files')
      const workspace =
        files === undefined || steps[0] === 'tools' || meant.length > 0
          ? ''
          : ` Here are files of tools alone; those of the workspace: tools.${files.alias}.read_file(path=…).`
      return `${what}; ${sentence(instead(meant, folders, 'tools'))} ${ROOT}${INDEX} lists the categories.${workspace}`
    }
    const paths = new Map(folder.tools.flatMap(({ name, alias }) => [name, alias].map(key => [key, `${alias}.py`])))
    const near = nearest(rest.join('/').replace(/\.py$/, ''), paths.keys()).map(key => paths.get(key) ?? key)
    const files = [...new Set(near)].map(file => `${ROOT}${folder.alias}/${file}`)
    const all = folder.tools.map(({ alias }) => `${alias}.py`)
    const problem = folder.problem === null ? '' : ` Not all of it may be there: ${folder.problem}.`
    return `${what}; ${sentence(instead(files, all, 'tools'))} ${ROOT}${folder.alias}/${INDEX} lists the tools.${problem}`
  }
}

function sentence(text: string): string {
  return text.endsWith('?') ? text : `${text}.`
}

/** By exact name, or else by alias. */
export function named<T extends { readonly name: string; readonly alias: string }>(
  all: readonly T[],
  name: string,
): T | undefined {
  return all.find(one => one.name === name) ?? all.find(one => one.alias === name)
}

function stepsOf(path: string): readonly string[] {
  return path
    .trim()
    .split('/')
    .filter(step => step !== '' && step !== '.')
}

function indexOf(folders: readonly ToolFolder[]): string {
  const rows = folders.map(({ alias, name, description, problem, tools }) => {
    const said = [exactly(name, alias), oneLine(description, 200), problemOf(problem)]
      .filter(part => part !== '')
      .join(' ')
    return `| ${cell(alias)} | ${cell(said)} | ${tools.length} |`
  })
  return [
    '# Tools',
    '',
    ...(rows.length === 0 ? ['There are none.'] : ['| Category | Description | Tools |', '|---|---|---|', ...rows]),
    '',
    `read("${ROOT}<category>/${INDEX}") lists the tools of one; tools.search("words") finds tools by what they do.`,
    '',
  ].join('\n')
}

function folderIndexOf({ alias, name, description, problem, tools }: ToolFolder): string {
  const lines = tools.map(tool => {
    const said = [exactly(tool.name, tool.alias), tool.summary].filter(part => part !== '').join(' ')
    return `- \`${tool.signature.replaceAll('`', "'")}\`${said === '' ? '' : ` - ${said}`}`
  })
  return [
    `# ${oneLine(alias, 200)}`,
    '',
    ...[exactly(name, alias), oneLine(description, 500), problemOf(problem)].filter(part => part !== ''),
    '',
    ...(lines.length === 0 ? ['There are no tools here now.'] : lines),
    '',
    `read("${ROOT}${alias}/<tool>.py") is a tool's signature with all of its parameters.`,
    '',
  ].join('\n')
}

function branchOf(folder: ToolFolder, indentation: string): readonly string[] {
  const problem = problemOf(folder.problem)
  return [
    `${indentation}${folder.alias}/${problem === '' ? '' : `  ${problem}`}`,
    `${indentation}  ${INDEX}`,
    ...folder.tools.map(
      ({ alias, summary }) =>
        `${indentation}  ${alias}.py${summary === '' ? '' : `  # ${summary.slice(0, 80).toWellFormed()}`}`,
    ),
  ]
}

function exactly(name: string, alias: string): string {
  return name === alias ? '' : `(exact name: ${oneLine(name, 200)})`
}

function problemOf(problem: string | null): string {
  return problem === null ? '' : `[not all of it can be called now: ${oneLine(problem, 300)}]`
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|')
}
