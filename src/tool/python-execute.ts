import type { FilesOfThreads } from '../files/thread-files.js'
import type { LimitHit, SandboxReport } from '../outcome.js'
import type { FilesRequest } from '../sandbox/pool.js'
import type { Toolbox, ToolRun } from '../toolbox/toolbox.js'
import { BlockedRun } from './blocked-run.js'
import { confirmationRequest, TOOLS_IN_REQUEST_MOST } from './confirm.js'
import { describePython } from './description.js'
import { keepFiles } from './keep-files.js'
import { LiveOutput } from './live-output.js'
import { makeOutcome } from './make-outcome.js'
import { answer, broken, declined, hasCalled, notRun, outcomeWithoutRun } from './outcome-without-run.js'
import type { OutcomeContext } from './provenance.js'
import { PYTHON_TOOL_NAME, type PythonArgs, pythonArgumentParser, pythonParameters } from './python-arguments.js'
import { Interruption, type Invocation, type Reply, type Tool } from './tool.js'
import { planWall, TOO_LATE } from './wall-time.js'

export interface SandboxRunRequest {
  readonly code: string
  /** Wall time in milliseconds from the code's start. */
  readonly wallMs: number
  /** Aborts with a phrase for the model as its reason. */
  readonly signal: AbortSignal
  /** Called with pieces of decoded stdout, in order, as they are printed. */
  onStdout(text: string): void
  /** What the code may ask of the worker; null: nothing. */
  readonly calls: ToolRun['calls'] | null
  readonly files: FilesRequest
}

export interface PythonExecuteOptions extends OutcomeContext {
  /** Runs code in a sandbox of its own. Every end of the code is a report; a rejection passes through `handle`. */
  run(request: SandboxRunRequest): Promise<SandboxReport>
  /** null: code can't call tools. */
  readonly toolbox: Toolbox | null
  /** null or left out: files end with the call that made them. */
  readonly files?: FilesOfThreads | null
}

/** For reading files of earlier calls and writing them into the workspace. */
const PLACING_MS = 10_000

