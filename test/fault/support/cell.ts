import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import type { ToolCall } from '../../../src/backend/protocol.js'
import type { EmbeddedBackend } from '../../../src/dev/embedded-backend.js'
import type { Answer } from '../../../src/dev/records.js'
import type { Tally } from './tally.js'

const POST = 'cloudtool_post_result'

/** Where a call can be when something happens to it. */
export const PHASES = [
  /** Pushed while the fault lasts. */
  'before claim',
  /** Claimed, which is on disk; no slot is free. */
  'waiting',
  /** Has printed something and goes on. */
  'running',
  /** The answer is made; the backend answers each post with 503. */
  'finished',
  /** The backend has read the post and has not carried it out. */
  'posting',
  /** The backend has the answer and has not said so. */
  'committed',
  /** The worker knows that the backend has the answer. */
  'posted',
] as const

export type Phase = (typeof PHASES)[number]

/** A worker and its backend, seen from outside. */
export interface Stage {
  readonly backend: EmbeddedBackend
  /** Where the worker's STATE_DIR can be read from here. */
  readonly stateDir: string
  /** Whether the worker has logged this about this call. */
  hasLogged(message: string, fcallId: string): boolean
}

/** Code whose runs can be counted: each prints 16 hex digits of its own, at once. */
export function countedCode(seconds: number): string {
  return `import os, time\nprint(os.urandom(8).hex(), flush=True)\ntime.sleep(${seconds})\nprint("ended")`
}

const LONG_ENOUGH_MS = 20_000

/**
 * Brings a call into a phase and lets `strike` happen to it there. `strike` begins the fault before its first await, and is over
 * when the wire is whole again. The call is in one slot; with the phase `waiting` the worker must have one slot only.
 */
async function strikeIn(
  phase: Phase,
  { backend, stateDir, hasLogged }: Stage,
  strike: () => Promise<void>,
  runSeconds: number,
): Promise<ToolCall> {
  const push = (seconds: number) => backend.pushCode(countedCode(seconds))
  /** Live output is a courtesy: a machine that is busy enough may show none of a short run. Then a longer one is looked at. */
  const pushRunning = async (seconds: number) => {
    for (const longer of [1, 4, 16]) {
      const call = push(seconds * longer)
      await until('running', () => backend.deltas(call.fcall_id).length > 0 || backend.answers.has(call.fcall_id))
      if (!backend.answers.has(call.fcall_id)) return call
    }
    throw new Error('no call could be seen while it ran')
  }
  const until = (what: string, holds: () => boolean) => backend.waitFor(holds, LONG_ENOUGH_MS, () => `not ${what}`)

  switch (phase) {
    case 'before claim': {
      const over = strike()
      const call = push(0)
      await over
      return call
    }
    case 'waiting': {
      // Both at once: a worker whose only slot is taken for a while takes no more calls.
      const first = push(Math.max(2, runSeconds))
      const call = push(0)
      // Before that a worker that dies has never known them, and the next one runs them.
      const isClaimed = ({ fcall_id }: ToolCall) => stateOnDisk(stateDir, fcall_id) !== null
      await until('claimed', () => isClaimed(first) && isClaimed(call))
      await strike()
      return call
    }
    case 'running': {
      const call = await pushRunning(runSeconds)
      await strike()
      return call
    }
    case 'finished': {
      const clear = backend.misbehave({ kind: 'http_status', status: 503 }, { operation: POST })
      const call = push(0)
      await until('finished', () => hasLogged('delivery failed, will be retried', call.fcall_id))
      const over = strike()
      clear()
      await over
      return call
    }
    case 'posting':
    case 'committed': {
      const commit = phase === 'committed'
      backend.misbehave({ kind: 'http_delay', ms: 1_500, commit }, { operation: POST, times: 1 })
      let read = false
      const forget = backend.onEvent(event => {
        read ||= event.type === 'requested' && event.operation === POST
      })
      const call = push(0)
      await until('posting', () => (commit ? backend.answers.has(call.fcall_id) : read))
      forget()
      await strike()
      return call
    }
    case 'posted': {
      const call = push(0)
      await until('posted', () => hasLogged('call handled', call.fcall_id))
      await strike()
      return call
    }
  }
}

