import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { CollectRoom } from '../../../src/sandbox/collected.js'
import { Shown } from '../../../src/sandbox/shown.js'
import { Redactor } from '../../../src/telemetry/redactor.js'
import { png } from '../../support/images.js'

const frame = (head: unknown, rest: string | Buffer = '') =>
  Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), Buffer.from(rest as string)])

const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

describe('what a run shows', () => {
  test('is heard in its order', () => {
    const shown = new Shown()
    shown.hear(frame({ kind: 'text', name: 'display 1' }, 'a\0\nb'))
    shown.hear(frame({ kind: 'image', name: 'figure 1', saved: [digest(png(3, 3))] }, png()))
    shown.hear(frame({ kind: 'left_out', name: 'figure 2', reason: 'could not be drawn' }))
    expect(shown.report()).toEqual({
      valueText: null,
      shown: {
        parts: [
          { m_type: 'text', m_content: 'a\u2400\nb' },
          { m_type: 'image/png', m_content: png().toString('base64') },
        ],
        images: 1,
        leftOut: [{ name: 'figure 2', reason: 'could not be drawn' }],
      },
    })
    shown.hear(frame({ kind: 'saved', name: 'figure 1', saved: [digest(png(5, 5))] }))
    for (const bytes of [png(3, 3), png(5, 5)]) {
      expect(shown.parts.image({ name: 'plot.png', bytes })).toEqual({ same: 'figure 1' })
    }
  })

  test('has one text in the place of the value, of bounded length', () => {
    const shown = new Shown()
    shown.hear(frame({ kind: 'value', name: 'value' }, 'x'.repeat(60_000)))
    shown.hear(frame({ kind: 'value', name: 'value' }, 'first'))
    shown.hear(frame({ kind: 'value', name: 'value' }, 'second'))
    expect(shown.report().valueText).toBe('first')
  })

  test.each([
    ['an empty frame', Buffer.alloc(0)],
    ['no line', Buffer.from('{"kind":"text","name":"a"}')],
    ['no JSON', Buffer.from('{kind\nx')],
    ['no object', Buffer.from('[]\nx')],
    ['an unknown kind', frame({ kind: 'video', name: 'a' })],
    ['a name that is none', frame({ kind: 'text', name: { a: 1 } })],
    ['a name without end', frame({ kind: 'text', name: 'a'.repeat(501) })],
    ['many files', frame({ kind: 'image', name: 'a', saved: Array(17).fill('a') }, png())],
    ['bytes that are none of JSON', Buffer.from([0xff, 0xfe, 0x0a, 0x00])],
  ])('is nothing where it is forged: %s', (_what, payload) => {
    const shown = new Shown()
    shown.hear(payload)
    expect(shown.report()).toEqual({ valueText: null, shown: { parts: [], images: 0, leftOut: [] } })
  })

  test('has its secrets masked, and half a character repaired', () => {
    const shown = new Shown(new Redactor(['hunter2-hunter2']))
    shown.hear(frame({ kind: 'text', name: 'a' }, Buffer.from('the hunter2-hunter2 \xff', 'latin1')))
    shown.hear(frame({ kind: 'value', name: 'hunter2-hunter2' }, 'hunter2-hunter2'))
    shown.hear(frame({ kind: 'left_out', name: 'hunter2-hunter2', reason: 'hunter2-hunter2' }))
    expect(shown.report()).toMatchObject({
      valueText: '[redacted]',
      shown: {
        parts: [{ m_content: 'the [redacted] \ufffd' }],
        leftOut: [{ name: '[redacted]', reason: '[redacted]' }],
      },
    })
  })

  test('holds no more images than all runs have room for, and gives the room back with its report', () => {
    const room = new CollectRoom(png().length + png(3, 3).length)
    const one = new Shown(undefined, room)
    one.hear(frame({ kind: 'image', name: 'figure 1' }, png()))
    one.hear(frame({ kind: 'image', name: 'figure 1' }, png()))
    const other = new Shown(undefined, room)
    other.hear(frame({ kind: 'image', name: 'figure 1' }, png(3, 3)))
    other.hear(frame({ kind: 'image', name: 'figure 2' }, png(4, 4)))
    const reason = 'can not be shown: the worker had no memory for it just then'
    expect(one.report().shown).toMatchObject({ images: 1, leftOut: [] })
    expect(other.report().shown).toMatchObject({ images: 1, leftOut: [{ name: 'figure 2', reason }] })
    expect(room.take(png().length + png(3, 3).length)).toBe(true)
  })
})
