import { expect, test } from 'vitest'
import { AGAIN_NOTE, LiveOutput, type ShownBefore } from '../../../src/tool/live-output.js'

const MOST = 1_000

function open(before: ShownBefore | null = null) {
  const shown: string[] = []
  const live = new LiveOutput(text => shown.push(text), MOST, before)
  return { live, shown: () => shown.join('') }
}

/** What is on record of a run that showed these pieces and then waited for a person. */
function shownBy(...pieces: string[]): ShownBefore {
  const { live } = open()
  for (const piece of pieces) live.push(piece)
  live.hold()
  live.push('except\n')
  return live.shown
}

test('what was shown before a person was asked is not shown again, however it comes in pieces', () => {
  const { live, shown } = open(shownBy('on', 'e\n', 'tw\ud83d', '\ude00\n'))
  for (const piece of ['o', 'ne\ntw😀', '\nthr']) live.push(piece)
  expect(shown()).toBe('thr')
  live.push('ee\n')
  live.release()
  expect(shown()).toBe('three\n')
})

test('output that is another one the second time is shown from its beginning, and that is said', () => {
  const { live, shown } = open(shownBy('12:00\n'))
  live.push('12:01\nmore\n')
  expect(shown()).toBe(`${AGAIN_NOTE}12:01\nmore\n`)
  live.push('end\n')
  expect(shown()).toBe(`${AGAIN_NOTE}12:01\nmore\nend\n`)
})

test('output that ends earlier the second time is shown when the run ends', () => {
  const { live, shown } = open(shownBy('one\ntwo\n'))
  live.push('one\n')
  expect(shown()).toBe('')
  live.release()
  expect(shown()).toBe(`${AGAIN_NOTE}one\n`)
})

test('a run that prints nothing the second time shows nothing', () => {
  const { live, shown } = open(shownBy('one\n'))
  live.release()
  expect(shown()).toBe('')
})

test('what comes while it is held is shown when nobody is asked', () => {
  const { live, shown } = open()
  live.push('one\n')
  live.hold()
  live.push('two\n')
  expect(shown()).toBe('one\n')
  live.release()
  expect(shown()).toBe('one\ntwo\n')
})

test('after more than is shown of one run nothing more is shown or kept', () => {
  const { live, shown } = open(shownBy('x'.repeat(MOST + 1)))
  live.push('x'.repeat(MOST + 1))
  live.push('end')
  live.release()
  expect(shown()).toBe('')
})
