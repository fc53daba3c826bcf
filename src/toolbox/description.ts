import { oneLine } from './python-text.js'

/** What a model is told of the tools before it writes code; it has to fit in each request, however many tools there are. */

const CHARS_MOST = 1_500

export interface CategorySummary {
  readonly alias: string
  readonly description: string
  /** null: not known before its source is started. */
  readonly tools: number | null
  readonly problem: string | null
}

export interface Told {
  readonly callsMax: number
  /** The code can import nothing, so that it has no threads, and can not await. */
  readonly isRestricted?: boolean
}

/** "" where there are no tools. */
export function describeTools(categories: readonly CategorySummary[], told: Told): string {
  const { callsMax, isRestricted = false } = told
  const useful = categories.filter(({ tools, problem }) => tools !== 0 || problem !== null)
  if (useful.every(({ tools }) => tools === 0)) return ''
  const example = useful.find(({ tools }) => tools !== 0)?.alias ?? 'files'
  const head = [
    `The code can call tools; \`tools\`, \`call_tool\`, \`ls\` and \`read\` are there${isRestricted ? '' : ' without an import'}:`,
    'tools.<category>.<tool>(name=value, …) or call_tool("category", "tool", name=value, …) returns the result or raises tools.ToolError;',
    ...(isRestricted ? [] : ['calls in threads, or with await tools.aio.<category>.<tool>(…), run in parallel.']),
    `tools.search("words") finds tools; ls("tools/"), read("tools/__index__.md") and read("tools/${oneLine(example, 40)}/__index__.md") list them;`,
    `read("tools/<category>/<tool>.py") is a tool's signature: look before you call what you do not know.`,
    `At most ${callsMax} tool calls in one run. Print only what you need of the results.`,
    'Categories:',
  ].join('\n')

  const lines: string[] = []
  let left = CHARS_MOST - head.length - '\n- and 9999 more: ls("tools/")'.length
  for (const { alias, description, tools, problem } of useful) {
    const count = tools === null ? '' : ` (${tools} ${tools === 1 ? 'tool' : 'tools'})`
    const line = `- ${oneLine(alias, 60)}${count}: ${oneLine(description, 100)}${problem === null ? '' : ` [${oneLine(problem, 80)}]`}`
    if (line.length + 1 > left) break
    left -= line.length + 1
    lines.push(line)
  }
  const more = useful.length - lines.length
  return [head, ...lines, ...(more > 0 ? [`- and ${more} more: ls("tools/")`] : [])].join('\n')
}
