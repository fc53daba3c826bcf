import { describe, expect, test } from 'vitest'
import {
  answer,
  broken,
  busy,
  declined,
  notRun,
  outcomeWithoutRun,
  rejected,
} from '../../../src/tool/outcome-without-run.js'
import { context } from './fixtures.js'

describe('an outcome of which nothing ran', () => {
  test.each([
    ['rejected', rejected(context, 'no such tool'), 'rejected', /^no such tool$/],
    ['declined', declined(context), 'declined', /^\[declined, not run/],
    ['busy', busy(context), 'interrupted', /^\[busy, not run, safe to retry/],
    [
      'kept from starting',
      notRun(context, 'interrupted', 'a drain'),
      'interrupted',
      /^\[interrupted: a drain; not run, safe to retry\]$/,
    ],
    ['cancelled', notRun(context, 'cancelled', 'stopped'), 'cancelled', /^\[cancelled: stopped; not run\]$/],
    [
      'asked for',
      outcomeWithoutRun(context, 'needs_confirmation', 'A person is asked.'),
      'needs_confirmation',
      /asked/,
    ],
    ['without words', outcomeWithoutRun(context, 'rejected', ' '), 'rejected', /^\[rejected: not run\]$/],
    ['with bad text', rejected(context, 'a\0\ud800'), 'rejected', /^a\u2400\ufffd$/],
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
    const outcome = declined(context, { code: '', queueMs: 5 })
    expect(outcome.usage.queue_ms).toBe(5)
    expect(outcome.provenance['code_sha256']).toMatch(/^e3b0c44298fc1c14/)
  })
})

test.each([
  [true, /^\[interrupted: it failed; the code may have run in part\]$/],
  [false, /^\[interrupted: it failed; not run, safe to retry\]$/],
])('a failure of the worker says the same in words and in provenance: started %s', (started, content) => {
  const outcome = broken(context, 'it failed', started)
  expect(outcome).toMatchObject({ status: 'interrupted', content: expect.stringMatching(content) })
  expect(outcome.provenance['started']).toBe(started)
})

describe('answer', () => {
  test('posts the text of an outcome', () => {
    const outcome = rejected(context, 'no')
    const { provenance } = outcome
    expect(answer(outcome)).toEqual({ kind: 'answer', content: 'no', provenance, dollars: 0, outcome })
  })

  test('puts the text before the parts', () => {
    const png = { m_type: 'image/png', m_content: 'aGk=' }
    const reply = answer({ ...rejected(context, 'no'), parts: [png] })
    expect(reply).toMatchObject({ content: [{ m_type: 'text', m_content: 'no' }, png] })
  })
})
