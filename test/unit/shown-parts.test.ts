import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { IMAGES_MOST, ShownParts } from '../../src/shown-parts.js'
import { chunk, jpeg, png } from '../support/images.js'

const named = (n: number) => ({ name: `figure ${n}`, bytes: png(10, 10 + n) })
const textOf = (text: string) => ({ m_type: 'text', m_content: text })

describe('the parts that a run shows', () => {
  test('are images and texts in the order shown', () => {
    const shown = new ShownParts()
    shown.text('display 1', 'first')
    expect(shown.image({ name: 'figure 1', bytes: png() })).toEqual({
      part: { m_type: 'image/png', m_content: png().toString('base64') },
    })
    shown.text('display 2', 'second')
    shown.image({ name: 'photo', bytes: jpeg() })
    expect(shown.parts.map(part => part.m_type)).toEqual(['text', 'image/png', 'text', 'image/jpeg'])
    expect(shown.images).toBe(2)
    expect(shown.leftOut).toEqual([])
  })

  test('join texts that follow each other', () => {
    const shown = new ShownParts()
    shown.text('1', 'a')
    shown.text('2', 'b')
    expect(shown.parts).toEqual([textOf('a\nb')])
  })

  test(`hold at most ${IMAGES_MOST} images, wherever they come from, and name the others`, () => {
    const shown = new ShownParts()
    for (let n = 1; n <= IMAGES_MOST; n++) expect(shown.image(named(n))).toHaveProperty('part')
    const left = { name: 'plot.png', reason: 'beyond the 8 images that are shown' }
    expect(shown.image({ ...named(9), name: 'plot.png' })).toEqual(left)
    expect(shown.leftOut).toEqual([left])
    expect(shown.images).toBe(IMAGES_MOST)
  })

  test('hold so many bytes of images at most, and of what is left out none', () => {
    const shown = new ShownParts()
    const large = (n: number) => {
      const small = png(10, 10 + n)
      const comment = chunk('tEXt', Buffer.alloc(3_000_000))
      return { name: `${n}.png`, bytes: Buffer.concat([small.subarray(0, -12), comment, small.subarray(-12)]) }
    }
    for (const n of [1, 2, 3]) shown.image(large(n))
    expect(shown.image(named(4))).toHaveProperty('part')
    expect(shown.images).toBe(3)
    expect(shown.leftOut).toEqual([
      { name: '3.png', reason: 'beyond the 8 MB of images that are shown: make them smaller' },
    ])
  })

  test('show the same picture once: the same bytes, or those of a file to which a figure was saved', () => {
    const shown = new ShownParts()
    const digest = createHash('sha256').update(png(9, 9)).digest('hex')
    shown.image({ name: 'figure 1', bytes: png(), savedAs: [digest] })
    expect(shown.image({ name: 'copy.png', bytes: png() })).toEqual({ same: 'figure 1' })
    expect(shown.image({ name: 'b.png', bytes: png(9, 9) })).toEqual({ same: 'figure 1' })
    expect(shown.image({ name: 'b.png', bytes: png(8, 8) })).toHaveProperty('part')
    const later = createHash('sha256').update(png(7, 7)).digest('hex')
    shown.image({ name: 'figure 1', bytes: png(), savedAs: [later] })
    expect(shown.image({ name: 'c.png', bytes: png(7, 7) })).toEqual({ same: 'figure 1' })
    expect(shown.leftOut).toEqual([])
  })

  test('do not count what could not be shown', () => {
    const shown = new ShownParts()
    for (let n = 0; n < IMAGES_MOST; n++) shown.image({ name: `${n}.gif`, bytes: Buffer.from('GIF89a') })
    expect(shown.image(named(1))).toHaveProperty('part')
  })

  test.each([
    ['no pixels', png(0, 5, { pixels: false }), 'is 0 x 5 pixels: there is nothing to be seen'],
    [
      'too wide a side',
      png(8_001, 1, { pixels: false }),
      /^is 8001 x 1 pixels, and at most 8000 on a side .*make it smaller$/,
    ],
    ['too many pixels', png(8_000, 8_000, { pixels: false }), /40 million in all/],
    [
      'too many bytes',
      Buffer.concat([png(), Buffer.alloc(3_750_000)]),
      /^has 37500\d\d bytes, and at most 3750000 can be shown/,
    ],
    ['no image', Buffer.from('x'), /save it as PNG or JPEG$/],
  ])('leave out what has %s, and say so', (_what, bytes, reason) => {
    const shown = new ShownParts()
    expect(shown.image({ name: 'a.png', bytes })).toEqual({ name: 'a.png', reason: expect.stringMatching(reason) })
    expect(shown.parts).toEqual([])
    expect(shown.leftOut).toHaveLength(1)
  })

  test('hold a bounded amount of text', () => {
    const shown = new ShownParts()
    shown.text('1', 'x'.repeat(49_000))
    shown.text('2', 'y'.repeat(1_001))
    shown.text('3', 'z'.repeat(1_000))
    expect(shown.parts).toEqual([textOf(`${'x'.repeat(49_000)}\n${'z'.repeat(1_000)}`)])
    expect(shown.leftOut).toEqual([
      { name: '2', reason: 'is longer than what is left of the 50000 characters of text that are shown' },
    ])
  })

  test('list the first forty that were left out, and count the others', () => {
    const shown = new ShownParts()
    for (let n = 0; n < 50; n++) shown.leaveOut(`${n}`, 'is broken')
    expect(shown.leftOut).toHaveLength(41)
    expect(shown.leftOut.at(-1)).toEqual({ name: '10 more', reason: 'for such reasons' })
  })
})
