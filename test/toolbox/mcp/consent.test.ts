import { expect, test } from 'vitest'
import { consentOf, unmatchedGlobs } from '../../../src/toolbox/mcp/consent.js'

const none = { allow: null, deny: [], ask: [], free: [] }

test.each([
  [{}, 'free'],
  [{ readOnlyHint: true }, 'free'],
  [{ readOnlyHint: true, destructiveHint: true }, 'free'],
  [{ readOnlyHint: false }, 'ask'],
  [{ readOnlyHint: false, destructiveHint: false }, 'free'],
  [{ destructiveHint: true }, 'ask'],
  [{ destructiveHint: false }, 'free'],
  [{ destructiveHint: 'yes' }, 'free'],
])('annotations %j mean %s', (annotations, consent) => {
  expect(consentOf(none)('t', annotations)).toBe(consent)
})

test('the configuration goes before annotations, and the stricter list before the other', () => {
  const of = consentOf({ allow: ['*_file', 'x/*', 'a.b'], deny: ['rm_*'], ask: ['read_*', 'rm_*'], free: ['*'] })
  const destructive = { destructiveHint: true }
  expect(
    ['rm_file', 'list', 'read_file', 'write_file', 'x/y/z', 'a.b', 'axb'].map(name => of(name, destructive)),
  ).toEqual(['deny', 'deny', 'ask', 'free', 'free', 'free', 'deny'])
  expect(consentOf({ ...none, allow: [] })('any', {})).toBe('deny')
  expect(consentOf({ ...none, ask: ['!(read_*)'] })('write', {})).toBe('ask')
  expect(consentOf({ ...none, ask: ['!(read_*)'] })('read_x', {})).toBe('free')
})

test('what restricts fits the name that code uses as well, what allows and what negates the exact one alone', () => {
  expect(consentOf({ ...none, deny: ['get_sum'] })('get-sum', {})).toBe('deny')
  expect(consentOf({ ...none, ask: ['get_*'] })('get-sum', {})).toBe('ask')
  expect(consentOf({ ...none, allow: ['get_sum'] })('get-sum', {})).toBe('deny')
  expect(consentOf({ ...none, free: ['get_sum'] })('get-sum', { destructiveHint: true })).toBe('ask')
  expect(consentOf({ ...none, ask: ['!(get-*)'] })('get-sum', {})).toBe('free')
})

test('globs that fit no tool are told, with the exact name where the other one was given', () => {
  const globs = { allow: ['get_sum', 'e*'], deny: ['get_env', 'rm'], ask: ['!(echo)'], free: ['Echo'] }
  expect(unmatchedGlobs(globs, ['get-sum', 'get-env', 'echo'])).toEqual([
    'allow: "get_sum" fits no tool; the exact name is "get-sum"',
    'deny: "rm" fits no tool',
    'free: "Echo" fits no tool',
  ])
})
