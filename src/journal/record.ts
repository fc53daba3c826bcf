import { createHash } from 'node:crypto'
import { z } from 'zod'

const Answer = z.object({
  content: z.string(),
  provenance: z.string(),
  dollars: z.number(),
  asPlaceholder: z.boolean(),
})

/** What a date can hold. */
const time = z.number().min(0).max(8.64e15)

/** One call as it lies on disk, a file of JSON. Times are milliseconds since the epoch. */
const CallRecord = z.object({
  version: z.literal(1),
  key: z.string().min(1),
  state: z.enum(['claimed', 'started', 'asked', 'settled']),
  claimedAt: time,
  /** When it came into its state. */
  since: time,
  call: z.object({
    fcall_id: z.string().min(1),
    // Without it the answer can't be posted; hence the mode of the files.
    fcall_untrusted_key: z.string(),
    connected_persona_id: z.string().nullable(),
    confirmed_by_human: z.boolean().nullable(),
  }),
  /** Tools that its code has called before a person was asked; what they answered is in tools/. */
  toolCalls: z.number().int().min(0).default(0),
  /** Of a settled call, as long as it is not left out to spare memory. */
  answer: Answer.nullable(),
  /** Of the answer's content and provenance, wherever that is. */
  answerBytes: z.number().int().min(0).optional(),
})
export type CallRecord = z.infer<typeof CallRecord>

/** Names of record files; ids are the backend's and may hold anything. */
export function fileNameOf(key: string): string {
  return `${createHash('sha256').update(key).digest('hex')}.json`
}

/** The record that is in a file of this name, or what is wrong with it. */
export function parseRecord(fileName: string, text: string): { record: CallRecord } | { fault: string } {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { fault: 'is no JSON' }
  }
  const parsed = CallRecord.safeParse(value)
  // Paths only: a message may quote what is in the file.
  if (!parsed.success) return { fault: `has a wrong ${parsed.error.issues[0]?.path.join('.') || 'form'}` }
  const record = parsed.data
  if (fileNameOf(record.key) !== fileName) return { fault: 'belongs to another name' }
  if ((record.state === 'settled') !== (record.answer !== null))
    return { fault: 'has an answer and is not settled, or none and is' }
  return { record }
}

/** The answer in the text of a rejected call, or null. */
export function parseAnswer(text: string): CallRecord['answer'] {
  try {
    return z.object({ answer: Answer }).parse(JSON.parse(text)).answer
  } catch {
    return null
  }
}
