import { parseArgs } from 'node:util'
import type { ExecOptions } from './exec.js'

/** The command line cannot be understood; the message says what is wrong with it, in one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export type CommandLine =
  | { readonly command: 'help' | 'version' | 'start' | 'demo' | 'doctor' | 'exec-lines' }
  | { readonly command: 'dev'; readonly port: number | null }
  | { readonly command: 'backend'; readonly host: string; readonly port: number }
  | ({ readonly command: 'exec' } & ExecOptions)

const OPTIONS = {
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
  json: { type: 'boolean' },
  jsonl: { type: 'boolean' },
  timeout: { type: 'string' },
  output: { type: 'string' },
  quiet: { type: 'boolean' },
  port: { type: 'string' },
  host: { type: 'string' },
} as const

type OptionName = keyof typeof OPTIONS

/** Reads what follows the program's name. Errors: UsageError for anything that would otherwise be ignored or guessed. */
export function readCommandLine(argv: readonly string[]): CommandLine {
  const { values, positionals } = parsed(argv)
  if (values.help === true) return { command: 'help' }
  if (values.version === true) return { command: 'version' }
  const [command = 'start', ...words] = positionals
  const given = (Object.keys(values) as OptionName[]).filter(name => values[name] !== undefined)
  /** Refuses options that this command has no use for, and another number of words than it takes. */
  const takes = (options: readonly OptionName[], what: 'nothing' | 'one file', name = command) => {
    const other = given.find(option => !options.includes(option))
    if (other !== undefined) throw new UsageError(`--${other} does not go with ${name}`)
    if (words.length === (what === 'nothing' ? 0 : 1)) return
    const came = words.length === 0 ? 'none was given' : `these were given: ${words.map(quoted).join(' ')}`
    throw new UsageError(`${name} takes ${what}${words.length === 0 ? ', but' : ';'} ${came}`)
  }
  switch (command) {
    case 'start':
    case 'demo':
    case 'doctor':
      takes([], 'nothing')
      return { command }
    case 'dev':
      takes(['port'], 'nothing')
      return { command, port: values.port === undefined ? null : wholeNumber('--port', values.port, 65_535) }
    case 'backend':
      takes(['host', 'port'], 'nothing')
      return { command, host: values.host ?? '127.0.0.1', port: wholeNumber('--port', values.port ?? '0', 65_535) }
    case 'exec': {
      if (values.jsonl === true) {
        takes(['jsonl'], 'nothing', 'exec --jsonl')
        return { command: 'exec-lines' }
      }
      takes(['json', 'timeout', 'output', 'quiet'], 'one file')
      const { json = false, quiet = false, output = null } = values
      if (json && output !== null) throw new UsageError('--output does not go with exec --json, which saves nothing')
      if (json && quiet) throw new UsageError('--quiet does not go with exec --json')
      if (output === '') throw new UsageError('--output needs a folder')
      const timeoutSeconds = values.timeout === undefined ? null : wholeNumber('--timeout', values.timeout, 86_400, 1)
      return { command, file: words[0] ?? '-', json, timeoutSeconds, output, quiet }
    }
    default:
      throw new UsageError(`there is no command ${quoted(command)}`)
  }
}

function parsed(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], allowPositionals: true, options: OPTIONS })
  } catch (error) {
    throw new UsageError(inPlainWords(error as NodeJS.ErrnoException))
  }
}

/** Node's own messages run over several lines and speak of positional arguments. */
function inPlainWords({ code, message }: NodeJS.ErrnoException): string {
  const option = /'(?:-\w, )?(-[^ ']*)/.exec(message)?.[1] ?? 'an option'
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') return `there is no option ${option}`
  return message.includes('does not take') ? `${option} takes no value` : `${option} needs a value`
}

function wholeNumber(name: string, text: string, most: number, least = 0): number {
  if (!/^\d+$/.test(text) || Number(text) > most || Number(text) < least) {
    const range = least === 0 ? `up to ${most}` : `from ${least} to ${most}`
    throw new UsageError(`${name} takes a whole number ${range}, not ${quoted(text)}`)
  }
  return Number(text)
}

function quoted(text: string): string {
  return JSON.stringify(text)
}
