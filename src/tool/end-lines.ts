import type { LimitHit, SandboxReport, ToolCallRecord } from '../outcome.js'
import { mebibytes, seconds } from '../quantities.js'
import { showOnOneLine } from './readable-text.js'

/** How the code ended, as phrases for bracketed lines; none where it completed without meeting a limit. */
export function endLines(report: SandboxReport, wallMs: number, toolCalls: readonly ToolCallRecord[]): string[] {
  const { status, limit, exitCode } = report
  switch (status) {
    case 'completed':
      return limitReached(limit)
    case 'failed':
      return [exitCode === null ? 'failed without an exit code' : `exit code ${exitCode}`, ...limitReached(limit)]
    case 'timed_out':
      return [`timed out after ${seconds(limit?.name === 'wall' ? limit.value : wallMs)}`, ...madeCalls(toolCalls)]
    case 'out_of_memory':
      return [outOfMemory(report), ...madeCalls(toolCalls)]
    case 'limit_exceeded':
      return [
        limit === null ? 'ended: over a limit' : `ended: over the limit of ${amount(limit)}`,
        ...madeCalls(toolCalls),
      ]
    case 'crashed':
      return [crashed(report.signal), ...limitReached(limit), ...madeCalls(toolCalls)]
    case 'cancelled':
    case 'interrupted':
      return [cutOff(status, report.reason, report.started), ...madeCalls(toolCalls)]
  }
}

/** "interrupted: the worker is shutting down; not run, safe to retry". Nobody wants a cancelled call again, so that one does not invite to it. */
export function cutOff(status: 'cancelled' | 'interrupted', reason: string | null, started: boolean): string {
  const why = reason === null ? '' : `: ${showOnOneLine(reason, 500)}`
  const notRun = status === 'cancelled' ? 'not run' : 'not run, safe to retry'
  return `${status}${why}; ${started ? 'the code may have run in part' : notRun}`
}

/** What has happened outside of the sandbox can't be undone by running again: the model must know of it. */
export function madeCalls(toolCalls: readonly ToolCallRecord[]): string[] {
  if (toolCalls.length === 0) return []
  const calls = toolCalls.map(call => `${showOnOneLine(call.tool, 80)} ${call.ok ? 'ok' : 'failed'}`)
  return [`tool calls made before the end: ${calls.join(', ')}`]
}

function limitReached(limit: LimitHit | null): string[] {
  return limit === null ? [] : [`limit reached: ${amount(limit)}`]
}

function outOfMemory({ limit, usage }: SandboxReport): string {
  const peak = mebibytes(limit?.peak ?? usage.max_rss_bytes)
  return limit === null ? `out of memory: peak ${peak}` : `out of memory: limit ${mebibytes(limit.value)}, peak ${peak}`
}

/** "64 processes and threads (peak 65)" */
function amount(limit: LimitHit): string {
  const inUnit = (value: number) => quantity(value, limit.unit)
  const peak = limit.peak === null ? '' : ` (peak ${inUnit(limit.peak)})`
  switch (limit.name) {
    case 'wall':
      return `${inUnit(limit.value)} wall time${peak}`
    case 'cpu':
      return `${inUnit(limit.value)} CPU time${peak}`
    case 'memory':
      return `${inUnit(limit.value)} memory${peak}`
    case 'processes':
      return `${inUnit(limit.value)} processes and threads${peak}`
    case 'workspace_bytes':
      return `${inUnit(limit.value)} for all files together${peak}`
    case 'workspace_files':
      return `${inUnit(limit.value)} files in the workspace${peak}`
    case 'file_size':
      return `${inUnit(limit.value)} for one file${peak}`
    case 'open_files':
      return `${inUnit(limit.value)} open files${peak}`
    case 'output':
      return `${inUnit(limit.value)} output${peak}`
    case 'tool_calls':
      return `${inUnit(limit.value)} tool calls${peak}`
  }
}

function quantity(value: number, unit: LimitHit['unit']): string {
  switch (unit) {
    case 'ms':
      return seconds(value)
    case 'bytes':
      return value >= 1024 * 1024 ? mebibytes(value) : `${value} bytes`
    case 'files':
    case 'processes':
    case 'calls':
      return String(value)
  }
}

function crashed(signal: string | null): string {
  if (signal === null) return 'crashed'
  const hint = SIGNAL_HINTS.get(signal)
  return hint === undefined ? `crashed: ${signal}` : `crashed: ${signal}, ${hint}`
}

const SIGNAL_HINTS = new Map([
  ['SIGSEGV', 'an invalid memory access: endless recursion, ctypes or a C extension'],
  ['SIGBUS', 'an invalid memory access: often a mapped file that was cut, or a full disk'],
  ['SIGABRT', 'the process gave up itself: a failed assertion in C code, or os.abort()'],
  ['SIGFPE', 'an arithmetic error in C code, such as an integer division by zero'],
  ['SIGILL', 'an invalid instruction: a C extension built for another processor'],
  ['SIGSYS', 'a system call that the sandbox does not allow'],
  ['SIGKILL', 'which the sandbox did not send: the code did, or the system was out of memory'],
  ['SIGTERM', 'which the sandbox did not send: the code ended itself'],
  ['SIGXCPU', 'over a CPU time limit'],
  ['SIGXFSZ', 'a file grew over its size limit'],
  ['SIGPIPE', 'a write to a pipe that nobody reads'],
  ['SIGALRM', 'an alarm that the code had set'],
])
