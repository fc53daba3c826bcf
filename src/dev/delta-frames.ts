import { z } from 'zod'
import type { ToolCall } from '../backend/protocol.js'
import { parseJson } from './answer-format.js'

const frameSchema = z.strictObject({
  ftm_belongs_to_ft_id: z.string(),
  ftm_alt: z.int(),
  ftm_num: z.int(),
  ftm_prev_alt: z.int(),
  delta: z.strictObject({ ftm_role: z.literal('tool'), ftm_content: z.string().min(1), ftm_call_id: z.string() }),
})

/** One frame of the delta websocket, or why no front end could use it. docs/protocol.md, "Streaming deltas". */
export function readDeltaFrame(
  text: string,
  find: (fcallId: string) => ToolCall | null,
): { readonly fcallId: string; readonly text: string } | { readonly fault: string } {
  const parsed = frameSchema.safeParse(parseJson(text))
  if (!parsed.success) {
    const fields = parsed.error.issues.map(issue => issue.path.join('.') || issue.message)
    return { fault: `not a delta frame: ${fields.join(', ')}` }
  }
  const frame = parsed.data
  const call = find(frame.delta.ftm_call_id)
  if (call === null) return { fault: `no such call: ${frame.delta.ftm_call_id}` }
  const there =
    frame.ftm_belongs_to_ft_id === call.fcall_ft_id &&
    frame.ftm_alt === call.fcall_ftm_alt &&
    frame.ftm_num === call.fcall_result_ftm_num &&
    frame.ftm_prev_alt === call.fcall_ftm_alt
  if (!there) return { fault: `the coordinates are not those of ${call.fcall_id}` }
  if (!frame.delta.ftm_content.isWellFormed()) return { fault: `half a character for ${call.fcall_id}` }
  return { fcallId: call.fcall_id, text: frame.delta.ftm_content }
}
