import { describe, expect, it } from 'vitest'
import { Redactor } from '../../../src/telemetry/redactor.js'
import { makeOutcome } from '../../../src/tool/make-outcome.js'
import { broken, CALLED_NOTHING, rejected } from '../../../src/tool/outcome-without-run.js'
import { calledFrom } from '../../../src/toolbox/replay.js'
import type { ToolStep } from '../../../src/toolbox/tool-log.js'
import { captured, context, reportOf } from './fixtures.js'

const SECRET = 'mcp-secret-of-"many"-letters-0123456789'
const redactor = new Redactor([SECRET])
const masking = { ...context, mask: (text: string) => redactor.mask(text) }
const HALF = SECRET.slice(0, 14)
const OTHER_HALF = SECRET.slice(-14)

function expectNone(outcome: unknown): void {
  const text = JSON.stringify(outcome)
  for (const piece of [SECRET, JSON.stringify(SECRET).slice(1, -1), HALF, OTHER_HALF]) expect(text).not.toContain(piece)
  expect(text).toContain('[redacted]')
}

describe('secrets in an outcome', () => {
  const run = { args: { code: 'print(1)', timeout_seconds: null }, wallMs: 1_000, queueMs: 0, notes: [] }

  it('are masked in output, value, file names, notes, reasons, tool calls and provenance', () => {
    const call = { tool: 'a.b', ok: false, ms: 1, args_preview: SECRET, error: `no ${SECRET}`, bytes: 0, dollars: 0 }
    const report = reportOf({
      stdout: captured(`out ${SECRET}`),
      stderr: captured(`err ${SECRET}`),
      value: `'${SECRET}'`,
      files: [{ path: `${SECRET}.txt`, bytes: 1, mime: 'text/plain' }],
      notes: [`a note on ${SECRET}`],
      reason: `for ${SECRET}`,
    })
    const outcome = makeOutcome({ ...masking, ...run, report, toolCalls: [call] })
    expectNone(outcome)
    expect(outcome.content).toContain('out [redacted]')
    expect(outcome.files).toMatchObject([{ path: '[redacted].txt' }])
    expect(outcome.provenance['tool_calls']).toMatchObject([{ args_preview: '[redacted]', error: 'no [redacted]' }])
  })

  it('are masked before a file name or a note is cut', () => {
    for (let before = 60; before < 130; before++) {
      const path = `${'x'.repeat(before)}${SECRET}`
      expectNone(
        makeOutcome({ ...masking, ...run, report: reportOf({ files: [{ path, bytes: 1, mime: 'text/plain' }] }) }),
      )
    }
  })

  it('are masked where nothing ran, and nothing else is touched', () => {
    expectNone(rejected(masking, `there is no argument ${SECRET}`, CALLED_NOTHING))
    const failed = { tool: 'a.b', ok: false, ms: 1, args_preview: '', error: SECRET, bytes: 0, dollars: 0 }
    const called = { calls: [failed], isWhole: true }
    expectNone(broken(masking, `it died with ${SECRET}`, true, called))
    expectNone(rejected(masking, `there is no argument ${SECRET}`, called))
    expect(rejected(masking, 'wrong', CALLED_NOTHING)).toEqual(rejected(context, 'wrong', CALLED_NOTHING))
  })
})

describe('what recorded tool calls were told', () => {
  it('is masked before it is cut', () => {
    for (let before = 450; before < 510; before++) {
      const failure = `${'x'.repeat(before)}${SECRET}`
      const steps: ToolStep[] = [
        { step: 'called', n: 0, tool: 'a.b', hash: '', argsPreview: SECRET },
        { step: 'answered', n: 0, ok: false, ms: 1, bytes: 1, dollars: 0, answer: { failure, isLost: false } },
      ]
      expectNone(calledFrom({ steps, isWhole: true }, masking.mask))
    }
  })
})
