import type { Channel } from './channel.js'
import { parseJson } from './listener.js'
import { type GuestExit, ZygoteEvent } from './messages.js'
import type { Template } from './template.js'

const IMPORT_TIMEOUT_MS = 60_000
/** A connection that was made before the end may be seen after it. */
const CONNECT_BEHIND_MS = 250
/** A zygote only waits and forks: one that is silent for so long hangs. */
const PING_EVERY_MS = 2_000
const PONG_WITHIN_MS = 1_000
const OWN_PAUSE_MS = 200
/** Growth of its own memory beyond what it had when it was ready: something leaks into every guest. */
const GROWTH_MOST_BYTES = 64 * 1024 * 1024

export interface Preloaded {
  readonly installed: Readonly<Record<string, string>>
  readonly missing: Readonly<Record<string, string>>
  readonly importMs: number
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
          case 'ready':
          case 'unfit':
        }
      },
      () => this.end('the zygote has ended'),
    )
    this.#pinger = setInterval(() => this.#ping(), PING_EVERY_MS)
  }

  /**
   * Starts one and waits for its imports. What starts threads when it is imported is left out, one module after the
   * other, and said in `missing`.
   *
   * renew: as a program of its own, with a hash seed and an address layout that no other has; else as a fork of the template,
   * which is faster.
   *
   * Errors: Error when it ends or takes more than 60 s.
   */
  static async start(
    template: Template,
    preload: readonly string[],
    nextId: () => number,
    handlers: ZygoteHandlers,
    templateGone: AbortSignal,
    renew: boolean,
  ): Promise<Zygote> {
    const unfit: Record<string, string> = {}
    for (;;) {
      const id = nextId()
      const wanted = preload.filter(name => !(name in unfit))
      const result = await launch(template, id, wanted, templateGone, renew)
      if ('unfit' in result) {
        unfit[result.unfit] = 'starts threads when it is imported'
        continue
      }
      const preloaded = { ...result.preloaded, missing: { ...result.preloaded.missing, ...unfit } }
      const zygote = new Zygote(id, template, result.channel, preloaded, handlers)
      zygote.notRenewed = result.notRenewed
      return zygote
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

type Launched =
  | { readonly channel: Channel; readonly preloaded: Preloaded; readonly notRenewed: string | null }
  | { readonly unfit: string }

function launch(
  template: Template,
  id: number,
  preload: readonly string[],
  templateGone: AbortSignal,
  renew: boolean,
): Promise<Launched> {
  return new Promise((resolve, reject) => {
    const onGone = () => fail('the template has ended')
    let connected = false
    const settled = () => {
      clearTimeout(timer)
      template.onZygoteExit.delete(id)
      template.listener.forget(token)
      templateGone.removeEventListener('abort', onGone)
    }
    const fail = (reason: string) => {
      settled()
      const words = template.lastWords()
      reject(new Error(words === '' ? reason : `${reason}: ${words}`))
    }
    const timer = setTimeout(() => {
      template.channel.sendJson({ op: 'kill_zygote', zygote: id })
      fail('the zygote did not finish its imports in 60 s')
    }, IMPORT_TIMEOUT_MS)
    const token = template.listener.expect(channel => {
      connected = true
      channel.listen(
        frame => {
          const event = ZygoteEvent.safeParse(parseJson(frame.payload))
          if (!event.success) return
          if (event.data.event === 'ready') {
            settled()
            const { installed, missing, import_ms: importMs, not_renewed: notRenewed = null } = event.data
            resolve({ channel, preloaded: { installed, missing, importMs }, notRenewed })
          } else if (event.data.event === 'unfit') {
            settled()
            resolve({ unfit: event.data.module })
          }
        },
        () => fail('the zygote ended before it was ready'),
      )
    })
    // Of one that has connected the channel tells, perhaps with a last word; and the connection may be a moment behind.
    template.onZygoteExit.set(id, () =>
      setTimeout(() => connected || fail('the zygote ended before it had connected'), CONNECT_BEHIND_MS),
    )
    if (templateGone.aborted) onGone()
    templateGone.addEventListener('abort', onGone, { once: true })
    template.channel.sendJson({ op: 'zygote', zygote: id, token, preload, renew })
  })
}
