import { readFileSync } from 'node:fs'
import type { Request } from './run-code.js'

type Handler = (args: readonly unknown[], named: Record<string, unknown>) => unknown

const later = (seconds: number, value: unknown) => new Promise(resolve => setTimeout(resolve, seconds * 1000, value))

class Refusal extends Error {
  readonly kind: string
  constructor(kind: string, message: string) {
    super(message)
    this.kind = kind
  }
}

const refuse = (kind: string, message: string): Handler => {
  return () => {
    throw new Refusal(kind, message)
  }
}

const BIG = 'abc\u2028é😀'.repeat(330_000)

/** category: [alias, description, tools: {name: [alias, handler, stub]}] */
const TOOLS: Record<string, [string, string, Record<string, [string, Handler, string?]>]> = {
  web: [
    'web',
    'Pages and searches',
    {
      web_extract: [
        'web_extract',
        (_, named) => ({ results: [{ url: named['urls'], title: 'T', content: 'c', error: null }] }),
        'from typing import *\n\ndef web_extract(*, urls: list[str], char_limit: int = 15000) -> dict[str, Any]:\n    """Readable text of pages.\n\n    urls: at most 10\n    """\n    ...\n',
      ],
      web_search: ['web_search', (_, named) => [{ url: 'u', title: String(named['query']), description: 'd' }]],
    },
  ],
  'google-calendar': [
    'google_calendar',
    'Calendars',
    {
      'list-calendars': ['list_calendars', () => ['work', 'home']],
      class: ['class_', () => 'classy'],
      '2fa': ['_2fa', () => 'two'],
      echo: ['echo', (args, named) => ({ args, named })],
    },
  ],
  test: [
    'test',
    'For tests',
    {
      echo: ['echo', (args, named) => named['value'] ?? args[0] ?? null],
      none: ['none', () => null],
      empty: ['empty', () => ''],
      big: ['big', () => BIG],
      half: ['half', () => '\ud83d'],
      slow: ['slow', (_, named) => later(Number(named['seconds']), named['value'] ?? null)],
      fail: ['fail', refuse('tool', 'the disk is on fire')],
      denied: ['denied', refuse('denied', 'test.denied is not allowed')],
      ask: ['ask', refuse('needs_confirmation', 'test.ask needs a person')],
      budget: ['budget', refuse('budget', 'at most 50 tool calls')],
      lost: ['lost', refuse('lost', 'test.lost was called and did its work')],
    },
  ],
  broken: ['broken', 'A server that is down', {}],
}

const LOCAL = JSON.parse(readFileSync(new URL('../../../../src/toolbox/built-in.json', import.meta.url), 'utf8'))

/** The answer to a request, or null where there is none. Local tools get the arguments that the code gave. */
export async function answerOf(request: Request): Promise<unknown> {
  const { id } = request
  try {
    switch (request.op) {
      case 'catalog':
        return { id, ok: true, value: { categories: categories(), calls_max: 50 } }
      case 'ls':
        return { id, ok: true, value: request['path'] === 'tools/' ? Object.keys(TOOLS).map(name => `${name}/`) : [] }
      case 'read':
        return { id, ok: true, value: stub(String(request['path'])) }
      case 'tree':
        return { id, ok: true, value: 'tools/\n  web/' }
      case 'search':
        return {
          id,
          ok: true,
          value: [{ call: 'tools.web.web_extract', words: request['words'], limit: request['limit'] }],
        }
      case 'call':
        return await call(request)
      default:
        return null
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { id, ok: false, kind: error.kind, message: error.message }
  }
}

async function call(request: Request): Promise<unknown> {
  const { id } = request
  const category = String(request['category'])
  const name = String(request['tool']).replace(/\.py$/, '')
  const args = request['args'] as unknown[]
  const named = request['kw'] as Record<string, unknown>
  const local = LOCAL[category]?.tools.find((one: { name: string }) => one.name === name)
  if (local !== undefined) {
    const names = Object.keys(local.parameters.properties)
    return { id, ok: true, local: true, kw: { ...Object.fromEntries(args.map((one, n) => [names[n], one])), ...named } }
  }
  const found = Object.entries(TOOLS).find(([exact, [alias]]) => exact === category || alias === category)
  const tools = found?.[1][2] ?? {}
  const tool = tools[name] ?? Object.values(tools).find(([alias]) => alias === name)
  if (tool === undefined) throw new Refusal('unknown', `there is no tool ${category}.${name}; did you mean …?`)
  return { id, ok: true, value: await tool[1](args, named) }
}

function categories(): unknown[] {
  const local = Object.entries(LOCAL as Record<string, { description: string; tools: { name: string }[] }>)
  return [
    ...local.map(([name, { description, tools }]) => ({
      name,
      alias: name,
      description,
      problem: null,
      tools: tools.map(tool => ({ name: tool.name, alias: tool.name, local: true })),
    })),
    ...Object.entries(TOOLS).map(([name, [alias, description, tools]]) => ({
      name,
      alias,
      description,
      problem: name === 'broken' ? 'the server does not start' : null,
      tools: Object.entries(tools).map(([exact, [short]]) => ({ name: exact, alias: short, local: false })),
    })),
  ]
}

function stub(path: string): string {
  const [, alias, file] = path.split('/')
  const found = Object.values(TOOLS).find(([short]) => short === alias)?.[2] ?? {}
  const tool = Object.values(found).find(([short]) => `${short}.py` === file)
  return tool?.[2] ?? (path.endsWith('__index__.md') ? '# index' : `there is no ${path}`)
}
