export type Environment = Readonly<Record<string, string | undefined>>

/** One fault: the variable, and what would be right, worded to follow "got …; " or "not set; ". */
export interface Fault {
  readonly variable: string
  readonly right: string
  /** `right` is a whole sentence, which says what was got: of a variable that holds much, of which one place is wrong. */
  readonly isWhole?: boolean
}

/** Variables whose values are never shown. */
const SECRET_VARIABLES = ['FLEXUS_API_KEY', 'FLEXUS_WS_TICKET', 'TOOLS_WEB_SEARCH_KEY']
/** URLs whose query may hold a key: shown without it. */
const QUERY_VARIABLES = ['TOOLS_WEB_SEARCH_URL']
const SHOWN_CHARS = 80
/** A shorter "secret" is a typing error, and masking it everywhere would only garble the report. */
const MASKED_CHARS_MIN = 6

/** The configuration cannot be used; the message is the whole report, for a person. The process exits with `exitCode`. */
export class ConfigError extends Error {
  /** EX_CONFIG of sysexits.h. */
  readonly exitCode = 78

  constructor(report: string) {
    super(report)
    this.name = 'ConfigError'
  }
}

/** One report of all faults, a line each, then what may explain them (misspelt variables). */
export function configError(faults: readonly Fault[], hints: readonly string[], env: Environment): ConfigError {
  const lines = faults.map(({ variable, right, isWhole = false }) => {
    return `  ${variable}: ${isWhole ? right : `${given(variable, env)}; ${right}`}`
  })
  const title = `The configuration cannot be used (${faults.length === 1 ? '1 error' : `${faults.length} errors`}):`
  return new ConfigError([title, ...lines, ...hints.map(hint => `  Note: ${hint}`)].join('\n'))
}

function given(variable: string, env: Environment): string {
  const value = env[variable]
  if (value === undefined) return 'not set'
  const quote = /^["']/.test(value)
    ? ' that starts with a quote, which docker’s --env-file keeps: leave the quotes out'
    : ''
  if (!SECRET_VARIABLES.includes(variable))
    return `got ${show(withoutQuery(variable, value), env)}${quote === '' ? '' : `, a value${quote}`}`
  return `got a value of ${value.length} ${value.length === 1 ? 'character' : 'characters'} (not shown)${quote}`
}

function withoutQuery(variable: string, value: string): string {
  return QUERY_VARIABLES.includes(variable) ? value.replace(/\?.+/s, '?…') : value
}

/** Quotes a value, bounded, without what a person may have pasted into the wrong variable: keys, tickets, passwords in URLs. */
function show(value: string, env: Environment): string {
  let shown = value
  for (const name of SECRET_VARIABLES) {
    const secret = env[name]
    if (secret !== undefined && secret.length >= MASKED_CHARS_MIN) shown = shown.replaceAll(secret, '[secret]')
  }
  shown = shown.replace(/\bfx-\S+/g, '[secret]').replace(/\/\/[^/?#]*@/g, '//[secret]@')
  const cut = shown.length > SHOWN_CHARS ? `${shown.slice(0, SHOWN_CHARS).toWellFormed()}…` : shown
  return JSON.stringify(cut)
}
