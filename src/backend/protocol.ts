/** One call as the backend delivers it; field names are the wire's. PROTOCOL.md, "Taking calls". */
export interface ToolCall {
  readonly caller_fuser_id: string
  readonly located_fgroup_id: string
  readonly ws_id: string
  readonly fcall_id: string
  readonly fcall_ft_id: string
  readonly fcall_ft_btest_name: string
  readonly fcall_fexp_name: string
  readonly fcall_ftm_alt: number
  readonly fcall_called_ftm_num: number
  readonly fcall_call_n: number
  readonly fcall_result_ftm_num: number
  readonly fcall_name: string
  readonly fcall_arguments: string
  readonly fcall_created_ts: number
  readonly fcall_untrusted_key: string
  readonly connected_persona_id: string | null
  readonly confirmed_by_human: boolean | null
}
