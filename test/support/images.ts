import { crc32, deflateSync } from 'node:zlib'

/** A PNG file of one colour, of which only the header says how large it is when `pixels` is false. */
export function png(width = 2, height = 2, { pixels = true, fill = 0 } = {}): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 0, 0, 0, 0], 8)
  const rows = deflateSync(pixels ? Buffer.alloc((width + 1) * height, fill) : Buffer.alloc(1))
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    chunk('IDAT', rows),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

export function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const around = Buffer.alloc(8)
  around.writeUInt32BE(data.length, 0)
  around.writeUInt32BE(crc32(named), 4)
  return Buffer.concat([around.subarray(0, 4), named, around.subarray(4)])
}

/** What stands around the picture of a JPEG file. */
export function jpeg(width = 2, height = 2, { marker = 0xc0 } = {}): Buffer {
  const frame = Buffer.from([0xff, marker, 0, 11, 8, 0, 0, 0, 0, 1, 1, 0x11, 0])
  frame.writeUInt16BE(height, 5)
  frame.writeUInt16BE(width, 7)
  const application = Buffer.from([0xff, 0xe0, 0, 4, 1, 2])
  const scan = Buffer.from([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x55, 0xff, 0x00])
  return Buffer.concat([Buffer.from([0xff, 0xd8]), application, frame, scan, Buffer.from([0xff, 0xd9])])
}
