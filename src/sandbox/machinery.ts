import type { Logger } from 'pino'
import type { WireLimits } from './limits.js'
import type { TemplateEvent } from './messages.js'
import type { ZygoteKind } from './preloads.js'
import { Sandbox } from './sandbox.js'
import { Template, type TemplateOptions, type Up } from './template.js'
import { type Preloaded, Zygote } from './zygote.js'

/** Forks of one zygote before it is replaced: what leaks into it or grows in it does not live for ever. */
const RUNS_PER_ZYGOTE = 1_000

export interface MachineryOptions extends TemplateOptions {
  readonly preload: readonly string[]
  readonly limits: WireLimits
  readonly log: Logger
  /** Default 1 000. */
  readonly runsPerZygote?: number
  /** How long a preload may take to be imported; default 60 s. */
  readonly importTimeoutMs?: number
}

/**
 * The processes from which sandboxes are made: a template, a lean zygote and one with the preloads. A zygote that dies
 * takes its sandboxes with it and is started anew; when the template dies all is over, and `onDown` is called once.
 */
export class Machinery {
  readonly up: Up
  /** Resolves when all zygotes are there. Errors: Error when one does not come up. */
  whole: Promise<void> = Promise.resolve()
  /** Told when sandboxes of a kind can be made (again). */
  onReady: (kind: ZygoteKind) => void = () => {}
  onDown: (reason: string) => void = () => {}
  /** A zygote died unasked and its successor is being started. */
  onZygoteLost: (kind: ZygoteKind, reason: string) => void = () => {}
  readonly #options: MachineryOptions
  readonly #template: Template
  readonly #zygotes = new Map<ZygoteKind, Zygote>()
  readonly #starting = new Set<ZygoteKind>()
  readonly #sandboxes = new Map<number, { readonly sandbox: Sandbox; readonly zygote: Zygote }>()
  #nextSandbox = 1
  #nextZygote = 1
  #down = false
  readonly #gone = new AbortController()
  #preloaded: Preloaded = { installed: {}, missing: {}, unfit: {}, importMs: 0 }

  private constructor(options: MachineryOptions, template: Template) {
    this.#options = options
    this.#template = template
    this.up = template.up
    template.listen(
      event => this.#hear(event),
      () => this.#fall('the template has ended'),
    )
  }

  /** With all of its zygotes. Errors: TierUnavailable; Error when a zygote does not come up. */
  static async start(options: MachineryOptions): Promise<Machinery> {
    const machinery = await Machinery.begin(options)
    try {
      await machinery.whole
      return machinery
    } catch (error) {
      await machinery.close()
      throw error
    }
  }

