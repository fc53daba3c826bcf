import { z } from 'zod'
import type { Part } from '../outcome.js'

const part = z.strictObject({ m_type: z.string().min(1), m_content: z.string() })
const provenanceSchema = z.looseObject({ system: z.string().min(1) })

/** What was read, or what is wrong with it. */
export type Checked<T> = { readonly value: T } | { readonly fault: string }

/**
 * `ftm_content` parsed, or what is wrong with it: JSON text of a string or of an array of parts, docs/protocol.md, "Answering". Refuses
 * U+0000 and lone surrogates, which a database behind a real backend does not store.
 */
export function parseContent(text: string): Checked<string | readonly Part[]> {
  const parsed = parseJson(text)
  if (parsed === undefined) return { fault: 'ftm_content is not JSON' }
  if (typeof parsed === 'string') {
    return storable(parsed) ? { value: parsed } : { fault: 'ftm_content holds U+0000 or a lone surrogate' }
  }
  const parts = z.array(part).min(1).safeParse(parsed)
  if (!parts.success) return { fault: 'ftm_content is neither a string nor an array of {m_type, m_content}' }
  if (parts.data.some(({ m_type, m_content }) => !storable(m_type) || !storable(m_content))) {
    return { fault: 'ftm_content holds U+0000 or a lone surrogate' }
  }
  return { value: parts.data }
}

export function parseProvenance(text: string): Checked<Readonly<Record<string, unknown>>> {
  const parsed = provenanceSchema.safeParse(parseJson(text))
  return parsed.success
    ? { value: parsed.data }
    : { fault: 'ftm_provenance is not the JSON of an object with a `system`' }
}

function storable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed()
}

/** undefined where it does not parse: no JSON text means that. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
