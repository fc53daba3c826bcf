import type { z } from 'zod'
import { nearest } from '../did-you-mean.js'
import { httpShape, stdioShape, TYPES } from './config-shape.js'
import { type Environment, expand } from './references.js'
import { holdsLiteralSecret, literalSecretsIn, SECRET_CHARS_MIN, secretsIn, withLines } from './secrets.js'
import type { McpServerConfig } from './server-config.js'

export interface ToolServers {
  /** Those that are not disabled, in the order of the file. */
  readonly servers: readonly McpServerConfig[]
  /** Values to be masked in results, live output and logs. */
  readonly secrets: readonly string[]
  /** Sentences `mcpServers.x.command: got 5; give …`. With any, the worker must not start. Never a value of env or headers. */
  readonly faults: readonly string[]
  readonly warnings: readonly string[]
}

type Path = readonly (string | number)[]

const SHOWN_CHARS = 80
/** No run lasts so long: where nobody says otherwise, a call may take as long as its run. */
const CALL_MS = 600_000
/** Without dots: the first one in category.tool ends the category, so that a name means one tool. */
const NAME = /^[A-Za-z0-9](?:[\w -]{0,62}[\w-])?$/
/** Set by the client itself, or by fetch. */
const OWN_HEADERS =
  /^(accept|content-type|content-length|connection|host|transfer-encoding|last-event-id|mcp-session-id|mcp-protocol-version)$/i
const FROM_ENVIRONMENT = `secrets come from the environment: write \${…}`

/**
 * Reads the JSON of TOOLS_CONFIG: `{"mcpServers": {"name": {…}}}`. All faults are found at once. References to the environment
 * are resolved in values of env and headers; a server that is disabled only has to have the right shape. `reserved` are
 * the categories that are built in.
 */