  /** As start, but comes when the lean zygote is there: the other one still imports, see `whole`. */
  static async begin(options: MachineryOptions): Promise<Machinery> {
    const machinery = new Machinery(options, await Template.start(options))
    // The one that takes longest first.
    const starts = [...machinery.kinds].reverse().map(kind => machinery.#startZygote(kind, false))
    machinery.whole = Promise.all(starts).then(() => {})
    machinery.whole.catch(() => {}) // also where nobody waits for it any more
    try {
      await Promise.race([starts.at(-1), machinery.whole])
      return machinery
    } catch (error) {
      await machinery.close()
      throw error
    }
  }

  /** The kinds of zygotes there are. */
  get kinds(): readonly ZygoteKind[] {
    return this.#options.preload.length > 0 ? ['lean', 'data'] : ['lean']
  }

  /** Whether sandboxes work in folders of the host, or in cgroups, which somebody has to remove. */
  get #hasFolders(): boolean {
    return (
      this.up.cgroup === null ||
      this.#options.tier === 'landlock' ||
      (this.#options.layersOff?.includes('mount') ?? false)
    )
  }

  get isDown(): boolean {
    return this.#down
  }

  get preloaded(): Preloaded {
    return this.#preloaded
  }

  isReady(kind: ZygoteKind): boolean {
    return !this.#down && this.#zygotes.has(kind)
  }

  /** Makes a sandbox of a kind that is ready; parked a few milliseconds later. `slot` is no other living sandbox's. */
  createSandbox(slot: number, kind: ZygoteKind): Sandbox {
    const id = this.#nextSandbox++
    const token = this.#template.listener.expect(channel => sandbox.attach(channel))
    const zygote = this.#zygotes.get(kind)
    const sandbox = new Sandbox(id, kind, {
      onFailed: () => {
        zygote?.killGuest(id)
        this.#template.channel.sendJson({ op: 'kill', sandbox: id })
      },
      onGone: () => {
        this.#template.listener.forget(token)
        this.#sandboxes.delete(id)
        if (this.#hasFolders) this.#template.channel.sendJson({ op: 'clean', sandbox: id })
      },
    })
    if (zygote === undefined || this.#down) {
      sandbox.fail('the sandbox machinery is down')
      sandbox.noGuest()
      return sandbox
    }
    this.#sandboxes.set(id, { sandbox, zygote })
    const order = { op: 'sandbox', sandbox: id, slot, token, zygote: zygote.id, limits: this.#options.limits }
    this.#template.channel.sendJson(order)
    zygote.runs++
    if (zygote.runs >= (this.#options.runsPerZygote ?? RUNS_PER_ZYGOTE) || zygote.grown)
      void this.#replace(kind, zygote)
    return sandbox
  }

  /** Ends everything; resolves when the processes and their folder are gone. */
  async close(): Promise<void> {
    this.#down = true
    this.#gone.abort()
    this.#failAll('the worker is stopping')
    for (const zygote of this.#zygotes.values()) zygote.end('closing')
    await this.#template.stop()
  }

  /** renew: with secrets of its own, if a little later. Only the first ones share those of the template. */
  async #startZygote(kind: ZygoteKind, renew = true): Promise<void> {
    this.#starting.add(kind)
    try {
      const handlers = {
        onGuestExit: (exit: { sandbox: number } & Parameters<Sandbox['guestExited']>[0]) =>
          this.#sandboxes.get(exit.sandbox)?.sandbox.guestExited(exit),
        onNotForked: (id: number, message: string) => this.#lose(id, 'there was no process for the code', message),
        onEnd: (reason: string) => this.#zygoteEnded(kind, zygote, reason),
      }
      const options = {
        preload: kind === 'data' ? this.#options.preload : [],
        unfit: kind === 'data' ? this.#preloaded.unfit : {},
        renew,
        nextId: () => this.#nextZygote++,
        templateGone: this.#gone.signal,
        importTimeoutMs: this.#options.importTimeoutMs,
      }
      const zygote: Zygote = await Zygote.start(this.#template, options, handlers)
      if (this.#down) {
        zygote.end('closing')
        return
      }
      if (zygote.notRenewed !== null) {
        const reason = zygote.notRenewed
        this.#options.log.warn({ kind, reason }, 'zygote shares hash seed and address layout with the one before it')
      }
      if (kind === 'data') this.#preloaded = zygote.preloaded
      this.#zygotes.set(kind, zygote)
    } finally {
      this.#starting.delete(kind)
    }
    this.onReady(kind)
  }

  /** A new one in the place of the old, which stays until its last guest has ended. */
  async #replace(kind: ZygoteKind, old: Zygote): Promise<void> {
    if (this.#starting.has(kind)) return
    this.#options.log.debug({ kind, runs: old.runs, grown: old.grown }, 'zygote is being replaced')
    try {
      await this.#startZygote(kind)
      // Not before all that was ordered from it has been forked.
      const ordered = [...this.#sandboxes.values()].filter(entry => entry.zygote === old)
      await Promise.allSettled(ordered.map(entry => entry.sandbox.parked))
      old.retire()
      // Those that nobody has taken would keep it for as long as no call comes; the pool makes others.
      for (const { sandbox } of ordered) if (sandbox.isIdle) sandbox.fail('its zygote was replaced')
    } catch (error) {
      this.#options.log.error({ err: error, kind }, 'zygote could not be replaced')
    }
  }

  #zygoteEnded(kind: ZygoteKind, zygote: Zygote, reason: string): void {
    const lost = [...this.#sandboxes.values()].filter(entry => entry.zygote === zygote)
    if (this.#zygotes.get(kind) === zygote) this.#zygotes.delete(kind)
    for (const { sandbox } of lost) {
      // Of a guest that it has waited for, the warden's word may still be on its way.
      if (!sandbox.hasExited) this.#lose(sandbox.id, 'the process that started the code died')
    }
    if (this.#down || zygote.retired) return
    this.#options.log.error({ kind, reason, stderr: this.#template.lastWords() }, 'zygote has ended')
    this.onZygoteLost(kind, reason)
  }

  /** Starts the zygote of a kind anew, after it was lost. Errors: as start. */
  async restartZygote(kind: ZygoteKind): Promise<void> {
    if (this.#down || this.#starting.has(kind) || this.#zygotes.has(kind)) return
    await this.#startZygote(kind)
  }

  #hear(event: TemplateEvent): void {
    switch (event.event) {
      case 'no_zygote':
        this.#lose(event.sandbox, 'the zygote has gone')
        return
      case 'no_warden':
        this.#lose(event.sandbox, 'there was no process to supervise the code', event.message)
        return
      case 'zygote_exit': // its own channel tells, or who waits for it to connect
      case 'up':
      case 'failed':
    }
  }

  #fall(reason: string): void {
    if (this.#down) return
    this.#down = true
    this.#gone.abort()
    this.#options.log.error({ reason, stderr: this.#template.lastWords() }, 'sandbox machinery is down')
    this.#template.kill()
    for (const zygote of this.#zygotes.values()) zygote.end(reason)
    this.#failAll('the sandbox machinery died')
    this.onDown(reason)
  }

  #failAll(reason: string): void {
    for (const { sandbox } of [...this.#sandboxes.values()]) this.#lose(sandbox.id, reason)
  }

  /** A sandbox whose guest is not there, or dies with what has just died. */
  #lose(id: number, reason: string, detail?: string): void {
    const entry = this.#sandboxes.get(id)
    entry?.sandbox.fail(reason, detail)
    entry?.sandbox.noGuest()
  }
}
