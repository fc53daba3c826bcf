import type { Channel } from './channel.js'
import { parseJson } from './listener.js'
import { type GuestExit, ZygoteEvent } from './messages.js'
import type { Template } from './template.js'
import { type LaunchOptions, launch } from './zygote-launch.js'

/** A zygote only waits and forks: one that is silent for so long hangs. */
const PING_EVERY_MS = 2_000
const PONG_WITHIN_MS = 1_000
const OWN_PAUSE_MS = 200
/** Growth of its own memory beyond what it had when it was ready: something leaks into every guest. */
const GROWTH_MOST_BYTES = 64 * 1024 * 1024

/** The end of the interpreter may have been anybody's doing once; a module that is there again when it ends is the cause. */
const DEATHS_MOST = 2

/** Modules by name: with versions, or with the reason why each is not preloaded. */
export interface Preloaded {
  readonly installed: Readonly<Record<string, string>>
  /** Not installed, or broken: tried again with each zygote. */
  readonly missing: Readonly<Record<string, string>>
  /** What no zygote can live with: not to be tried again. */
  readonly unfit: Readonly<Record<string, string>>
  readonly importMs: number
}

export interface ZygoteOptions extends Omit<LaunchOptions, 'id'> {
  /** Left out of `preload` from the start, and said in the result: what was found to be unfit before. */
  readonly unfit: Readonly<Record<string, string>>
  nextId(): number
}

export interface ZygoteHandlers {
  onGuestExit(exit: GuestExit): void
  onNotForked(sandbox: number, message: string): void
  /** It has ended, or was ended because it hung; called once, unless it never was ready. */
  onEnd(reason: string): void
}

/** One zygote process, from its start to its end. python/core/zygote.py is what runs in it. */
export class Zygote {
  /** Why it is no program of its own although that was asked for; null where it is, or was not. */
  notRenewed: string | null = null
  readonly id: number
  readonly preloaded: Preloaded
  /** Guests that were ordered from it. */
  runs = 0
  grown = false
  retired = false
  readonly #template: Template
  readonly #channel: Channel
  #pinger: NodeJS.Timeout | undefined
  /** Sent, and answered: the answers come in the order of the questions. */
  #pings = 0
  #pongs = 0
  #firstRss: number | null = null
  #ended = false
  readonly #onEnd: (reason: string) => void

  private constructor(
    id: number,
    template: Template,
    channel: Channel,
    preloaded: Preloaded,
    handlers: ZygoteHandlers,
  ) {
    this.id = id
    this.#template = template
    this.#channel = channel
    this.preloaded = preloaded
    this.#onEnd = handlers.onEnd
    channel.listen(
      frame => {
        const event = ZygoteEvent.safeParse(parseJson(frame.payload))
        if (!event.success) return
        switch (event.data.event) {
          case 'exit':
            handlers.onGuestExit(event.data)
            return
          case 'not_forked':
            handlers.onNotForked(event.data.sandbox, event.data.message)
            return
          case 'pong':
            this.#pong(event.data.rss_bytes)
            return
          case 'importing':
          case 'ready':
          case 'unfit':
        }
      },
      () => this.end('the zygote has ended'),
    )
    this.#pinger = setInterval(() => this.#ping(), PING_EVERY_MS)
  }

  /**
   * Starts one and waits for its imports. What starts threads when it is imported, keeps descriptors, does not come to an end or
   * ends the interpreter is left out, one module after the other, and said in `preloaded.unfit`.
   *
   * Errors: Error when it ends or hangs in something else than an import.
   */
  static async start(template: Template, options: ZygoteOptions, handlers: ZygoteHandlers): Promise<Zygote> {
    const unfit: Record<string, string> = { ...options.unfit }
    const deaths: Record<string, number> = {}
    for (;;) {
      const id = options.nextId()
      const preload = options.preload.filter(name => !(name in unfit))
      const result = await launch(template, { ...options, id, preload })
      if ('unfit' in result) {
        unfit[result.unfit] = result.why
      } else if ('died' in result) {
        const count = (deaths[result.died] ?? 0) + 1
        deaths[result.died] = count
        if (count >= DEATHS_MOST) unfit[result.died] = 'ends the interpreter when it is imported'
      } else {
        const zygote = new Zygote(id, template, result.channel, { ...result.preloaded, unfit }, handlers)
        zygote.notRenewed = result.notRenewed
        return zygote
      }
    }
  }

  /** It ends by itself when its last guest has ended. */
  retire(): void {
    this.retired = true
    this.#channel.sendJson({ op: 'retire' })
  }

  /** Kills a guest whose warden can no longer do it. */
  killGuest(sandbox: number): void {
    this.#channel.sendJson({ op: 'kill', sandbox })
  }

  kill(): void {
    this.#template.channel.sendJson({ op: 'kill_zygote', zygote: this.id })
  }

  end(reason: string): void {
    if (this.#ended) return
    this.#ended = true
    clearInterval(this.#pinger)
    this.#channel.destroy()
    this.#onEnd(reason)
  }

  #ping(): void {
    this.#channel.sendJson({ op: 'ping' })
    this.#expectPong(++this.#pings)
  }

  /** number: of the ping, since a later one may be on its way by the time that it is asked about. */
  #expectPong(number: number): void {
    const asked = performance.now()
    setTimeout(() => {
      if (performance.now() - asked > PONG_WITHIN_MS + OWN_PAUSE_MS) {
        this.#expectPong(number) // we stood still ourselves, and so perhaps did the machine
        return
      }
      // After a pause of this process its answer may be there and not read yet.
      setImmediate(() => {
        if (this.#pongs >= number || this.#ended) return
        this.kill()
        this.end('the zygote did not answer for 1 s')
      })
    }, PONG_WITHIN_MS).unref()
  }

  #pong(rssBytes: number): void {
    this.#pongs++
    this.#firstRss ??= rssBytes
    this.grown = rssBytes - this.#firstRss > GROWTH_MOST_BYTES
  }
}
