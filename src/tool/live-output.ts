import { createHash, type Hash } from 'node:crypto'

/** What was shown of a run's output before a person was asked: UTF-16 units, UTF-8 bytes, sha256 of the text in hex. */
export interface ShownBefore {
  readonly units: number
  readonly bytes: number
  readonly sha256: string
}

export const AGAIN_NOTE = '\n[the code runs again, as it was approved; its output from the beginning:]\n'

/**
 * What is shown of a run's output while it is printed. Code that a person has approved begins anew; what was shown of it before they
 * were asked is not shown a second time, as whoever watches appends what comes. Where it prints something else, or less, all of it is, below a line that says so.
 */
export class LiveOutput {
  readonly #show: (text: string) => void
  readonly #mostBytes: number
  readonly #hash: Hash = createHash('sha256')
  #units = 0
  #bytes = 0
  /** Not yet known to be repeated. */
  #before: ShownBefore | null
  #held = ''
  #heldBytes = 0
  #isHolding = false

  /** `mostBytes`: what is shown of one run at most; beyond, nothing is kept to be shown. */
  constructor(show: (text: string) => void, mostBytes: number, before: ShownBefore | null = null) {
    this.#show = show
    this.#mostBytes = mostBytes
    this.#before = before !== null && before.units > 0 ? before : null
  }

  push(text: string): void {
    if (this.#isHolding) {
      this.#hold(text)
    } else if (this.#before === null) {
      this.#out(text)
    } else if (this.#before.bytes <= this.#mostBytes) {
      this.#hold(text)
      if (this.#held.length >= this.#before.units) this.#compare(this.#before)
    } // else it was cut, which was said
  }

  /** From now on nothing is shown: what comes is shown by the run that a person approves, or by release(). */
  hold(): void {
    this.#isHolding = true
  }

  /** No more comes, or nobody is asked: what is held is shown. */
  release(): void {
    this.#isHolding = false
    if (this.#held !== '' && this.#before !== null) this.#compare(this.#before)
    else this.#out(this.#taken())
  }

  /** What has been shown so far. */
  get shown(): ShownBefore {
    return { units: this.#units, bytes: this.#bytes, sha256: this.#hash.copy().digest('hex') }
  }

  #hold(text: string): void {
    if (this.#heldBytes > this.#mostBytes) return
    this.#held += text
    this.#heldBytes += Buffer.byteLength(text, 'utf8')
  }

  #compare({ units, sha256 }: ShownBefore): void {
    this.#before = null
    const held = this.#taken()
    const isSame = held.length >= units && sha256Of(held.slice(0, units)) === sha256
    this.#out(isSame ? held.slice(units) : AGAIN_NOTE + held)
  }

  #taken(): string {
    const held = this.#held
    this.#held = ''
    this.#heldBytes = 0
    return held
  }

  #out(text: string): void {
    if (text === '') return
    this.#units += text.length
    this.#bytes += Buffer.byteLength(text, 'utf8')
    this.#hash.update(text, 'utf16le')
    this.#show(text)
  }
}

/** Of the units as they are, so that a cut within a character makes no difference. */
function sha256Of(text: string): string {
  return createHash('sha256').update(text, 'utf16le').digest('hex')
}
