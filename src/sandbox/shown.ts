import { z } from 'zod'
import type { CollectedFile, SandboxReport } from '../outcome.js'
import { ShownParts } from '../shown-parts.js'
import type { Redactor } from '../telemetry/redactor.js'
import { visible } from './capture.js'
import type { CollectRoom } from './collected.js'
import { parseJson } from './listener.js'

/** What comes before the bytes of an image or the text, on a line of its own: core/stage.py. */
const Head = z.object({
  kind: z.enum(['image', 'text', 'value', 'saved', 'left_out']),
  name: z.string().max(500),
  /** Of an image, or of one that was shown before: digests of the files that hold the same picture. */
  saved: z.array(z.string().max(64)).max(16).default([]),
  /** Of what is left out: the rest of a sentence that begins with its name. */
  reason: z.string().max(1_000).default(''),
})

const HEAD_MOST_BYTES = 80_000
/** The guest cuts its own texts; one that was forged ends here. */
const VALUE_TEXT_MOST = 51_000

/** What the code of one run shows besides its text. All of it is bytes that the code could have forged, for itself alone. */
export class Shown {
  readonly parts: ShownParts
  /** What is shown in the place of the last expression's repr, such as the table of a DataFrame. */
  valueText: string | null = null
  readonly #redactor: Redactor | undefined

  readonly #room: CollectRoom | undefined
  #held = 0

  /** room: what images of all runs may take while these go on. */
  constructor(redactor?: Redactor, room?: CollectRoom) {
    this.#redactor = redactor
    this.#room = room
    this.parts = new ShownParts({ take: bytes => this.#take(bytes) })
  }

  #take(bytes: number): boolean {
    if (this.#room?.take(bytes) === false) return false
    this.#held += bytes
    return true
  }

  /** Takes one frame of the guest. One that makes no sense is passed over. */
  hear(payload: Buffer): void {
    const lineEnd = payload.subarray(0, HEAD_MOST_BYTES).indexOf(0x0a)
    if (lineEnd < 0) return
    const head = Head.safeParse(parseJson(payload.subarray(0, lineEnd)))
    if (!head.success) return
    const { kind, saved } = head.data
    const name = this.#clean(head.data.name)
    const rest = payload.subarray(lineEnd + 1)
    switch (kind) {
      case 'image':
        this.parts.image({ name, bytes: rest, savedAs: saved })
        return
      case 'text':
        this.parts.text(name, this.#clean(rest.toString('utf8')))
        return
      case 'value': {
        const text = this.#clean(rest.toString('utf8'))
        if (text.length <= VALUE_TEXT_MOST) this.valueText ??= text
        return
      }
      case 'saved':
        this.parts.savedAs(name, saved)
        return
      case 'left_out':
        this.parts.leaveOut(name, this.#clean(head.data.reason))
    }
  }

  /** Images among the files that the run made, after all that the code has shown by itself. */
  files(files: readonly CollectedFile[]): void {
    for (const { path, mime, content, why } of files) {
      if (!mime.startsWith('image/') || mime === 'image/svg+xml') continue
      const name = this.#clean(path)
      if (content !== null) this.parts.image({ name, bytes: content })
      else if (why !== null && !this.parts.shows(name)) this.parts.leaveOut(name, `can not be shown: ${why}`)
    }
  }

  /** For the report; to be asked for when all that may be shown is there. Gives its room back: an answer does not stay for long. */
  report(): Pick<SandboxReport, 'shown' | 'valueText'> {
    this.#room?.give(this.#held)
    this.#held = 0
    const { parts, images, leftOut } = this.parts
    return { shown: { parts, images, leftOut }, valueText: this.valueText }
  }

  #clean(text: string): string {
    return visible(this.#redactor === undefined ? text : this.#redactor.mask(text)).toWellFormed()
  }
}
