import { describe, expect, test } from 'vitest'
import { makeOutcome } from '../../../src/tool/make-outcome.js'
import {
  answer,
  broken,
  busy,
  CALLED_NOTHING,
  declined,
  notRun,
  outcomeWithoutRun,
  rejected,
  stranded,
} from '../../../src/tool/outcome-without-run.js'
import { captured, context, reportOf } from './fixtures.js'

const ARGS = { code: '1', timeout_seconds: null }

describe('an outcome of which nothing ran', () => {
  test.each([
    ['rejected', rejected(context, 'no such tool', CALLED_NOTHING), 'rejected', /^no such tool$/],
    ['declined', declined(context, CALLED_NOTHING), 'declined', /^\[declined, not run/],
    ['busy', busy(context, CALLED_NOTHING), 'interrupted', /^\[busy, not run, safe to retry/],
    [
      'kept from starting',
      notRun(context, 'interrupted', 'a drain', CALLED_NOTHING),
      'interrupted',
      /^\[interrupted: a drain; not run, safe to retry\]$/,
    ],
    [
      'cancelled',
      notRun(context, 'cancelled', 'stopped', CALLED_NOTHING),
      'cancelled',
      /^\[cancelled: stopped; not run\]$/,
    ],
    [
      'asked for',
      outcomeWithoutRun(context, 'needs_confirmation', 'A person is asked.'),
      'needs_confirmation',
      /asked/,
    ],
    ['without words', outcomeWithoutRun(context, 'rejected', ' '), 'rejected', /^\[rejected: not run\]$/],
    ['with bad text', rejected(context, 'a\0\ud800', CALLED_NOTHING), 'rejected', /^a\u2400\ufffd$/],
  ])('is complete and free of charge when %s', (_what, outcome, status, content) => {
    expect(outcome).toMatchObject({
      status,
      content: expect.stringMatching(content),
      dollars: 0,
      exit_code: null,
      parts: null,
      stdout: { text: '', bytes_total: 0, bytes_kept: 0, truncated: false },
      provenance: { system: 'python_service', status, started: false, code_sha256: null },
    })
  })

  test('tells the hash of the code and the time in the queue where they are known', () => {
    const outcome = declined(context, CALLED_NOTHING, { code: '', queueMs: 5 })
    expect(outcome.usage.queue_ms).toBe(5)
    expect(outcome.provenance['code_sha256']).toMatch(/^e3b0c44298fc1c14/)
  })
})

test.each([
  [true, /^\[interrupted: it failed; the code may have run in part\]$/],
  [false, /^\[interrupted: it failed; not run, safe to retry\]$/],
])('a failure of the worker says the same in words and in provenance: started %s', (started, content) => {
  const outcome = broken(context, 'it failed', started, CALLED_NOTHING)
  expect(outcome).toMatchObject({ status: 'interrupted', content: expect.stringMatching(content) })
  expect(outcome.provenance['started']).toBe(started)
})

describe('a call whose code has called tools before a person was asked', () => {
  const sent = { tool: 'mail.send', ok: true, ms: 1, args_preview: '{}', error: null, bytes: 2, dollars: 0.5 }
  const called = { calls: [sent], isWhole: true }

  test.each([
    ['rejected', rejected(context, 'no such argument', called), 'interrupted', /^no such argument\n\[interrupted; /],
    ['declined', declined(context, called), 'declined', /^\[declined: .*had run in part/],
    ['busy', busy(context, called), 'interrupted', /^\[interrupted: too many calls are waiting; the code may/],
    ['kept from going on', notRun(context, 'interrupted', 'a drain', called), 'interrupted', /a drain; the code may/],
    ['cancelled', notRun(context, 'cancelled', 'stopped', called), 'cancelled', /stopped; the code may/],
    ['lost', broken(context, 'it failed', false, called), 'interrupted', /it failed; the code may/],
  ])('is never said not to have run, and has its ledger: %s', (_what, outcome, status, content) => {
    expect(outcome).toMatchObject({
      status,
      content: expect.stringMatching(content),
      tool_calls: [sent],
      dollars: 0.5,
      provenance: { status, started: true, tool_calls: [sent] },
    })
    expect(outcome.content).toContain('[tool calls made before the end: mail.send ok]')
    expect(outcome.content).not.toMatch(/not run|safe to retry/)
  })

  test.each([
    ['declined', declined(context, { calls: [], isWhole: false })],
    ['busy', busy(context, { calls: [], isWhole: false })],
  ])('is not said so either where nothing more is known of them: %s', (_what, outcome) => {
    expect(outcome.provenance['started']).toBe(true)
    expect(outcome.content).toContain('[it called tools of which nothing is known any more]')
    expect(outcome.content).not.toMatch(/not run|safe to retry/)
  })

  test('keeps what it printed where the person can not be asked', () => {
    const report = reportOf({ stdout: captured('sent 3\n') })
    const ran = makeOutcome({ ...context, report, args: ARGS, wallMs: 1, queueMs: 0, notes: [], toolCalls: [sent] })
    const outcome = stranded(ran, 'nobody is there')
    expect(outcome.content).toBe(
      'sent 3\n[interrupted: nobody is there; the code may have run in part]\n[tool calls made before the end: mail.send ok]',
    )
    expect(outcome).toMatchObject({ status: 'interrupted', provenance: { status: 'interrupted', started: true } })
    const image = { m_type: 'image/png', m_content: 'aGk=' }
    const shown = stranded({ ...ran, parts: [{ m_type: 'text', m_content: ran.content }, image] }, 'nobody is there')
    expect(shown.parts).toEqual([{ m_type: 'text', m_content: outcome.content }, image])
  })
})

describe('answer', () => {
  test('posts the text of an outcome', () => {
    const outcome = rejected(context, 'no', CALLED_NOTHING)
    const { provenance } = outcome
    expect(answer(outcome)).toEqual({ kind: 'answer', content: 'no', provenance, dollars: 0, outcome })
  })

  test('posts the parts where there are any', () => {
    const parts = [
      { m_type: 'text', m_content: 'no' },
      { m_type: 'image/png', m_content: 'aGk=' },
    ]
    expect(answer({ ...rejected(context, 'no', CALLED_NOTHING), parts })).toMatchObject({ content: parts })
  })
})
