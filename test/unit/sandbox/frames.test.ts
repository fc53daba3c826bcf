import { describe, expect, it } from 'vitest'
import { FRAME, FrameDecoder, packFrame, packJson } from '../../../src/sandbox/frames.js'

const plain = (frames: readonly { type: string; payload: Buffer }[]) =>
  frames.map(({ type, payload }) => [type, payload.toString('latin1')])

const STREAM = Buffer.concat([
  packFrame(FRAME.stdout, Buffer.from('hello')),
  packFrame(FRAME.value, Buffer.alloc(0)),
  packJson({ event: 'started' }),
])
const EXPECTED = [
  ['O', 'hello'],
  ['V', ''],
  ['J', '{"event":"started"}'],
]

describe('FrameDecoder', () => {
  it('gives the same frames wherever the stream is cut in two', () => {
    for (let cut = 0; cut <= STREAM.length; cut++) {
      const decoder = new FrameDecoder()
      const frames = [...decoder.feed(STREAM.subarray(0, cut)), ...decoder.feed(STREAM.subarray(cut))]
      expect(plain(frames), `cut at ${cut}`).toEqual(EXPECTED)
    }
  })

  it('gives the same frames when every byte comes alone', () => {
    const decoder = new FrameDecoder()
    const frames = [...STREAM].flatMap(byte => decoder.feed(Buffer.from([byte])))
    expect(plain(frames)).toEqual(EXPECTED)
  })

  it('gives all frames of one chunk in their order', () => {
    const many = Array.from({ length: 500 }, (_, n) => packFrame(FRAME.stderr, Buffer.from(String(n))))
    const frames = new FrameDecoder().feed(Buffer.concat(many))
    expect(frames.map(frame => frame.payload.toString())).toEqual(many.map((_, n) => String(n)))
  })

  it('keeps the beginning of a frame until the rest comes', () => {
    const decoder = new FrameDecoder()
    const frame = packFrame(FRAME.stdout, Buffer.from('abc'))
    expect(decoder.feed(Buffer.concat([frame, frame.subarray(0, 6)]))).toHaveLength(1)
    expect(plain(decoder.feed(frame.subarray(6)))).toEqual([['O', 'abc']])
  })

  it('refuses a length that none of our processes sends as soon as the header is there', () => {
    const header = Buffer.alloc(5)
    header.writeUInt32LE(64 * 1024 * 1024 + 1)
    header.write('O', 4)
    expect(() => new FrameDecoder().feed(header)).toThrow(RangeError)
  })

  it('waits for a payload of just the largest length', () => {
    const header = Buffer.alloc(5)
    header.writeUInt32LE(64 * 1024 * 1024)
    header.write('O', 4)
    expect(new FrameDecoder().feed(header)).toEqual([])
  })
})
