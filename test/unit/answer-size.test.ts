import { expect, it } from 'vitest'
import { answerWithin, shortened } from '../../src/answer-size.js'
import { bytesOf } from '../../src/journal/journal.js'

const rest = (extra: object) => ({
  provenance: JSON.stringify({ system: 'python_execute', status: 'completed', ...extra }),
  dollars: 0,
  asPlaceholder: false,
})

it.each([
  ['short', { tool_calls: ['x'.repeat(1_000)] }, true],
  ['long', { tool_calls: ['x'.repeat(60_000)] }, false],
])('provenance counts in the size of an answer, and is kept where it is %s', (_what, extra, isKept) => {
  const answer = answerWithin(100_000, 'y'.repeat(200_000), rest(extra))
  expect(bytesOf(answer)).toBeGreaterThan(99_000)
  expect(bytesOf(answer)).toBeLessThanOrEqual(100_000)
  expect('tool_calls' in JSON.parse(answer.provenance)).toBe(isKept)
})

it('what takes most of an answer goes first, and when all is short nothing goes', () => {
  const steps: [number, number][] = []
  const whole = answerWithin(1_000_000, 'y'.repeat(100_000), rest({ tool_calls: ['x'.repeat(10_000)] }))
  for (let answer = shortened(whole); answer !== null; answer = shortened(answer)) {
    steps.push([Math.round(answer.content.length / 1_000), Math.round(answer.provenance.length / 1_000)])
  }
  expect(steps).toEqual([
    [25, 10],
    [6, 10],
    [6, 0],
    [2, 0],
  ])
})
