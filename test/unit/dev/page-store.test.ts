import { describe, expect, it } from 'vitest'
import { type Action, EMPTY, lacksDetail, type PageState, reduce, shownCall } from '../../../src/dev/page/store.js'
import type { CallSummary } from '../../../src/dev/page-protocol.js'

const call = (streamed: number): CallSummary => ({
  id: 'c',
  state: 'running',
  status: null,
  thread: 't',
  createdAt: 0,
  endedAt: null,
  streamed,
  deliveries: 1,
  approval: null,
  approved: null,
  dollars: null,
  title: 'code',
})
const seen = (streamed: number): Action => ({
  type: 'message',
  now: 0,
  message: { type: 'call', call: call(streamed) },
})
const delta = (at: number, text: string): Action => ({
  type: 'message',
  now: 0,
  message: { type: 'delta', id: 'c', at, text },
})
const detail = (output: string): Action => ({
  type: 'detail',
  detail: { id: 'c', arguments: '{}', output, content: null, provenance: null },
})

/** What the page shows of the call after each of these, and whether it then asks for more. */
function shownAfter(...actions: Action[]): [output: string | undefined, lacks: boolean][] {
  let state: PageState = EMPTY
  return actions.map(action => {
    state = reduce(state, action)
    const known = shownCall(state)
    return [known?.output, known !== null && lacksDetail(known)]
  })
}

describe('the output of a call', () => {
  it('goes on with what came while its beginning was asked for', () => {
    expect(shownAfter(seen(3), delta(3, 'd'), delta(4, 'ef'), detail('abcd'), delta(6, 'g'))).toEqual([
      ['', true],
      ['', true],
      ['', true],
      ['abcdef', false],
      ['abcdefg', false],
    ])
  })

  it('is asked for again where another gap has come meanwhile', () => {
    expect(shownAfter(seen(1), delta(1, 'b'), seen(4), delta(4, 'e'), detail('ab'), detail('abcd')).slice(4)).toEqual([
      ['ab', true],
      ['abcde', false],
    ])
  })

  it('has nothing twice that came twice', () => {
    expect(
      shownAfter(seen(0), delta(0, 'ab'), detail(''), delta(1, 'bc'), delta(0, 'a'), detail('abc')).at(-1),
    ).toEqual(['abc', false])
  })
})
