const TOGETHER = 256

/**
 * Bytes that come in pieces and are wanted as one: a piece of a byte costs a byte or two here, not the hundreds of a Buffer of its own,
 * since whoever sends chooses how small they are.
 */
export class Pieces {
  /** Each of many pieces. */
  #whole: Uint8Array[] = []
  #loose: Uint8Array[] = []
  #bytes = 0

  get bytes(): number {
    return this.#bytes
  }

  add(piece: Uint8Array): void {
    this.#bytes += piece.length
    if (this.#loose.push(piece) < TOGETHER) return
    this.#whole.push(Buffer.concat(this.#loose))
    this.#loose = []
  }

  /** All of them; none is left. A single one is not copied. */
  take(): Buffer {
    const all = [...this.#whole, ...this.#loose]
    this.#whole = []
    this.#loose = []
    this.#bytes = 0
    const [only] = all
    if (only === undefined || all.length > 1) return Buffer.concat(all)
    return Buffer.from(only.buffer, only.byteOffset, only.byteLength)
  }
}
