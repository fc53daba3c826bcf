import type { Channel } from './channel.js'
import { FRAME, packFrame, packHead } from './frames.js'

/** What the code of a run may ask of the worker: its requests are bytes that the code chose. */
export interface GuestCalls {
  /** For the library in the guest, JSON. */
  readonly options: { readonly [name: string]: unknown }
  /**
   * `answer` sends bytes to the code, at most once, and resolves when the code has read them or will not any more. Resolves when
   * nothing of the request is kept any more: no more than a few are passed on before that. Never rejects.
   */
  request(payload: Buffer, answer: (payload: Buffer) => Promise<void>): Promise<void>
  /** The run is over: nobody reads answers any more, and nothing may be begun. */
  end(): void
}

const CHUNK_BYTES = 256 * 1024
/** What may be on its way to a guest; relay.py holds it until the guest reads. */
const WINDOW_BYTES = 4 * CHUNK_BYTES
/**
 * What relay.py passes on of a run's requests before it hears that some are done with. What code sends and never reads the answers of
 * so stays in its own pipe, where it waits, and not in the worker.
 */
const REQUESTS_MOST = 256
const REQUESTS_MOST_BYTES = 8 * 1024 * 1024
/** The warden hears of an eighth of it at once: most runs are over before. */
const TOLD_REQUESTS = REQUESTS_MOST / 8
const TOLD_BYTES = REQUESTS_MOST_BYTES / 8

/** The requests of one run, on their way from its warden, and the answers on their way back. */
export class GuestRequests {
  readonly #channel: Channel
  readonly #calls: GuestCalls
  readonly #answers: AnswerStream
  #open = 0
  #openBytes = 0
  #done = 0
  #doneBytes = 0
  #ended = false

  constructor(channel: Channel, calls: GuestCalls) {
    this.#channel = channel
    this.#calls = calls
    this.#answers = new AnswerStream(channel)
  }

  /** False: the warden passed on more than it may. */
  hear(payload: Buffer): boolean {
    if (this.#ended) return true
    const bytes = payload.length
    if (this.#open >= REQUESTS_MOST || this.#openBytes + bytes > REQUESTS_MOST_BYTES) return false
    this.#open++
    this.#openBytes += bytes
    // A small part of what was read at once would keep all of it.
    const own = bytes * 2 < payload.buffer.byteLength ? Buffer.from(payload) : payload
    void this.#calls.request(own, data => this.#answers.send(data)).then(() => this.#finished(bytes))
    return true
  }

  /** The guest has read so much of the answers. */
  took(bytes: number): void {
    this.#answers.took(bytes)
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#answers.end()
    this.#calls.end()
  }

  #finished(bytes: number): void {
    this.#done++
    this.#doneBytes += bytes
    if (this.#ended || (this.#done < TOLD_REQUESTS && this.#doneBytes < TOLD_BYTES)) return
    this.#open -= this.#done
    this.#openBytes -= this.#doneBytes
    this.#channel.sendJson({ op: 'heard', requests: this.#done, bytes: this.#doneBytes })
    this.#done = 0
    this.#doneBytes = 0
  }
}

/** Sends answers to a guest, no faster than it reads them, so that nothing piles up in the warden. */
class AnswerStream {
  readonly #channel: Channel
  readonly #waiting: { bytes: Buffer; readonly sent: () => void }[] = []
  #onTheWay = 0
  #ended = false

  constructor(channel: Channel) {
    this.#channel = channel
  }

  send(payload: Buffer): Promise<void> {
    if (this.#ended) return Promise.resolve()
    return new Promise(sent => {
      if (payload.length <= CHUNK_BYTES) {
        this.#waiting.push({ bytes: packFrame(FRAME.answer, payload), sent })
      } else {
        // Large ones are not copied: they may have to wait for long.
        this.#waiting.push({ bytes: packHead(FRAME.answer, payload.length), sent: () => {} }, { bytes: payload, sent })
      }
      this.#flush()
    })
  }

  took(bytes: number): void {
    this.#onTheWay = Math.max(0, this.#onTheWay - bytes)
    this.#flush()
  }

  end(): void {
    this.#ended = true
    for (const { sent } of this.#waiting.splice(0)) sent()
  }

  #flush(): void {
    for (;;) {
      const next = this.#waiting[0]
      const room = WINDOW_BYTES - this.#onTheWay
      if (next === undefined || room <= 0) return
      const chunk = next.bytes.subarray(0, Math.min(CHUNK_BYTES, room))
      next.bytes = next.bytes.subarray(chunk.length)
      this.#onTheWay += chunk.length
      this.#channel.send(FRAME.answer, chunk)
      if (next.bytes.length > 0) continue
      this.#waiting.shift()
      next.sent()
    }
  }
}
