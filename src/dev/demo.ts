import { createCallView } from './call-view.js'
import { checkSample, workerConnected } from './check-sample.js'
import { type EmbeddedBackend, startEmbeddedBackend } from './embedded-backend.js'
import { SAMPLES, type Sample } from './samples.js'
import { createPaint, type Paint, type Terminal } from './terminal.js'

const CONNECT_LIMIT_MS = 30_000
const ANSWER_LIMIT_MS = 60_000

/** Files of threads, for a person who looks. */
export interface KeptFiles {
  look(key: ThreadKey, signal: AbortSignal): Promise<readonly { readonly path: string; readonly bytes: number }[]>
  /** null: there is no such file. */
  read(key: ThreadKey, path: string, signal: AbortSignal): Promise<Buffer | null>
}

interface ThreadKey {
  readonly group: string
  readonly thread: string
}

/** A worker that runs against the given backend. */
export interface RunningWorker {
  /** Lets running code end, for up to `drainMs`. */
  stop(): Promise<void>
  /** Ends running code at once; `stop` then resolves soon. */
  interrupt(): void
  /** Ends one call; its answer says `reason`. False where the worker does not have it. */
  cancel(fcallId: string, reason: string): boolean
  readonly drainMs: number
  /** What is kept of threads for later calls; null: nothing. */
  readonly files: KeptFiles | null
  /** One line for a person: sandbox tier, interpreter. */
  describe(): string
}

export type StartWorker = (backendUrl: string, apiKey: string) => Promise<RunningWorker>

/**
 * Three sample calls through an embedded backend and a real worker, shown as they happen. What is shown is checked as well: the status,
 * the text, that output came while the code ran, and that the result says what was streamed.
 *
 * Returns the exit code: 0, or 1 after saying what was not as it should be. Rejects with the worker's own error if it does not start.
 */
export async function runDemo(options: {
  readonly startWorker: StartWorker
  readonly out: Terminal
  readonly env?: NodeJS.ProcessEnv
  readonly samples?: readonly Sample[]
}): Promise<number> {
  const { out } = options
  const paint = createPaint(out, options.env ?? process.env)
  const samples = options.samples ?? SAMPLES
  const backend = await startEmbeddedBackend()
  const faults: string[] = []
  out.write(`${paint.bold('python_execute demo')}: a backend and a worker, both on this machine, nothing leaves it.\n`)
  const worker = await options.startWorker(backend.url, backend.apiKey).catch(async (error: unknown) => {
    await backend.close()
    throw error
  })
  try {
    await workerConnected(backend, CONNECT_LIMIT_MS)
    out.write(`${paint.dim('backend')}  ${backend.url}\n${paint.dim('worker')}   ${worker.describe()}\n`)
    for (const [index, sample] of samples.entries()) {
      faults.push(...(await show(backend, sample, `${index + 1} of ${samples.length} · ${sample.title}`, out, paint)))
    }
  } catch (error) {
    faults.push(error instanceof Error ? error.message : String(error))
  } finally {
    await stopWorker(worker, faults)
    // Only now: a second post may come at any time while the worker lives.
    if (backend.duplicates.length > 0) faults.push(`${backend.duplicates.length} of the answers came twice`)
    await backend.close()
  }
  return conclude(faults, samples.length, out, paint)
}

async function show(
  backend: EmbeddedBackend,
  sample: Sample,
  title: string,
  out: Terminal,
  paint: Paint,
): Promise<readonly string[]> {
  const now = (): number => performance.now()
  const view = createCallView({ out, paint, label: '', live: true, now })
  view.begin(title, sample.code)
  let fcallId: string | null = null
  const forget = backend.onEvent(event => {
    if (event.type === 'delta' && event.fcallId === fcallId) view.delta(event.delta)
  })
  try {
    fcallId = backend.pushCode(sample.code).fcall_id
    const id = fcallId
    const answer = await backend.waitForAnswer(id, ANSWER_LIMIT_MS)
    const faults = await checkSample(backend, sample, answer)
    forget()
    view.end(answer)
    if (faults.length === 0) out.write(paint.dim(`  ${checkedLine(backend, id)}\n`))
    return faults.map(fault => `${title}: ${fault}`)
  } finally {
    forget()
  }
}

function checkedLine(backend: EmbeddedBackend, fcallId: string): string {
  const messages = backend.deltas(fcallId).length
  return `checked: status and text as expected, the output came in ${messages} ${messages === 1 ? 'message' : 'messages'}`
}

async function stopWorker(worker: RunningWorker, faults: string[]): Promise<void> {
  try {
    await worker.stop()
  } catch (error) {
    faults.push(`the worker did not stop: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function conclude(faults: readonly string[], calls: number, out: Terminal, paint: Paint): number {
  if (faults.length > 0) {
    out.write(`\n${paint.red('The demo did not come out as it should:')}\n`)
    for (const fault of faults) out.write(`  ${fault}\n`)
    return 1
  }
  out.write(`\n${paint.green(`All ${calls} calls came back as they should.`)} Next:\n`)
  out.write(`  ${paint.cyan('node dist/main.js exec script.py')}   run a file of your own in the sandbox\n`)
  out.write(
    `  ${paint.cyan('node dist/main.js dev')}              the same with a page: write code, run it, see what becomes of it\n`,
  )
  return 0
}
