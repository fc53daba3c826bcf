import type { SandboxReport } from '../outcome.js'
import { confirmationRequest } from './confirm.js'
import { describePython } from './description.js'
import { makeOutcome } from './make-outcome.js'
import { answer, declined, notRun } from './outcome-without-run.js'
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
}

export interface PythonExecuteOptions extends OutcomeContext {
  /** Runs code in a sandbox of its own. Every end of the code is a report; a rejection passes through `handle`. */
  run(request: SandboxRunRequest): Promise<SandboxReport>
}

/** The python_execute tool: model-written Python, run in a sandbox, answered with an outcome. */
export function createPythonExecute(options: PythonExecuteOptions): Tool<PythonArgs> {
  const { config, facts, run } = options
  const parameters = pythonParameters(config.sandbox)

  /** With CONFIRM_BEFORE=always nobody's silence counts as consent; a person's no holds whatever the setting is now. */
  function before({ args, confirmedByHuman, queueMs, remainingMs }: Invocation<PythonArgs>): Reply | null {
    if (confirmedByHuman === false) return answer(declined(options, { code: args.code, queueMs }))
    if (config.confirmBefore === 'never' || confirmedByHuman === true) return null
    const { wallMs } = planWall(args.timeout_seconds, remainingMs, config.sandbox)
    // Without time to run there is nothing to ask for: `handle` says so.
    return wallMs === null ? null : confirmationRequest(args.code, wallMs)
  }

  async function handle(invocation: Invocation<PythonArgs>): Promise<Reply> {
    const { args, queueMs, remainingMs, signal } = invocation
    // Asked again here, so that no caller can run what a person has not approved.
    const early = before(invocation)
    if (early !== null) return early
    const { wallMs, notes } = planWall(args.timeout_seconds, remainingMs, config.sandbox)
    if (wallMs === null) {
      return answer(notRun(options, 'interrupted', TOO_LATE, { code: args.code, queueMs }))
    }
    const ended = await run({ code: args.code, wallMs, signal, onStdout: text => invocation.stream(text) })
    const interrupted = ended.status === 'cancelled' && signal.reason instanceof Interruption
    const report: SandboxReport = interrupted ? { ...ended, status: 'interrupted' } : ended
    return answer(makeOutcome({ ...options, report, args, wallMs, queueMs, notes }))
  }

  return {
    name: PYTHON_TOOL_NAME,
    description: describePython(config, facts),
    parameters,
    parse: pythonArgumentParser(parameters, config.argumentsMaxBytes),
    before,
    handle,
  }
}
