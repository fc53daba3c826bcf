import picomatch from 'picomatch'
import { z } from 'zod'

/**
 * The kinds of variable. Each turns the text of one environment variable into its value, or refuses it with a message that
 * completes "got …; " by saying what would be right. No message quotes the value: the report does, where it is no secret.
 * All are optional; `.default()` gives the value of an unset one where that depends on no other variable.
 */
const field = <T>(right: string, parse: (text: string) => T | undefined) =>
  z
    .string()
    .transform((text, context): T => {
      const value = parse(text)
      if (value !== undefined) return value
      context.addIssue({ code: 'custom', message: right })
      return z.NEVER
    })
    .optional()

/** A whole number in plain digits. `unit` is read in a sentence: "milliseconds", "MiB". */
export function whole(unit: string, min: number, max: number) {
  return field(`give a whole number of ${unit} from ${min} to ${max}`, text => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    return value >= min && value <= max ? value : undefined
  })
}

/** A TCP port, 0 for any that is free; null where there is to be none. */
export function port() {
  return field('give a port from 0 (any that is free) to 65535, or off', text => {
    if (text.toLowerCase() === 'off') return null
    const value = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
    return value <= 65_535 ? value : undefined
  })
}

export function mebibytes(min: number, max: number) {
  return whole('MiB', min, max).transform(value => (value === undefined ? undefined : value * 1024 * 1024))
}

export function dollars() {
  return field('give a price in dollars from 0 to 1000, such as 0.00005 or 5e-5', text => {
    const value = /^\d*\.?\d+(e-?\d{1,2})?$/i.test(text) ? Number(text) : Number.NaN
    return value >= 0 && value <= 1_000 ? value : undefined
  })
}

export function flag() {
  return field('give true or false (1, 0, yes, no work too)', text => {
    switch (text.toLowerCase()) {
      case 'true':
      case '1':
      case 'yes':
        return true
      case 'false':
      case '0':
      case 'no':
        return false
      default:
        return undefined
    }
  })
}

export function choice<const T extends string>(...words: readonly T[]) {
  return field(`give one of ${words.join(', ')}`, text => words.find(word => word === text.toLowerCase()))
}

export function matching(pattern: RegExp, right: string) {
  return field(right, text => (pattern.test(text) ? text : undefined))
}

/** An http or https URL without query, fragment or user; comes back with exactly one slash at its end. */
export function httpUrl(right: string, accepts: (url: URL) => boolean = () => true) {
  return field(right, text => {
    const url = URL.canParse(text) ? new URL(text) : null
    if (!url || !/^https?:$/.test(url.protocol) || !/^https?:\/\//i.test(text)) return undefined
    if (/[?#]/.test(text) || url.username !== '' || url.password !== '' || !accepts(url)) return undefined
    return url.href.replace(/\/*$/, '/')
  })
}

/** Dotted Python module names, comma-separated; "none" is the empty list, since an empty variable counts as unset. */
export function moduleNames() {
  return field('give Python module names with commas between them, such as numpy,matplotlib.pyplot, or none', text => {
    if (text.toLowerCase() === 'none') return []
    const names = text
      .split(',')
      .map(name => name.trim())
      .filter(name => name !== '')
    return names.every(name => /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(name)) ? [...new Set(names)] : undefined
  })
}

/** A word alone, such as `shell`, fits no category.tool: who denies it means shell.*, and would have denied nothing. */
function mayFitTool(glob: string): boolean {
  if (!/^[^\s,]{1,200}$/.test(glob) || !/[.*?[({!]/.test(glob)) return false
  try {
    picomatch(glob, { strictBrackets: true })
    return true
  } catch {
    return false
  }
}

/** Globs over category.tool, comma-separated; "none" is the empty list, and the word `all`, where there is one, null. */
export function toolGlobs(all?: string) {
  const right = `give globs over category.tool with commas between them, such as web.*,github.list_*, or none${all === undefined ? '' : `, or ${all}`}`
  return field<readonly string[] | null>(right, text => {
    if (text.toLowerCase() === all) return null
    if (text.toLowerCase() === 'none') return []
    const globs = text
      .split(',')
      .map(glob => glob.trim())
      .filter(glob => glob !== '')
    return globs.every(mayFitTool) ? [...new Set(globs)] : undefined
  })
}
