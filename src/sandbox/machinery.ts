import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { TierName } from '../outcome.js'
import { Channel } from './channel.js'
import type { Interpreter } from './interpreter.js'
import type { WireLimits } from './limits.js'
import { Listener, parseJson } from './listener.js'
import { type GuestExit, TemplateEvent, ZygoteEvent } from './messages.js'
import { makeRuntimeDir, type RuntimeDir } from './runtime-dir.js'
import { Sandbox } from './sandbox.js'

const BOOT = fileURLToPath(new URL('./python/boot.py', import.meta.url))
const UP_TIMEOUT_MS = 15_000
const IMPORT_TIMEOUT_MS = 60_000
/** Host uids of the sandboxes of a root worker: this one plus the slot. Nothing else on a machine uses them. */
const FIRST_UID = 100_000
/** Nice value of guests: under load the worker and its wardens come first. */
const GUEST_NICE = 5
const STDERR_KEPT_CHARS = 4_000

export interface MachineryOptions {
  readonly tier: TierName
  readonly interpreter: Interpreter
  readonly preload: readonly string[]
  readonly limits: WireLimits
  readonly log: Logger
  /** Hides newer features of the kernel's Landlock, to see what an older kernel gives. Tests only. */
  readonly landlockAbiMost?: number
}

/** What the template said of the place in which it could set itself up. */
export type Up = Extract<TemplateEvent, { event: 'up' }>

/** The tier can't be had here. `step` and `errno` say what the kernel refused; errno 0 where it was not the kernel. */
export class TierUnavailable extends Error {
  override readonly name = 'TierUnavailable'
  readonly tier: TierName
  readonly step: string
  readonly errno: number

  constructor(tier: TierName, step: string, errno: number, message: string) {
    super(message)
    this.tier = tier
    this.step = step
    this.errno = errno
  }
}

export interface Preloaded {
  readonly installed: Readonly<Record<string, string>>
  readonly missing: Readonly<Record<string, string>>
  readonly importMs: number
}

/**
 * Template and zygote: the processes from which sandboxes are made. They live and die together: `onDown` is called once
 * when either has ended unasked, and every sandbox has then ended too.
 */
export class Machinery {
  readonly up: Up
  preloaded: Preloaded = { installed: {}, missing: {}, importMs: 0 }
  readonly #options: MachineryOptions
  readonly #child: ChildProcess
  readonly #template: Channel
  readonly #listener: Listener
  readonly #dir: RuntimeDir
  readonly #sandboxes = new Map<number, Sandbox>()
  readonly #exited: Promise<void>
  #zygote: Channel | null = null
  #nextId = 1
  #down = false
  #onDown: (reason: string) => void = () => {}

  private constructor(options: MachineryOptions, parts: Parts, up: Up) {
    this.#options = options
    this.#child = parts.child
    this.#template = parts.template
    this.#listener = parts.listener
    this.#dir = parts.dir
    this.up = up
    this.#exited = parts.exited
  }

  /** Starts the template in the given tier and one zygote. Errors: TierUnavailable; Error when the zygote fails. */
  static async start(options: MachineryOptions): Promise<Machinery> {
    const parts = await startTemplate(options)
    try {
      const up = await awaitUp(options, parts)
      const machinery = new Machinery(options, parts, up)
      parts.template.listen(
        frame => machinery.#hear(frame.payload),
        () => machinery.#fall('the template has ended'),
      )
      await machinery.#startZygote()
      return machinery
    } catch (error) {
      await stop(parts)
      throw error
    }
  }

  set onDown(listener: (reason: string) => void) {
    this.#onDown = listener
  }

  get isDown(): boolean {
    return this.#down
  }

  /** Makes a sandbox; it is there at once, and parked a few milliseconds later. `slot` is no other living sandbox's. */
  createSandbox(slot: number): Sandbox {
    const id = this.#nextId++
    const token = this.#listener.expect(channel => sandbox.attach(channel))
    const sandbox = new Sandbox(id, () => {
      this.#listener.forget(token)
      this.#sandboxes.delete(id)
      if (this.#options.tier === 'landlock') this.#template.sendJson({ op: 'clean', sandbox: id })
    })
    this.#sandboxes.set(id, sandbox)
    this.#template.sendJson({
      op: 'sandbox',
      sandbox: id,
      slot,
      token,
      zygote: this.#zygoteId,
      limits: this.#options.limits,
    })
    if (this.#down) sandbox.fail('the sandbox machinery is down')
    return sandbox
  }

  /** Ends everything; resolves when the processes and their folder are gone. */
  async close(): Promise<void> {
    this.#down = true
    for (const sandbox of this.#sandboxes.values()) sandbox.fail('the worker is stopping')
    await stop({
      child: this.#child,
      template: this.#template,
      listener: this.#listener,
      dir: this.#dir,
      exited: this.#exited,
    })
  }

  /** Starts the zygote; leaves out what starts threads when imported, one after the other, and says so in `missing`. */
  async #startZygote(): Promise<void> {
    const unfit: Record<string, string> = {}
    for (;;) {
      const preload = this.#options.preload.filter(name => !(name in unfit))
      const result = await this.#tryZygote(preload)
      if (!('unfit' in result)) {
        this.preloaded = { ...result, missing: { ...result.missing, ...unfit } }
        return
      }
      unfit[result.unfit] = 'starts threads when it is imported'
    }
  }

