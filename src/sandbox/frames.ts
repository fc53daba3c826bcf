/**
 * Frames between the worker and the processes of the sandbox: 4-byte little-endian length of the payload, 1-byte type,
 * payload. python/core/frames.py is the other end. What a guest could have touched is data to check.
 */

export const FRAME = {
  json: 'J',
  code: 'C',
  stdout: 'O',
  stderr: 'E',
  stdoutTail: 'o',
  stderrTail: 'e',
  value: 'V',
  shown: 'D',
  request: 'T',
  answer: 'R',
  input: 'w',
  inputBytes: 'b',
  inputsEnd: 'z',
  content: 'f',
} as const

const HEADER_BYTES = 5
const MAX_PAYLOAD_BYTES = 64 * 1024 * 1024

export interface Frame {
  readonly type: string
  readonly payload: Buffer
}

export function packFrame(type: string, payload: Uint8Array): Buffer {
  const frame = emptyFrame(type, payload.byteLength)
  frame.set(payload, HEADER_BYTES)
  return frame
}

/** The beginning of a frame, whose payload is sent by itself. */
export function packHead(type: string, payloadBytes: number): Buffer {
  const head = Buffer.allocUnsafe(HEADER_BYTES)
  head.writeUInt32LE(payloadBytes, 0)
  head.writeUInt8(type.charCodeAt(0), 4)
  return head
}

export function packJson(value: unknown): Buffer {
  const text = JSON.stringify(value)
  const frame = emptyFrame(FRAME.json, Buffer.byteLength(text))
  frame.write(text, HEADER_BYTES)
  return frame
}

/** From the pool of small buffers: one of its own for each header costs more than the rest of a frame. */
function emptyFrame(type: string, payloadBytes: number): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payloadBytes)
  frame.writeUInt32LE(payloadBytes, 0)
  frame.writeUInt8(type.charCodeAt(0), 4)
  return frame
}

/** Cuts a stream of bytes into frames. Throws RangeError on a payload over 64 MiB, which none of our processes sends. */
export class FrameDecoder {
  #chunks: Buffer[] = []
  #length = 0

  feed(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    const frames: Frame[] = []
    for (;;) {
      if (this.#length < HEADER_BYTES) return frames
      const head = this.#chunks[0]
      if (head === undefined) return frames
      if (head.length < HEADER_BYTES) this.#join()
      const first = this.#chunks[0] ?? head
      const size = first.readUInt32LE(0)
      if (size > MAX_PAYLOAD_BYTES) throw new RangeError(`a frame of ${size} bytes is over the limit`)
      if (this.#length < HEADER_BYTES + size) return frames
      this.#join()
      const all = this.#chunks[0] ?? first
      frames.push({
        type: String.fromCharCode(all.readUInt8(4)),
        payload: all.subarray(HEADER_BYTES, HEADER_BYTES + size),
      })
      const rest = all.subarray(HEADER_BYTES + size)
      this.#chunks = rest.length > 0 ? [rest] : []
      this.#length = rest.length
    }
  }

  #join(): void {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)]
  }
}
