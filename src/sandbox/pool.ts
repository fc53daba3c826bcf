import type { Logger } from 'pino'
import type { SandboxConfig } from '../config.js'
import type { SandboxFacts, SandboxReport } from '../outcome.js'
import type { Redactor } from '../telemetry/redactor.js'
import { Capture, visible } from './capture.js'
import { Collecting, CollectRoom, collectOrder, type WantedContents } from './collected.js'
import { fileNotes } from './file-notes.js'
import type { GuestCalls } from './guest-calls.js'
import type { InputFile } from './inputs.js'
import type { Machinery, MachineryOptions } from './machinery.js'
import { mimeOf } from './mime.js'
import { kindChooser, type ZygoteKind } from './preloads.js'
import type { RunOrder, RunResult, Sandbox } from './sandbox.js'
import { Shown } from './shown.js'
import { Supply } from './supply.js'
import { type Verdict, verdict } from './verdict.js'

const VALUE_MOST_CHARS = 51_000

export interface RunRequest {
  readonly code: string
  readonly wallMs: number
  /** Its reason is a phrase for the model. */
  readonly signal: AbortSignal
  /** Text as it is printed, decoded exactly as the report's stdout. */
  onStdout(text: string): void
  /** What the code may ask of the worker; null or left out: nothing. */
  readonly calls?: GuestCalls | null
  /** null or left out: no file is put in place, and no content taken. */
  readonly files?: FilesRequest | null
  /** The worker's own code, such as the self-test: the restricted policy does not apply to it. */
  readonly isOurs?: boolean
}

export interface FilesRequest {
  /** Put in the workspace before the code starts. Those that stay as they are, are not listed afterwards. */
  readonly inputs: readonly InputFile[]
  readonly contents: WantedContents
}

export interface PoolOptions {
  readonly config: SandboxConfig
  readonly machinery: MachineryOptions
  /** What is known at first; `complete` brings the rest. */
  readonly facts: SandboxFacts
  readonly log: Logger
  /** CPUs of this worker: the default CPU limit is wall time × CPUs. */
  readonly cpus: number
  /** What is masked in all that comes out of a run; left out: nothing. */
  readonly redactor?: Redactor
  /** Whether machinery is up; with the reason where it is not. */
  onHealth?(healthy: boolean, reason: string): void
}

/** Runs code, each piece in a sandbox of its own. Who may run, and in which order, is decided by the caller (admission). */
export class Pool {
  readonly #options: PoolOptions
  readonly #supply: Supply
  readonly #collectRoom = new CollectRoom()
  /** Of its own: code that shows images and then goes on for minutes must not keep others from having their files kept. */
  readonly #imageRoom = new CollectRoom()
  #facts: SandboxFacts
  #kindOf: (code: string) => ZygoteKind