  #tryZygote(preload: readonly string[]): Promise<Preloaded | { readonly unfit: string }> {
    const id = ++this.#zygoteId
    return new Promise((resolve, reject) => {
      const fail = (reason: string) => {
        clearTimeout(timer)
        if (id !== this.#zygoteId) return // replaced by one with fewer modules
        reject(new Error(`${reason}${this.#lastWords()}`))
        this.#fall(reason)
      }
      const timer = setTimeout(() => fail('the zygote did not finish its imports in 60 s'), IMPORT_TIMEOUT_MS)
      this.#zygoteFailed = fail
      const token = this.#listener.expect(channel => {
        this.#zygote = channel
        channel.listen(
          frame => {
            const event = ZygoteEvent.safeParse(parseJson(frame.payload))
            if (!event.success) return
            switch (event.data.event) {
              case 'ready': {
                clearTimeout(timer)
                const { installed, missing, import_ms: importMs } = event.data
                resolve({ installed, missing, importMs })
                return
              }
              case 'unfit':
                clearTimeout(timer)
                this.#zygoteId++
                resolve({ unfit: event.data.module })
                return
              case 'exit':
                this.#guestExited(event.data)
                return
              case 'not_forked':
                this.#sandboxes.get(event.data.sandbox)?.fail(`no process for the code: ${event.data.message}`)
                return
              case 'pong':
            }
          },
          () => fail('the zygote has ended'),
        )
      })
      this.#template.sendJson({ op: 'zygote', zygote: id, token, preload })
    })
  }

  #zygoteId = 0
  #zygoteFailed: (reason: string) => void = () => {}

  #guestExited(exit: GuestExit): void {
    this.#sandboxes.get(exit.sandbox)?.guestExited(exit)
  }

  #hear(payload: Buffer): void {
    const event = TemplateEvent.safeParse(parseJson(payload))
    if (!event.success) return
    switch (event.data.event) {
      case 'zygote_exit':
        if (event.data.zygote === this.#zygoteId)
          this.#zygoteFailed(`the zygote has ended with code ${event.data.code}`)
        return
      case 'no_zygote':
        this.#sandboxes.get(event.data.sandbox)?.fail('the zygote has gone')
        return
      case 'up':
      case 'failed':
        return
    }
  }

  #fall(reason: string): void {
    if (this.#down) return
    this.#down = true
    this.#options.log.error({ reason, stderr: this.#lastWords() }, 'sandbox machinery is down')
    this.#zygote?.destroy()
    this.#child.kill('SIGKILL')
    for (const sandbox of this.#sandboxes.values()) sandbox.fail('the sandbox machinery died')
    this.#onDown(reason)
  }

  #lastWords(): string {
    const text = errorOutput.get(this.#child)?.text.trim() ?? ''
    return text === '' ? '' : `: ${text}`
  }
}

interface Parts {
  readonly child: ChildProcess
  readonly template: Channel
  readonly listener: Listener
  readonly dir: RuntimeDir
  readonly exited: Promise<void>
}

/** The end of what a template's processes wrote to their stderr: tracebacks of our own code. */
const errorOutput = new WeakMap<ChildProcess, { text: string }>()

async function startTemplate(options: MachineryOptions): Promise<Parts> {
  const dir = await makeRuntimeDir()
  const listener = await Listener.open(dir.socketPath)
  const child = spawn(options.interpreter.path, ['-s', '-B', '-X', 'utf8', BOOT], {
    cwd: '/',
    env: {}, // what the worker's environment holds must not be in any process of a sandbox
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    detached: true, // Ctrl-C in the terminal is the worker's to handle
  })
  const kept = { text: '' }
  errorOutput.set(child, kept)
  child.stderr?.on('data', (chunk: Buffer) => {
    kept.text = (kept.text + chunk.toString()).slice(-STDERR_KEPT_CHARS)
  })
  const exited = new Promise<void>(resolve => {
    child.once('error', () => resolve())
    child.once('exit', () => resolve())
  })
  const template = new Channel(child.stdio[3] as Duplex)
  return { child, template, listener, dir, exited }
}

function awaitUp(options: MachineryOptions, parts: Parts): Promise<Up> {
  return new Promise<Up>((resolve, reject) => {
    const fail = (step: string, errno: number, message: string) =>
      reject(new TierUnavailable(options.tier, step, errno, message))
    const timer = setTimeout(() => fail('start', 0, 'the template did not come up in 15 s'), UP_TIMEOUT_MS)
    parts.template.listen(
      frame => {
        clearTimeout(timer)
        const event = TemplateEvent.safeParse(parseJson(frame.payload))
        if (event.success && event.data.event === 'up') resolve(event.data)
        else if (event.success && event.data.event === 'failed') {
          fail(event.data.step, event.data.errno, event.data.message)
        } else fail('start', 0, 'the template said something else than that it is up')
      },
      () => {
        clearTimeout(timer)
        // Its stderr may still be on its way.
        setTimeout(() => fail('start', 0, `the template ended${errorOutput.get(parts.child)?.text ?? ''}`), 50)
      },
    )
    parts.template.sendJson({
      tier: options.tier,
      socket_dir: parts.dir.socketDir,
      root_dir: parts.dir.rootDir,
      boxes_dir: parts.dir.boxesDir,
      zygote_dir: parts.dir.zygoteDir,
      trees: options.interpreter.trees,
      uid_base: process.getuid?.() === 0 ? FIRST_UID : null,
      nice: GUEST_NICE,
      ...(options.landlockAbiMost === undefined ? {} : { landlock_abi_most: options.landlockAbiMost }),
    })
  })
}

async function stop(parts: Parts): Promise<void> {
  parts.template.destroy()
  const timer = setTimeout(() => parts.child.kill('SIGKILL'), 1_000)
  await parts.exited
  clearTimeout(timer)
  await parts.listener.close()
  await parts.dir.remove()
}
