import { ExactNumber, exactJson } from '../exact-json.js'
import { type Json, type ToolEntry, ToolFailure, type ToolSource } from './tool-entry.js'

type Mask = (text: string) => string

/**
 * A source whose answers, failures and descriptions come with the worker's secrets masked: a tool that shows what it was started
 * with gives the code nothing that it could take apart and get past the masking of what it prints. Entries stay the
 * same as long as the source's do.
 */
export function maskedSource(source: ToolSource, mask: Mask): ToolSource {
  const entries = new WeakMap<ToolEntry, ToolEntry>()
  const lists = new WeakMap<readonly ToolEntry[], readonly ToolEntry[]>()
  const entryOf = (entry: ToolEntry) => {
    const known = entries.get(entry) ?? maskedEntry(entry, mask)
    entries.set(entry, known)
    return known
  }
  return {
    category: source.category,
    description: source.description,
    async tools(signal) {
      const tools = await source.tools(signal)
      // By its name a tool is called: one that holds a secret can't be masked.
      const known = lists.get(tools) ?? tools.filter(({ name }) => mask(name) === name).map(entryOf)
      lists.set(tools, known)
      return known
    },
    get problem() {
      return source.problem === null ? null : mask(source.problem)
    },
    get isReady() {
      return source.isReady ?? true
    },
    close: () => source.close(),
  }
}

function maskedEntry(entry: ToolEntry, mask: Mask): ToolEntry {
  const { description, parameters, returns, call } = entry
  return {
    ...entry,
    description: mask(description),
    parameters: masked(parameters, mask),
    ...(returns === undefined ? {} : { returns: masked(returns, mask) }),
    ...(call === undefined ? {} : { call: maskedCall(call.bind(entry), mask) }),
  }
}

function maskedCall(call: NonNullable<ToolEntry['call']>, mask: Mask): NonNullable<ToolEntry['call']> {
  return async (args, context) => {
    try {
      const result = await call(args, context)
      return { ...result, value: masked<Json>(result.value, mask) }
    } catch (error) {
      throw error instanceof ToolFailure ? new ToolFailure(mask(error.message), error.isLost) : error
    }
  }
}

/** A value of JSON with the secrets in its texts, names and numbers masked; the value itself where there are none. */
export function masked<T>(value: T, mask: Mask): T {
  // As one text first: a large answer is nearly always clean, and may have a million small texts.
  const json = exactJson(value)
  return mask(json) === json ? value : (maskedIn(value, mask) as T)
}

function maskedIn(value: unknown, mask: Mask): unknown {
  if (typeof value === 'string') return mask(value)
  if (typeof value === 'number' || value instanceof ExactNumber) {
    const text = value instanceof ExactNumber ? value.text : String(value)
    const shown = mask(text)
    return shown === text ? value : shown
  }
  if (Array.isArray(value)) return value.map(one => maskedIn(one, mask))
  if (typeof value !== 'object' || value === null) return value
  // Not by assignment: a name may be __proto__.
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [mask(name), maskedIn(one, mask)]))
}