  constructor(machinery: Machinery, options: PoolOptions) {
    const { config, log } = options
    this.#options = options
    this.#supply = new Supply(machinery, {
      slots: config.slots,
      machinery: options.machinery,
      log,
      ...(options.onHealth === undefined ? {} : { onHealth: options.onHealth }),
    })
    this.#facts = options.facts
    this.#kindOf = kindChooser(Object.keys(options.facts.installed))
  }

  get facts(): SandboxFacts {
    return this.#facts
  }

  /** To be told when the libraries are there, which the facts at first can't know of. */
  complete(facts: SandboxFacts): void {
    this.#facts = facts
    this.#kindOf = kindChooser(Object.keys(facts.installed))
  }

  /** Runs one piece of code in a sandbox of its own. Never rejects. */
  async run(request: RunRequest): Promise<SandboxReport> {
    const requested = performance.now()
    const { config } = this.#options
    const secrets = this.#options.redactor?.matcher
    const stdout = new Capture(config.stdoutKeptBytes, request.onStdout, secrets)
    const stderr = new Capture(config.stderrKeptBytes, null, secrets)
    const shown = new Shown(this.#options.redactor, this.#imageRoom)
    const wanted = request.files == null ? null : collectOrder(request.files.contents)
    const collecting = wanted === null ? null : new Collecting(wanted, this.#collectRoom)
    const notPlaced: string[] = []
    const heard: Heard = { stdout, stderr, shown, collecting }
    const cpuMs = config.cpuMs ?? Math.ceil(request.wallMs * Math.max(1, this.#options.cpus))
    const times = { started: null as number | null }
    const unstarted = (status: 'cancelled' | 'interrupted', reason: string): SandboxReport =>
      this.#report({ status, exitCode: null, signal: null, limit: null }, reason, false, heard, 0, null)

    if (request.signal.aborted) return unstarted('cancelled', phrase(request.signal.reason))
    const order: RunOrder = {
      code: Buffer.from(request.code, 'utf8'),
      wallMs: request.wallMs,
      cpuMs,
      calls: request.calls ?? null,
      isOurs: request.isOurs ?? false,
      inputs: request.files?.inputs ?? [],
      collect: wanted,
      onNotPlaced: problems => {
        for (const [path, why] of problems) notPlaced.push(`not put in place: ${path}: ${why}`)
      },
      onContent: payload => collecting?.push(payload),
      onStarted: () => {
        times.started = performance.now()
      },
      onStdout: bytes => stdout.push(bytes),
      onStderr: bytes => stderr.push(bytes),
      onShown: payload => shown.hear(payload),
    }
    const kind = this.#kindOf(request.code)
    let sandbox: Sandbox
    do {
      try {
        sandbox = await this.#supply.take(kind, request.signal)
      } catch (error) {
        if (request.signal.aborted) return unstarted('cancelled', phrase(request.signal.reason))
        return unstarted('interrupted', (error as Error).message) // a phrase of supply.ts, made for the model
      }
      if (request.signal.aborted) {
        // Between the handing out and this turn: nobody would hear that event any more.
        sandbox.fail('the call was cancelled before the code started')
        return unstarted('cancelled', phrase(request.signal.reason))
      }
      // One that died while it was parked: another may have the code.
    } while (!sandbox.isIdle)
    const cancel = () => sandbox.cancel()
    request.signal.addEventListener('abort', cancel, { once: true })
    const result = await sandbox.run(order)
    request.signal.removeEventListener('abort', cancel)
    if (result.kind === 'broken' && !result.handedOver) {
      if (request.signal.aborted) return unstarted('cancelled', phrase(request.signal.reason))
      // Not again in another one: placing its files may have taken all the time that the deadline leaves for that.
      return unstarted('interrupted', result.reason)
    }
    const started = times.started ?? requested
    const startMs = started - requested
    if (result.kind === 'broken') {
      const broken: Verdict = { status: 'interrupted', exitCode: null, signal: null, limit: null }
      // Once the code was handed over nobody can say that none of it ran.
      collecting?.drop()
      return this.#report(broken, result.reason, true, heard, 0, null)
    }
    stdout.setTail(result.stdoutTail)
    stderr.setTail(result.stderrTail)
    const named = verdict(result.end, result.exit, { config, wallMs: request.wallMs, cpuMs })
    const reason = named.status === 'cancelled' ? phrase(request.signal.reason) : null
    const report = this.#report(named, reason, true, heard, startMs, result)
    return { ...report, notes: [...notPlaced, ...report.notes] }
  }

  /** Ends all sandboxes and the processes that make them. */
  close(): Promise<void> {
    return this.#supply.close()
  }

  #report(
    named: Verdict,
    reason: string | null,
    started: boolean,
    { stdout, stderr, shown, collecting }: Heard,
    startMs: number,
    result: Extract<RunResult, { kind: 'ended' }> | null,
  ): SandboxReport {
    const end = result?.end ?? null
    const exit = result?.exit ?? null
    const collected = end === null ? undefined : collecting?.finish(end)
    if (collected !== undefined) shown.files(collected.files)
    const isCutOff = named.status !== 'completed' && named.status !== 'failed'
    return {
      ...named,
      stdout: stdout.finish(end?.stdout_total ?? null, isCutOff),
      stderr: stderr.finish(end?.stderr_total ?? null, isCutOff),
      value: result?.value == null ? null : bounded(visible(maskedValue(result.value, this.#options.redactor))),
      ...shown.report(),
      files: (end?.files ?? []).map(({ path, bytes }) => ({ path, bytes, mime: mimeOf(path) })),
      ...(collected === undefined ? {} : { collected }),
      notes: end === null ? [] : fileNotes(end),
      reason,
      started,
      usage: {
        start_ms: result === null ? 0 : round(startMs),
        run_ms: end?.run_ms ?? 0,
        cpu_ms: Math.max((end?.cpu_ms ?? 0) + (exit?.cpu_ms ?? 0), end?.cpu_seen_ms ?? 0),
        // The zygote's pages, which every guest shares, are nobody's use.
        max_rss_bytes: Math.max(end?.peak_bytes ?? 0, (exit?.max_rss_bytes ?? 0) - (end?.baseline_bytes ?? 0), 0),
      },
    }
  }
}

/** What came out of one run, as it came. */
interface Heard {
  readonly stdout: Capture
  readonly stderr: Capture
  readonly shown: Shown
  readonly collecting: Collecting | null
}

/** As the guest cuts it, which knows no secrets: core/execute.py. Code can print the same, and then only loses a few letters. */
const VALUE_CUT = /(\n\[… \d+ characters left out …\]\n)/

function maskedValue(value: string, redactor: Redactor | undefined): string {
  if (redactor === undefined) return value
  const pieces = value.split(VALUE_CUT) // texts, with the notes between them
  return pieces
    .map((piece, n) =>
      n % 2 === 1 ? piece : redactor.matcher.maskPiece(piece, { before: n > 0, after: n < pieces.length - 1 }),
    )
    .join('')
}

/** The guest cuts its own value; one that was forged ends here. */
function bounded(value: string): string {
  return value.length <= VALUE_MOST_CHARS ? value : `${value.slice(0, VALUE_MOST_CHARS)}…`.toWellFormed()
}

function phrase(reason: unknown): string {
  return typeof reason === 'string' ? reason : reason instanceof Error ? reason.message : 'cancelled'
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100
}
