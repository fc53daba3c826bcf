import { z } from 'zod'
import { mebibytes } from '../../quantities.js'
import { type Json, ToolFailure } from '../tool-entry.js'
import { nestsDeeperThan } from './nesting.js'

/** Decoded size of one image or sound. */
const DATA_MAX_BYTES = 8 * 1024 * 1024
/** Python's own json refuses somewhat less than 1 000. */
const LEVELS_MAX = 500
const FAILURE_CHARS = 32_000

/** The result of `tools/call`. Its blocks are looked at loosely: they are handed on as they were sent. */
export const CALL_RESULT = z.looseObject({
  content: z.array(z.looseObject({ type: z.string() })).default([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional(),
})

/**
 * What the calling code gets: the structured content where there is some; the string of a single text block; null where there is
 * nothing; else the list of blocks, dictionaries with "type", as they were sent. Throws ToolFailure where the tool
 * says that it failed, and for what is too large or too deep.
 */
export function resultValue(result: z.output<typeof CALL_RESULT>): Json {
  const { content, structuredContent } = result
  if (result.isError === true) throw new ToolFailure(failureText(content))
  if (nestsDeeperThan(LEVELS_MAX, result)) {
    throw new ToolFailure(`the result is nested more than ${LEVELS_MAX} levels deep, which is not taken`, true)
  }
  if (structuredContent !== undefined && structuredContent !== null) return structuredContent as Json
  for (const block of content) {
    const bytes = typeof block['data'] === 'string' ? Math.floor((block['data'].length * 3) / 4) : 0
    if (bytes <= DATA_MAX_BYTES) continue
    throw new ToolFailure(
      `the result holds a block of the type ${block.type} with ${mebibytes(bytes)}; at most ${mebibytes(DATA_MAX_BYTES)} are taken`,
      true,
    )
  }
  const [only] = content
  if (only === undefined) return null
  if (content.length === 1 && only.type === 'text' && typeof only['text'] === 'string') return only['text']
  return content as readonly Json[]
}

function failureText(content: z.output<typeof CALL_RESULT>['content']): string {
  const text = content.flatMap(block => (typeof block['text'] === 'string' ? [block['text']] : [])).join('\n')
  if (text.trim() === '') return 'the tool failed and does not say why'
  return text.length > FAILURE_CHARS ? `${text.slice(0, FAILURE_CHARS).toWellFormed()}…` : text
}