export function parseToolServers(
  json: string,
  environment: Environment,
  reserved: readonly string[] = ['files', 'shell', 'web'],
): ToolServers {
  const faults: string[] = []
  const warnings: string[] = []
  const secrets = new Set<string>()
  const servers: McpServerConfig[] = []
  const fault = (path: Path, got: string, right: string) => faults.push(`${shownPath(path)}: got ${got}; ${right}`)
  const result = () => ({ servers, secrets: [...secrets], faults, warnings })

  let root: unknown
  try {
    root = JSON.parse(json.replace(/^\uFEFF/, ''))
  } catch (error) {
    const quotes = json.startsWith("'") ? ', without quotes around it' : ''
    faults.push(`the JSON can not be read${position(json, error)}; give {"mcpServers": {"name": {…}}}${quotes}`)
    return result()
  }
  const configured = isObject(root) ? root['mcpServers'] : undefined
  if (isObject(root)) warnUnknown(root, ['mcpServers'], [])
  if (!isObject(root) || !isObject(configured)) {
    const path = isObject(root) ? ['mcpServers'] : []
    fault(
      path,
      shownWhole(isObject(root) ? configured : root),
      'give an object of servers, {"mcpServers": {"name": {…}}}',
    )
    return result()
  }
  for (const [name, server] of Object.entries(configured)) readServer(name, server)
  return result()

  function readServer(name: string, server: unknown): void {
    const path: Path = ['mcpServers', name]
    if (!NAME.test(name)) {
      fault(path, shown(name), 'give a name of at most 64 letters, digits, spaces, "_" and "-"')
    } else if (reserved.includes(name)) {
      fault(path, shown(name), 'give another name: this one is a category that is built in')
    }
    if (!isObject(server)) {
      fault(path, shownWhole(server), 'give an object with "command" or "url"')
      return
    }
    const type = server['type']
    if (type !== undefined && !TYPES.includes(type as string)) {
      const sse = type === 'sse' ? ' (servers that have only the older SSE transport are not supported)' : ''
      fault([...path, 'type'], shown(type), `give "stdio" or "http"${sse}`)
      return
    }
    const http = type === undefined ? server['url'] !== undefined : type !== 'stdio'
    if (server['command'] !== undefined && server['url'] !== undefined) {
      fault(path, 'both "command" and "url"', 'give one of them')
      return
    }
    const before = faults.length
    const parsed = http ? check(httpShape, server, path) : check(stdioShape, server, path)
    if (parsed === null || parsed.disabled === true) return
    const field = http ? 'headers' : 'env'
    const given = ('command' in parsed ? parsed.env : parsed.headers) ?? {}
    const values = readValues(given, parsed.secretEnv ?? [], [...path, field], path, http)
    if ('url' in parsed) checkUrl(parsed.url, [...path, 'url'])
    if (faults.length > before) return
    servers.push({
      name,
      description: parsed.description?.split('\n')[0]?.trim() || `tools of the MCP server ${name}`,
      connection:
        'command' in parsed
          ? { kind: 'stdio', command: parsed.command, args: parsed.args ?? [], env: values, cwd: parsed.cwd ?? null }
          : { kind: 'http', url: parsed.url, headers: values },
      timeoutMs: parsed.timeoutMs ?? CALL_MS,
      startTimeoutMs: parsed.startTimeoutMs ?? 10_000,
      maxConcurrent: parsed.maxConcurrent ?? 8,
      consent: {
        allow: parsed.allow ?? null,
        deny: parsed.deny ?? [],
        ask: parsed.ask ?? [],
        free: parsed.free ?? [],
      },
    })
  }

  function check<T extends typeof httpShape | typeof stdioShape>(shape: T, server: object, path: Path) {
    warnUnknown(server, Object.keys(shape.shape), path)
    for (const [key, value] of Object.entries(server)) {
      if (key === 'env' || key === 'headers') continue
      if (JSON.stringify(value)?.includes('${')) {
        warnings.push(`${shownPath([...path, key])}: \${…} is replaced in values of env and headers only, not here`)
      }
    }
    const parsed = shape.safeParse(server)
    if (parsed.success) return parsed.data as z.output<T>
    for (const issue of parsed.error.issues) {
      const at = issue.path.map(part => (typeof part === 'number' ? part : String(part)))
      const secret = at[0] === 'env' || at[0] === 'headers'
      fault([...path, ...at], secret ? kindOf(valueAt(server, at)) : shown(valueAt(server, at)), issue.message)
    }
    return null
  }

  function readValues(given: Record<string, string>, declared: readonly string[], at: Path, path: Path, http: boolean) {
    const values: Record<string, string> = {}
    const isDeclared = (name: string) => declared.some(one => sameName(one, name, http))
    for (const [name, template] of Object.entries(given)) {
      const here = [...at, name]
      const expanded = expand(template, environment)
      const hidden = `a value of ${template.length} characters (not shown)`
      for (const right of expanded.faults) fault(here, hidden, right)
      if (http ? !/^[\w!#$%&'*+.^`|~-]+$/.test(name) || OWN_HEADERS.test(name) : !/^[A-Za-z_]\w*$/.test(name)) {
        fault(here, shown(name), http ? 'give the name of a header that the client does not set itself' : RIGHT_NAME)
      }
      if (/[\0\r\n]/.test(http ? expanded.value : expanded.value.replace(/[\r\n]/g, ''))) {
        fault(here, hidden, http ? 'give a value of one line' : 'give a value without NUL characters')
      }
      if (holdsLiteralSecret(name, expanded.literals)) fault(here, hidden, FROM_ENVIRONMENT)
      else if (isDeclared(name) && expanded.fromEnvironment.length === 0 && expanded.faults.length === 0) {
        fault(here, `${hidden}, which secretEnv declares a secret`, FROM_ENVIRONMENT)
      }
      for (const { variable, value } of isDeclared(name) ? expanded.fromEnvironment : []) {
        if (value.length >= SECRET_CHARS_MIN) for (const secret of withLines(value)) secrets.add(secret)
        else {
          const right = `a secret has to have at least ${SECRET_CHARS_MIN} characters, or it can not be masked`
          fault(here, `${value.length} characters from the variable ${variable}`, right)
        }
      }
      for (const secret of [...secretsIn(expanded), ...literalSecretsIn(name, expanded.literals)]) secrets.add(secret)
      values[name] = expanded.value
    }
    for (const [index, name] of declared.entries()) {
      if (Object.keys(given).some(one => sameName(one, name, http))) continue
      fault([...path, 'secretEnv', index], shown(name), `give a name that stands in ${http ? 'headers' : 'env'}`)
    }
    return values
  }

  function checkUrl(value: string, path: Path): void {
    for (const [name, literal] of new URL(value).searchParams) {
      if (holdsLiteralSecret(name, [literal])) {
        fault(path, `a URL with a ${shown(name)} of ${literal.length} characters (not shown)`, SECRET_IN_URL)
      }
    }
  }

  function warnUnknown(object: object, known: readonly string[], path: Path): void {
    for (const key of Object.keys(object)) {
      if (known.includes(key)) continue
      const [near] = nearest(key, known)
      const meant = near === undefined ? '' : `; did you mean ${near}?`
      warnings.push(`${shownPath([...path, key])} is not known here and has no effect${meant}`)
    }
  }
}

const RIGHT_NAME = 'give the name of an environment variable: letters, digits and _'
const SECRET_IN_URL = `secrets come from the environment: put it into headers and write \${…}`

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function sameName(a: string, b: string, http: boolean): boolean {
  return http ? a.toLowerCase() === b.toLowerCase() : a === b
}

function valueAt(root: unknown, path: Path): unknown {
  let value: unknown = root
  for (const part of path) value = (value as Record<string | number, unknown> | undefined)?.[part]
  return value
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? 'a list' : value === null ? 'null' : `a value of the type ${typeof value}`
}

/** As JSON, cut. */
function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value)
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS).toWellFormed()}…` : text
}

/** Of what should have been an object: all of a configuration may be in it, with values that are secrets. */
function shownWhole(value: unknown): string {
  const text = shown(value)
  return text.length > 16 ? kindOf(value) : text
}

/** mcpServers.files.args[1]; names that are no words in brackets and quotes. */
function shownPath(path: Path): string {
  if (path.length === 0) return 'TOOLS_CONFIG'
  return path
    .map(part => {
      if (typeof part === 'number') return `[${part}]`
      return /^[\w-]+$/.test(part) ? `.${part}` : `[${shown(part)}]`
    })
    .join('')
    .replace(/^\./, '')
}

/** Line and column; never the text around them, which the engine's own message quotes and which may be a secret. */
function position(json: string, error: unknown): string {
  const at = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1]
  if (at === undefined) return ''
  const lines = json.slice(0, Number(at)).split('\n')
  return ` at line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`
}
