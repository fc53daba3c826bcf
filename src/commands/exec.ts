import { setMaxListeners } from 'node:events'
import { constants } from 'node:os'
import { createInterface } from 'node:readline'
import pLimit from 'p-limit'
import { MemoryJournal } from '../journal/memory-journal.js'
import type { CollectedFiles, Outcome } from '../outcome.js'
import { createLog } from '../telemetry/log.js'
import { Redactor } from '../telemetry/redactor.js'
import { CALLED_NOTHING } from '../tool/outcome-without-run.js'
import type { Invocation } from '../tool/tool.js'
import { ExecView } from './exec-view.js'
import { readScript, type Script } from './read-script.js'
import { prepareOutput, saveFiles } from './saved-files.js'
import { type OpenToolsOptions, openTools, readSetup, type Setup, type Toolset } from './setup.js'

export interface ExecOptions {
  /** A path, or - for standard input. */
  readonly file: string
  readonly json: boolean
  readonly timeoutSeconds: number | null
  /** The folder for what the code shows and makes; null: the current one, for images alone. */
  readonly output: string | null
  readonly quiet: boolean
}

/** A reader at a pipe wants all of stdout; what is beyond is shown with head and tail. In memory where the reader is slow. */
const STREAMED_MOST_BYTES = 64 * 1024 * 1024

/** Exit codes for ends that have none of their own, as shells and timeout(1) use them. */
const EXIT_TIMED_OUT = 124
const EXIT_NOT_RUN = 125
const EXIT_KILLED = 137
const EXIT_CANCELLED = 130
/** The code ended well, and not all that it made could be saved. */
const EXIT_IO = 74
/** As of a program that SIGPIPE ended. */
const EXIT_NO_READER = 141

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Runs one file in the sandbox and shows what it prints. Returns the exit code. */
export async function execFile(options: ExecOptions, env: NodeJS.ProcessEnv): Promise<number> {
  const setup = readExecSetup(env)
  const ending = watchForTheEnd()
  const { wallMaxMs } = setup.config.sandbox
  if (options.timeoutSeconds !== null && options.timeoutSeconds * 1_000 > wallMaxMs) {
    process.stderr.write(`--timeout ${options.timeoutSeconds}: ${wallMaxMs / 1_000} s it is, see SANDBOX_WALL_MAX_MS\n`)
  }
  // Before the sandbox, which takes seconds: a name that was misspelt is to be heard of at once.
  const script = await readScript(options.file, setup.config.argumentsMaxBytes, ending.signal).catch(error => {
    if (ending.signal.aborted) return null
    throw error
  })
  if (script === null) return EXIT_CANCELLED
  if (options.output !== null) await prepareOutput(options.output)
  if (options.json) return await printOutcome(script, options, setup, ending)
  return await showRun(
    script,
    options,
    { ...setup, config: { ...setup.config, streamMaxBytes: STREAMED_MOST_BYTES } },
    ending,
    env,
  )
}

async function printOutcome(script: Script, options: ExecOptions, setup: Setup, ending: Ending): Promise<number> {
  const tools = await open(setup)
  try {
    const outcome = await runScript(script, options, setup, tools, ending, () => {})
    if (ending.readerGone) return EXIT_NO_READER
    process.stdout.write(`${JSON.stringify(outcome)}\n`)
    return exitCode(outcome)
  } finally {
    await tools.close()
  }
}

/** stdout of the code on stdout, streamed; everything else on stderr, and images as files. */
async function showRun(
  script: Script,
  options: ExecOptions,
  setup: Setup,
  ending: Ending,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  let collected: CollectedFiles | null = null
  const tools = await open(setup, {
    contents: options.output === null ? 'images' : 'saved',
    onFiles: files => {
      collected = files
    },
  })
  const view = new ExecView({
    out: process.stdout,
    err: process.stderr,
    env,
    isQuiet: options.quiet,
    streamedMostBytes: STREAMED_MOST_BYTES,
  })
  try {
    const kept = setup.config.sandbox.stdoutKeptBytes
    const outcome = await runScript(script, options, setup, tools, ending, text => view.push(text, kept))
    if (ending.readerGone) return EXIT_NO_READER
    const saved = await saveFiles({
      parts: outcome.parts ?? [],
      collected,
      output: options.output,
    })
    view.end(outcome, saved.lines, saved.hasFailed)
    const code = exitCode(outcome)
    return code === 0 && saved.hasFailed ? EXIT_IO : code
  } finally {
    view.close()
    await tools.close()
  }
}

async function runScript(
  script: Script,
  options: ExecOptions,
  setup: Setup,
  tools: Toolset,
  ending: Ending,
  stream: (text: string) => void,
): Promise<Outcome> {
  if (!script.ok) return tools.outcomes.rejected(`python_execute did not run: ${script.problem}`, CALLED_NOTHING)
  return await runArguments(argumentsOf(script.code, options), setup, tools, ending.signal, stream)
}

function argumentsOf(code: string, { timeoutSeconds }: ExecOptions): string {
  return JSON.stringify({ code, timeout_seconds: timeoutSeconds })
}

