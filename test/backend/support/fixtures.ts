import { type Logger, pino } from 'pino'
import type { Credentials } from '../../../src/backend/credentials.js'
import type { ToolCall } from '../../../src/backend/protocol.js'
import type { Sleep } from '../../../src/backend/waiting.js'

export const UNTRUSTED_KEY = 'untrusted-key-7f3a'
export const API_KEY = 'fx-secret-key-91c2'

export function sampleCall(changes: Partial<ToolCall> = {}): ToolCall {
  return {
    caller_fuser_id: 'alice@example.com',
    located_fgroup_id: 'g1',
    ws_id: 'w1',
    fcall_id: 'c1',
    fcall_ft_id: 't1',
    fcall_ft_btest_name: '',
    fcall_fexp_name: 'default',
    fcall_ftm_alt: 100,
    fcall_called_ftm_num: 3,
    fcall_call_n: 0,
    fcall_result_ftm_num: 4,
    fcall_name: 'python_execute',
    fcall_arguments: '{"code":"print(1)"}',
    fcall_created_ts: 1_700_000_000.5,
    fcall_untrusted_key: UNTRUSTED_KEY,
    connected_persona_id: null,
    confirmed_by_human: null,
    ...changes,
  }
}

export interface CapturedLog {
  readonly log: Logger
  /** Every line at every level, parsed. */
  readonly lines: Record<string, unknown>[]
  messages(): string[]
  text(): string
}

export function captureLog(): CapturedLog {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  return { log, lines, messages: () => lines.map(line => String(line['msg'])), text: () => JSON.stringify(lines) }
}

export interface CountedCredentials extends Credentials {
  invalidated: number
}

export function keyCredentials(): CountedCredentials {
  const result: CountedCredentials = {
    invalidated: 0,
    headers: async () => ({ authorization: `Bearer ${API_KEY}`, 'x-flexus-service-name': 'python_execute' }),
    initPayload: async () => ({ apikey: API_KEY, 'x-flexus-service-name': 'python_execute' }),
    invalidate: () => {
      result.invalidated += 1
    },
  }
  return result
}

export interface FakeTime {
  nowMs: number
  /** Every sleep asked for, in milliseconds. */
  readonly slept: number[]
  readonly now: () => number
  readonly sleep: Sleep
}

/** Time that passes only by sleeping: a sleep is over at once, and moves the clock. `holdAfter` sleeps, sleeping hangs until aborted. */
export function fakeTime(holdAfter = Number.POSITIVE_INFINITY): FakeTime {
  const time: FakeTime = {
    nowMs: 0,
    slept: [],
    now: () => time.nowMs,
    sleep: async (ms, signal) => {
      if (signal.aborted) return
      time.slept.push(ms)
      if (time.slept.length > holdAfter) {
        await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
        return
      }
      time.nowMs += ms
      // Lets everything else run, as a real sleep would.
      await new Promise(resolve => setImmediate(resolve))
    },
  }
  return time
}