/** The python_execute tool: model-written Python, run in a sandbox, answered with an outcome. */
export function createPythonExecute(options: PythonExecuteOptions): Tool<PythonArgs> {
  const { config, facts, run, toolbox, mask, files = null } = options
  const parameters = pythonParameters(config.sandbox)

  /** With CONFIRM_BEFORE=always nobody's silence counts as consent; a person's no holds whatever the setting is now. */
  async function before(invocation: Invocation<PythonArgs>): Promise<Reply | null> {
    const { args, confirmedByHuman, queueMs, signal, toolLog } = invocation
    if (confirmedByHuman === false) {
      return answer(declined(options, await invocation.calledBefore(), { code: args.code, queueMs }))
    }
    if (confirmedByHuman === true) return null
    const tools = (await toolbox?.toApprove(args.code, signal)) ?? []
    const { wallMs } = planWall(args.timeout_seconds, invocation.remainingMs, config.sandbox)
    // Without time to run there is nothing to ask for: `handle` says so.
    if (wallMs === null) return null
    if (config.confirmBefore === 'never' && tools.length === 0) return null
    if (tools.length > TOOLS_IN_REQUEST_MOST) {
      return answer(
        outcomeWithoutRun(options, 'needs_confirmation', tooMany(tools.length), { code: args.code, queueMs }),
      )
    }
    // Before they are asked, as they may answer before we hear that they were. Unknown, their yes would cover nothing.
    const isKnown = toolbox === null || (await toolLog.note({ step: 'asked', tools }))
    if (!isKnown && tools.length > 0) {
      return answer(
        notRun(options, 'interrupted', UNRECORDED, await invocation.calledBefore(), { code: args.code, queueMs }),
      )
    }
    return confirmationRequest(args.code, wallMs, { tools, mask })
  }

  async function handle(invocation: Invocation<PythonArgs>): Promise<Reply> {
    const { args, confirmedByHuman, queueMs, signal, toolLog } = invocation
    // Asked again here, so that no caller can run what a person has not approved.
    const early = await before(invocation)
    if (early !== null) return early
    const called = await invocation.calledBefore()
    const thread = files?.of(invocation.thread) ?? null
    const restored = (await thread?.restore(signal)) ?? null
    // What is left now: looking for tools, and for files of earlier calls, may have taken a while.
    const left = invocation.remainingMs
    // The files are put in place before the code's time begins: what that may take is not the code's any more.
    const placingMs = restored === null || restored.inputs.length === 0 ? 0 : Math.min(PLACING_MS, left / 2)
    const { wallMs, notes } = planWall(args.timeout_seconds, left - placingMs, config.sandbox)
    if (wallMs === null) {
      return answer(notRun(options, 'interrupted', TOO_LATE, called, { code: args.code, queueMs }))
    }
    if (toolbox === null && hasCalled(called)) {
      return answer(
        broken(options, 'the code has called tools before it was approved, and there are none now', true, called),
      )
    }
    const isApproved = confirmedByHuman === true
    const ending = new AbortController()
    const blockedRun = new BlockedRun(() => ending.abort(new Interruption('a person has to approve a tool first')))
    const tools = await toolbox?.begin({
      code: args.code,
      isApproved,
      signal,
      toolLog,
      onBlocked: answered => {
        // What it prints from here on is shown by the run that a person approves; nobody is asked twice for one call.
        if (!isApproved) live.hold()
        blockedRun.begin(answered)
      },
      onDiverged: reason => ending.abort(new Interruption(reason)),
    })
    if (tools !== undefined && 'refused' in tools) {
      return answer(broken(options, tools.refused, true, called))
    }
    const live = new LiveOutput(invocation.stream, config.streamMaxBytes, tools?.shownBefore)
    const either = toolbox === null ? signal : AbortSignal.any([signal, ending.signal])
    const ended = await run({
      code: args.code,
      wallMs,
      signal: either,
      onStdout: text => live.push(text),
      calls: tools?.calls ?? null,
      files: { inputs: restored?.inputs ?? [], contents: thread === null ? 'images' : 'kept' },
    }).finally(() => blockedRun.over())
    const isBlocked = (tools?.blocked.length ?? 0) > 0 && isOurs(ended, signal)
    const diverged = !isBlocked && isOurs(ended, signal) ? (tools?.diverged ?? null) : null
    const interrupted = !isBlocked && ended.status === 'cancelled' && either.reason instanceof Interruption
    const named: SandboxReport =
      diverged !== null || interrupted ? { ...ended, status: 'interrupted', reason: diverged ?? ended.reason } : ended
    const overBudget = toolbox !== null && tools?.isOverBudget === true
    const withLimit = overBudget ? withBudget(named, toolbox.callsMax) : named
    // A sandbox may say that the code has not started; before the person was asked it had.
    const report = hasCalled(called) ? { ...withLimit, started: true } : withLimit
    // Of code that a person has to approve first nothing is kept: it will run again.
    const kept = await keepFiles(isBlocked && !isApproved ? null : thread, report, either)
    const made = {
      ...options,
      report: kept.report,
      args,
      wallMs,
      queueMs,
      notes: [...notes, ...(restored?.notes() ?? []), ...kept.notes],
      toolCalls: tools?.made ?? [],
      toolDollars: tools?.dollars ?? 0,
    }
    const blocked = isBlocked ? (tools?.blocked ?? []) : []
    const outcome = makeOutcome({ ...made, blockedTools: blocked })
    const asks = isBlocked && !isApproved && (await toolLog.note({ step: 'asked', tools: blocked, shown: live.shown }))
    if (asks) return confirmationRequest(args.code, wallMs, { tools: blocked, outcome, mask })
    tools?.close()
    live.release()
    return answer(outcome)
  }

  return {
    name: PYTHON_TOOL_NAME,
    description: describePython(config, facts, toolbox?.description ?? null),
    parameters,
    parse: pythonArgumentParser(parameters, config.argumentsMaxBytes),
    before,
    handle,
  }
}

const UNRECORDED = 'what a person is asked for can not be written down by the worker'

function tooMany(tools: number): string {
  const most = `a request for approval names at most ${TOOLS_IN_REQUEST_MOST}`
  return `[not run: the code names ${tools} tools that a person has to approve, and ${most}; name only those that it calls, or call them in several pieces of code]`
}

/** Whether what it called is what ended the run, whatever the code made of it; neither somebody else nor the sandbox did. */
function isOurs({ status }: SandboxReport, signal: AbortSignal): boolean {
  return status === 'cancelled' ? !signal.aborted : status !== 'interrupted'
}

function withBudget(report: SandboxReport, callsMax: number): SandboxReport {
  const limit: LimitHit = { name: 'tool_calls', value: callsMax, unit: 'calls', peak: callsMax }
  return { ...report, limit: report.limit ?? limit }
}