/**
 * One request a line on standard input (the tool's arguments and an id), one outcome a line on standard output, with that id, or
 * with id null and the number of its line. Ends with its input. As many run at once as there are slots, and each is
 * answered as it ends. docs/operations.md, "exec --jsonl".
 */
export async function execLines(env: NodeJS.ProcessEnv): Promise<number> {
  const setup = readExecSetup(env)
  const ending = watchForTheEnd()
  const tools = await open(setup)
  const { slots } = setup.config.sandbox
  const limit = pLimit(slots)
  const running = new Set<Promise<void>>()
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })
  ending.signal.addEventListener('abort', () => lines.close())
  let lineNumber = 0
  for await (const line of lines) {
    lineNumber += 1
    if (line.trim() === '') continue
    const { id, args } = splitRequest(line)
    const name = id === null ? { id, line: lineNumber } : { id }
    const answer = limit(async () => {
      const outcome = await runArguments(args, setup, tools, ending.signal, () => {}).catch((error: unknown) =>
        tools.outcomes.broken(`the worker failed: ${messageOf(error)}`, true, CALLED_NOTHING),
      )
      process.stdout.write(`${JSON.stringify({ ...name, ...outcome })}\n`)
    }).finally(() => running.delete(answer))
    running.add(answer)
    // Lines that nobody can run yet stay in the pipe.
    if (running.size >= 2 * slots) await Promise.race(running)
  }
  await Promise.all(running)
  await tools.close()
  if (ending.readerGone) return EXIT_NO_READER
  return ending.signal.aborted ? EXIT_CANCELLED : 0
}

interface Ending {
  readonly signal: AbortSignal
  /** Whoever read our output has closed it. */
  readonly readerGone: boolean
}

/** Aborts on the first signal to the process and when nobody reads its output any more; a second signal ends the process. */
function watchForTheEnd(): Ending {
  const stop = new AbortController()
  setMaxListeners(0, stop.signal) // one for each run at a time
  let readerGone = false
  for (const name of SIGNALS) {
    process.on(name, signal => {
      if (stop.signal.aborted) process.exit(128 + constants.signals[signal])
      stop.abort(`cancelled by ${signal}`)
    })
  }
  process.stdout.once('error', () => {
    readerGone = true
    stop.abort('nobody reads the output any more')
  })
  return {
    signal: stop.signal,
    get readerGone() {
      return readerGone
    },
  }
}

function readExecSetup(env: NodeJS.ProcessEnv): Setup {
  return readSetup({ LOG_LEVEL: 'error', ...env }, { backend: false })
}

function open(setup: Setup, saving?: OpenToolsOptions['saving']): Promise<Toolset> {
  const redactor = new Redactor()
  const log = createLog({ level: setup.config.logLevel, pretty: true, destination: 'stderr', redactor })
  return openTools(setup, log, { redactor, ...(saving === undefined ? {} : { saving }) })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The id and the rest, which is the tool's arguments as a model would send them; a line that is no object is all rest. */
function splitRequest(line: string): { id: unknown; args: string } {
  try {
    const request: unknown = JSON.parse(line)
    if (typeof request === 'object' && request !== null && !Array.isArray(request)) {
      const { id = null, ...args } = request as Record<string, unknown>
      return { id, args: JSON.stringify(args) }
    }
  } catch {} // the parser of the arguments says what is wrong with it
  return { id: null, args: line }
}

/** What the tool makes of arguments, without a backend: nobody can be asked, so a confirmation stays open. */
async function runArguments(
  args: string,
  { config }: Setup,
  tools: Toolset,
  signal: AbortSignal,
  stream: (text: string) => void,
): Promise<Outcome> {
  const parsed = tools.python.parse(args)
  if (!parsed.ok) return tools.outcomes.rejected(parsed.message, CALLED_NOTHING)
  const invocation: Invocation<typeof parsed.args> = {
    args: parsed.args,
    confirmedByHuman: null,
    scenario: '',
    remainingMs: config.callDeadlineMs,
    queueMs: 0,
    signal,
    thread: null,
    toolLog: new MemoryJournal().toolLog({ fcall_id: 'exec' }),
    calledBefore: async () => CALLED_NOTHING, // it is one run, and nobody is asked
    stream,
  }
  const reply = (await tools.python.before(invocation)) ?? (await tools.python.handle(invocation))
  if ((reply.kind === 'answer' || reply.kind === 'confirm') && reply.outcome !== null) return reply.outcome
  return tools.outcomes.needsConfirmation(parsed.args.code, reply.kind === 'confirm' ? reply.explanation : '')
}

function exitCode(outcome: Outcome): number {
  switch (outcome.status) {
    case 'completed':
      return 0
    case 'failed':
      return outcome.exit_code ?? 1
    case 'timed_out':
      return EXIT_TIMED_OUT
    case 'out_of_memory':
    case 'limit_exceeded':
      return EXIT_KILLED
    case 'crashed':
      return 128 + (constants.signals[outcome.signal as NodeJS.Signals] ?? 1)
    case 'cancelled':
      return EXIT_CANCELLED
    case 'rejected':
    case 'declined':
    case 'needs_confirmation':
    case 'interrupted':
      return EXIT_NOT_RUN
  }
}
