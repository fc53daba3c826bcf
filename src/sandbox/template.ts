import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { SandboxPolicy } from '../config.js'
import type { TierName } from '../outcome.js'
import { type CgroupHome, type CgroupRefusal, openCgroupHome } from './cgroup.js'
import { Channel } from './channel.js'
import type { Interpreter } from './interpreter.js'
import type { LayerSwitch } from './layers.js'
import { Listener, parseJson } from './listener.js'
import { TemplateEvent } from './messages.js'
import { makeRuntimeDir, type RuntimeDir } from './runtime-dir.js'

const BOOT = fileURLToPath(new URL('./python/boot.py', import.meta.url))
/** Under a name of its own: the frames of the code that is run later lead down to this one, and tell its file. */
const START =
  "import sys; _file = sys.argv.pop(); exec(compile(open(_file, encoding='utf-8').read(), '<sandbox>/boot.py', 'exec'))"
const UP_TIMEOUT_MS = 15_000
/**
 * Host uids of the sandboxes of a root worker: a block of 4 096 for each worker, plus the slot. Nothing else on a machine
 * uses them: they lie above what is handed out to people, services, subuid ranges and containers, and two workers with the
 * same uids would share one count of processes.
 */
const FIRST_UID = 2_000_000_000
const UIDS_PER_WORKER = 4_096
const UID_BLOCKS = 30_000
/** Nice value of guests: under load the worker and its wardens come first. */
const GUEST_NICE = 5
const STDERR_KEPT_CHARS = 4_000
/** In the landlock tier it removes its sandboxes' folders first. */
const STOP_GRACE_MS = 10_000

export interface TemplateOptions {
  readonly tier: TierName
  readonly interpreter: Interpreter
  /** How code is compiled; see SandboxConfig. */
  readonly policy: SandboxPolicy
  /** Hides newer features of the kernel's Landlock, to see what an older kernel gives. Tests only. */
  readonly landlockAbiMost?: number
  /** Layers to leave out, to see what each is there for. Tests only: no way leads here from environment or arguments. */
  readonly layersOff?: readonly LayerSwitch[]
}

/** What the template said of the place in which it could set itself up. */
export type Up = Omit<Extract<TemplateEvent, { event: 'up' }>, 'cgroup_refused'> & {
  /** Null where each sandbox has a cgroup of its own. */
  readonly cgroup: CgroupRefusal | null
}

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

/** The template process with its socket and scratch folder. python/core/template.py is what runs in it. */
export class Template {
  readonly up: Up
  readonly channel: Channel
  readonly listener: Listener
  /** Told by a zygote's id when that process has ended, for one that ends before it has connected. */
  readonly onZygoteExit = new Map<number, () => void>()
  readonly #parts: Parts

  private constructor(parts: Parts, up: Up) {
    this.#parts = parts
    this.up = up
    this.channel = parts.channel
    this.listener = parts.listener
  }

  /** Errors: TierUnavailable. */
  static async start(options: TemplateOptions): Promise<Template> {
    const parts = await spawnTemplate(options)
    try {
      return new Template(parts, await awaitUp(options, parts))
    } catch (error) {
      await stop(parts)
      throw error
    }
  }

  /** Calls back with each later event, and once when it has ended. */
  listen(onEvent: (event: TemplateEvent) => void, onEnd: () => void): void {
    this.channel.listen(frame => {
      const event = TemplateEvent.safeParse(parseJson(frame.payload))
      if (!event.success) return
      if (event.data.event === 'zygote_exit') this.onZygoteExit.get(event.data.zygote)?.()
      onEvent(event.data)
    }, onEnd)
  }

  /** The end of what its processes wrote to their stderr: tracebacks of our own code. */
  lastWords(): string {
    return this.#parts.errorOutput.text.trim()
  }

  kill(): void {
    this.#parts.child.kill('SIGKILL')
  }