/** The state in which the journal has the call on disk; null: in none. */
export function stateOnDisk(stateDir: string, fcallId: string): string | null {
  const folder = path.join(stateDir, 'calls')
  // Not what is being written: that is nothing until it has its name.
  for (const name of readdirSync(folder).filter(name => name.endsWith('.json'))) {
    try {
      const text = readFileSync(path.join(folder, name), 'utf8')
      if (text.includes(fcallId)) return /"state":"(\w+)"/.exec(text)?.[1] ?? null
    } catch {
      // gone meanwhile
    }
  }
  return null
}

/** What the backend has seen of a call. */
export interface Findings {
  /** Null as long as there is no answer. */
  readonly status: unknown
  readonly text: string
  /** How often its code has run, by what it printed: in deltas, in the answer and in what was posted after it. */
  readonly runs: number
  /** Posts after the first that say something else: two answers, of which the backend has kept one. */
  readonly contradictions: readonly string[]
}

export function findingsOf(backend: EmbeddedBackend, call: ToolCall): Findings {
  const posts = backend.answers.get(call.fcall_id) ?? []
  const contents = posts.map(contentOf)
  const printed = [...contents, ...backend.deltas(call.fcall_id).map(delta => delta.text)].join('\n')
  return {
    status: posts[0]?.provenance['status'] ?? null,
    text: contents[0] ?? '',
    runs: new Set(printed.match(/\b[0-9a-f]{16}\b/g)).size,
    contradictions: contents.filter(content => content !== contents[0]),
  }
}

function contentOf(answer: Answer): string {
  return typeof answer.content === 'string' ? answer.content : JSON.stringify(answer.content)
}

/** What an answer to a struck call may say. */
const ENDINGS = {
  ran: { status: 'completed', text: /^[0-9a-f]{16}\nended\n$/, runs: 1 },
  neverStarted: { status: 'interrupted', text: /not run, safe to retry/, runs: 0 },
  cutOff: { status: 'interrupted', text: /may have run in part/, runs: 1 },
  /** Between its start and its first line. */
  cutOffAtOnce: { status: 'interrupted', text: /may have run in part/, runs: 0 },
} as const

export type Ending = keyof typeof ENDINGS

/** The call ended in one of these ways. */
export function expectEnding(findings: Findings, endings: readonly Ending[]): void {
  const { status, text, runs } = findings
  const fitting = endings.filter(name => {
    const ending = ENDINGS[name]
    return ending.status === status && ending.text.test(text) && ending.runs === runs
  })
  expect(findings.contradictions).toEqual([])
  expect(fitting, `wanted ${endings.join(' or ')}, got ${JSON.stringify(findings)}`).toHaveLength(1)
}

export interface CellRun {
  readonly phase: Phase
  readonly stage: Stage
  /** Begins the fault before its first await; over when the wire is whole again and a worker is there. */
  strike(): Promise<void>
  /** How the struck call may have ended. */
  readonly endings: readonly Ending[]
  readonly tally: Tally
  /** For the struck call's answer, and again for the next call's. */
  readonly recoveryMs: number
  /** For how long the code runs that is struck while it runs. */
  readonly runSeconds?: number
}

/**
 * One cell of the grid: a call is struck, is answered once and rightly, its code ran as often as the answer says, the next
 * call is served, and of all other calls that it took none was lost, answered twice or run twice.
 */
export async function runCell(cell: CellRun): Promise<void> {
  const { phase, stage, strike, endings, tally, recoveryMs, runSeconds = 0.7 } = cell
  const { backend } = stage
  const pushed: ToolCall[] = []
  const forget = backend.onEvent(event => {
    if (event.type === 'pushed') pushed.push(event.call)
  })
  try {
    const call = await strikeIn(phase, stage, strike, runSeconds)
    await backend.waitForAnswer(call.fcall_id, recoveryMs)
    const next = backend.pushCode('print("next")')
    await backend.waitForAnswer(next.fcall_id, recoveryMs)
    expect(findingsOf(backend, next).text).toBe('next\n')
    for (const one of pushed) await backend.waitForAnswer(one.fcall_id, recoveryMs)
    // Only now: a second answer, or a second run, would have come by the time that the next call was served.
    expectEnding(findingsOf(backend, call), endings)
    const all = pushed.map(one => findingsOf(backend, one))
    expect(all.flatMap(({ contradictions }) => contradictions)).toEqual([])
    expect(all.filter(({ runs }) => runs > 1)).toEqual([])
  } finally {
    forget()
    tally.count(
      1,
      pushed.map(one => findingsOf(backend, one)),
    )
  }
}
