import { describe, expect, test } from 'vitest'
import { imageHeader } from '../../src/image-header.js'
import { chunk, jpeg, png } from '../support/images.js'

const SIGNATURE = png().subarray(0, 8)
const without = (bytes: Buffer, from: number) => bytes.subarray(0, from)
const changed = (bytes: Buffer, at: number, value: number) => {
  const copy = Buffer.from(bytes)
  copy[at] = value
  return copy
}

describe('the header of an image', () => {
  test.each([
    ['a PNG', png(640, 480), { mime: 'image/png', width: 640, height: 480 }],
    ['a JPEG', jpeg(640, 480), { mime: 'image/jpeg', width: 640, height: 480 }],
    ['a progressive JPEG', jpeg(9, 7, { marker: 0xc2 }), { mime: 'image/jpeg', width: 9, height: 7 }],
    [
      'a JPEG with padding behind it',
      Buffer.concat([jpeg(), Buffer.alloc(9)]),
      { mime: 'image/jpeg', width: 2, height: 2 },
    ],
    [
      'a PNG that claims to be large',
      png(2 ** 31 - 1, 1, { pixels: false }),
      { mime: 'image/png', width: 2 ** 31 - 1, height: 1 },
    ],
  ])('gives kind and size of %s', (_what, bytes, header) => {
    expect(imageHeader(bytes)).toEqual(header)
  })

  test.each([
    ['nothing', Buffer.alloc(0), 'is empty'],
    ['text', Buffer.from('<html>'), 'is no image that is known here: save it as PNG or JPEG'],
    ['a GIF', Buffer.from('GIF89a....'), 'is a GIF image: save it as PNG or JPEG'],
    ['a WebP', Buffer.from('RIFF....WEBPVP8 '), 'is a WebP image: save it as PNG or JPEG'],
    ['a PNG of its signature alone', SIGNATURE, 'is a PNG file that is cut off'],
    ['a PNG without its last byte', without(png(), -1), 'is a PNG file that is cut off'],
    ['a PNG without its end', without(png(), -12), 'is a PNG file that is cut off'],
    ['a PNG with a wrong checksum', changed(png(), 29, 1), 'is a damaged PNG file'],
    [
      'a PNG that begins with something else',
      Buffer.concat([SIGNATURE, chunk('tEXt', Buffer.from('a'))]),
      'is a damaged PNG file',
    ],
    [
      'a PNG with an impossible depth',
      Buffer.concat([SIGNATURE, chunk('IHDR', Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 3, 2, 0, 0, 0]))]),
      'is a damaged PNG file',
    ],
    [
      'a PNG without pixels',
      Buffer.concat([png().subarray(0, 33), chunk('IEND', Buffer.alloc(0))]),
      'is a PNG file without pixels',
    ],
    ['a PNG whose chunk claims gigabytes', changed(png(), 33, 0xff), 'is a PNG file that is cut off'],
    ['a JPEG without its end', without(jpeg(), -2), 'is a JPEG file that is cut off'],
    ['a JPEG that ends before the picture', without(jpeg(), 12), 'is a JPEG file that is cut off'],
    ['a JPEG without a size', changed(jpeg(), 9, 0xc4), 'is a damaged JPEG file'],
    ['a JPEG with nonsense between its markers', changed(jpeg(), 8, 7), 'is a damaged JPEG file'],
    ['a JPEG with a marker of no length', changed(jpeg(), 5, 0), 'is a damaged JPEG file'],
  ])('says what is wrong with %s', (_what, bytes, why) => {
    expect(imageHeader(bytes)).toBe(why)
  })

  test('is read to an end, whatever is cut off or changed', () => {
    for (const whole of [png(3, 3), jpeg()]) {
      for (let at = 0; at < whole.length; at++) {
        expect(typeof imageHeader(without(whole, at))).toBe('string')
        for (const value of [0, 1, 0x7f, 0xda, 0xff]) imageHeader(changed(whole, at, value))
      }
    }
  })
})