  /** Ends it and all that it started; resolves when the processes and their folder are gone. */
  stop(): Promise<void> {
    return stop(this.#parts)
  }
}

interface Parts {
  readonly child: ChildProcess
  readonly channel: Channel
  readonly listener: Listener
  readonly dir: RuntimeDir
  readonly cgroup: CgroupHome | CgroupRefusal
  readonly exited: Promise<void>
  readonly errorOutput: { text: string }
}

async function spawnTemplate(options: TemplateOptions): Promise<Parts> {
  const dir = await makeRuntimeDir()
  const listener = await Listener.open(dir.socketPath)
  // Before anything is started that would have to be moved.
  const cgroup = options.layersOff?.includes('cgroup_limits')
    ? { step: 'not asked for', errno: 0 }
    : await openCgroupHome()
  const child = spawn(options.interpreter.path, ['-s', '-B', '-X', 'utf8', '-c', START, BOOT], {
    cwd: '/',
    env: {}, // what the worker's environment holds must not be in any process of a sandbox
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    detached: true, // Ctrl-C in the terminal is the worker's to handle
  })
  const errorOutput = { text: '' }
  child.stderr?.on('data', (chunk: Buffer) => {
    errorOutput.text = (errorOutput.text + chunk.toString()).slice(-STDERR_KEPT_CHARS)
  })
  const exited = new Promise<void>(resolve => {
    child.once('error', error => {
      errorOutput.text += error.message
      resolve()
    })
    child.once('exit', () => resolve())
  })
  const channel = new Channel(child.stdio[3] as Duplex)
  void exited.then(() => channel.destroy()) // whatever else still holds its other end
  return { child, channel, listener, dir, cgroup, exited, errorOutput }
}

function awaitUp(options: TemplateOptions, parts: Parts): Promise<Up> {
  return new Promise<Up>((resolve, reject) => {
    const fail = (step: string, errno: number, message: string) =>
      reject(new TierUnavailable(options.tier, step, errno, message))
    const timer = setTimeout(() => fail('start', 0, 'the template did not come up in 15 s'), UP_TIMEOUT_MS)
    parts.channel.listen(
      frame => {
        clearTimeout(timer)
        const event = TemplateEvent.safeParse(parseJson(frame.payload))
        if (event.success && event.data.event === 'up') resolve(withCgroup(event.data, parts.cgroup))
        else if (event.success && event.data.event === 'failed') {
          fail(event.data.step, event.data.errno, event.data.message)
        } else fail('start', 0, 'the template said something else than that it is up')
      },
      () => {
        clearTimeout(timer)
        // Its stderr may still be on its way.
        setTimeout(() => fail('start', 0, `the template ended: ${parts.errorOutput.text.trim()}`), 50)
      },
    )
    const { dir, cgroup } = parts
    parts.channel.sendJson({
      tier: options.tier,
      policy: options.policy,
      socket_dir: dir.socketDir,
      root_dir: dir.rootDir,
      boxes_dir: dir.boxesDir,
      zygote_dir: dir.zygoteDir,
      cgroup_dir: 'folder' in cgroup ? cgroup.folder : null,
      trees: options.interpreter.trees,
      uid_base: process.getuid?.() === 0 ? FIRST_UID + randomInt(UID_BLOCKS) * UIDS_PER_WORKER : null,
      nice: GUEST_NICE,
      ...(options.landlockAbiMost === undefined ? {} : { landlock_abi_most: options.landlockAbiMost }),
      ...(options.layersOff === undefined ? {} : { layers_off: options.layersOff }),
    })
  })
}

function withCgroup(up: Extract<TemplateEvent, { event: 'up' }>, home: CgroupHome | CgroupRefusal): Up {
  const { cgroup_refused, ...rest } = up
  if (!('folder' in home)) return { ...rest, cgroup: home }
  return { ...rest, cgroup: cgroup_refused === null ? null : { step: cgroup_refused[0], errno: cgroup_refused[1] } }
}

async function stop(parts: Parts): Promise<void> {
  parts.channel.destroy()
  const timer = setTimeout(() => parts.child.kill('SIGKILL'), STOP_GRACE_MS)
  await parts.exited
  clearTimeout(timer)
  if ('close' in parts.cgroup) await parts.cgroup.close()
  await parts.listener.close()
  // What can't be removed was made so by code; the next start tries again, and no call's end depends on it.
  await parts.dir.remove().catch(() => {})
}
