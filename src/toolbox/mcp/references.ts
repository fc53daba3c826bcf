/** `${NAME}` and `${NAME:-default}` in values of TOOLS_CONFIG. */

export type Environment = Readonly<Record<string, string | undefined>>

export interface Expanded {
  readonly value: string
  /** What came from the environment, piece by piece, with the variable it came from. */
  readonly fromEnvironment: readonly { readonly variable: string; readonly value: string }[]
  /** What is written in the configuration itself: the text around the references, and the defaults. */
  readonly literals: readonly string[]
  /** Sentences, worded to follow "got …; ". */
  readonly faults: readonly string[]
}

const REFERENCE = /\$\{([A-Za-z_]\w*)(:-([^}]*))?\}/g

/** Replaces the references. An empty variable counts as one that is not set, as everywhere in the worker's configuration. */
export function expand(template: string, environment: Environment): Expanded {
  const fromEnvironment: { variable: string; value: string }[] = []
  const literals: string[] = []
  const faults: string[] = []
  let value = ''
  let end = 0
  const literal = (text: string) => {
    if (text.includes('${')) faults.push(`a reference is written \${NAME} or \${NAME:-default}`)
    if (text !== '') literals.push(text)
    value += text
  }
  for (const match of template.matchAll(REFERENCE)) {
    literal(template.slice(end, match.index))
    end = match.index + match[0].length
    const variable = match[1] ?? ''
    const found = environment[variable]
    if (found !== undefined && found !== '') {
      fromEnvironment.push({ variable, value: found })
      value += found
    } else if (match[2] !== undefined) {
      if (match[3]) literals.push(match[3])
      value += match[3] ?? ''
    } else {
      faults.push(`the variable ${variable} is not set: set it, or write \${${variable}:-default}`)
    }
  }
  literal(template.slice(end))
  return { value, fromEnvironment, literals, faults }
}
