import type { Duplex } from 'node:stream'
import { type Frame, FrameDecoder, packFrame, packJson } from './frames.js'

const DRAINED = ['drain', 'close', 'error'] as const

/** Frames over one stream to a process of the sandbox. `onEnd` comes exactly once, whatever ended it. */
export class Channel {
  readonly #stream: Duplex
  #onFrame: (frame: Frame) => void = () => {}
  #onEnd: () => void = () => {}
  #ended = false

  constructor(stream: Duplex) {
    this.#stream = stream
    const decoder = new FrameDecoder()
    stream.on('data', (chunk: Buffer) => {
      let frames: Frame[]
      try {
        frames = decoder.feed(chunk)
      } catch {
        stream.destroy() // a malformed frame: the process at the other end can't be trusted any more
        return
      }
      for (const frame of frames) this.#onFrame(frame)
    })
    const end = () => {
      if (this.#ended) return
      this.#ended = true
      this.#onEnd()
    }
    stream.on('error', end)
    stream.on('close', end)
    stream.on('end', end)
  }

  get ended(): boolean {
    return this.#ended
  }

  /** Frames that came before are not lost: call it in the turn in which the channel was handed over. */
  listen(onFrame: (frame: Frame) => void, onEnd: () => void): void {
    this.#onFrame = onFrame
    this.#onEnd = onEnd
    if (this.#ended) onEnd()
  }

  sendJson(value: unknown): void {
    if (!this.#ended) this.#stream.write(packJson(value))
  }

  send(type: string, payload: Uint8Array): void {
    if (!this.#ended) this.#stream.write(packFrame(type, payload))
  }

  /** JSON and a frame that belongs to it, in one piece: the other end wakes up once. */
  sendJsonAnd(value: unknown, type: string, payload: Uint8Array): void {
    if (!this.#ended) this.#stream.write(Buffer.concat([packJson(value), packFrame(type, payload)]))
  }

  /** Resolves when the other end has taken what was sent so far, but for a little; or the channel has ended. */
  drained(): Promise<void> {
    if (this.#ended || !this.#stream.writableNeedDrain) return Promise.resolve()
    return new Promise(resolve => {
      const done = () => {
        for (const event of DRAINED) this.#stream.off(event, done)
        resolve()
      }
      for (const event of DRAINED) this.#stream.on(event, done)
    })
  }

  destroy(): void {
    this.#stream.destroy()
  }
}
