import os from 'node:os'
import type { SandboxConfig } from '../config.js'
import type { LimitHit, SandboxReport } from '../outcome.js'
import type { GuestExit, RunEnd } from './messages.js'

export interface Verdict {
  readonly status: SandboxReport['status']
  readonly exitCode: number | null
  readonly signal: string | null
  readonly limit: LimitHit | null
}

/** Where a number has several names, the one that people know: SIGABRT, SIGIO and SIGCHLD. */
const ALIASES = new Set(['SIGIOT', 'SIGPOLL', 'SIGCLD', 'SIGUNUSED'])
const SIGNAL_NAMES = new Map(
  Object.entries(os.constants.signals)
    .filter(([name]) => !ALIASES.has(name))
    .map(([name, number]) => [number, name]),
)

/** Names the end of a run: why we ended it, else what the kernel says of the guest. The code has no say in it. */
export function verdict(
  end: RunEnd,
  exit: GuestExit,
  limits: { readonly config: SandboxConfig; readonly wallMs: number; readonly cpuMs: number },
): Verdict {
  const { config } = limits
  const signal = exit.signal === null ? null : (SIGNAL_NAMES.get(exit.signal) ?? `SIG${exit.signal}`)
  const ended = (status: Verdict['status'], limit: LimitHit | null): Verdict => ({
    status,
    exitCode: null,
    signal: null,
    limit,
  })
  switch (end.cause) {
    case 'wall':
      return ended('timed_out', { name: 'wall', value: limits.wallMs, unit: 'ms', peak: end.run_ms })
    case 'cancelled':
      return ended('cancelled', null)
    case 'memory':
      return ended('out_of_memory', { name: 'memory', value: config.memoryBytes, unit: 'bytes', peak: end.figure })
    case 'cpu':
      return ended('limit_exceeded', { name: 'cpu', value: limits.cpuMs, unit: 'ms', peak: end.figure })
    case 'processes':
      return ended('limit_exceeded', {
        name: 'processes',
        value: config.processes,
        unit: 'processes',
        peak: end.figure,
      })
    case 'workspace_bytes':
      return ended('limit_exceeded', {
        name: 'workspace_bytes',
        value: config.workspaceBytes,
        unit: 'bytes',
        peak: end.figure,
      })
    case 'workspace_files':
      return ended('limit_exceeded', {
        name: 'workspace_files',
        value: config.workspaceFiles,
        unit: 'files',
        peak: end.figure,
      })
    case null:
      if (end.oom_bytes != null && signal === 'SIGKILL') {
        return ended('out_of_memory', { name: 'memory', value: config.memoryBytes, unit: 'bytes', peak: end.oom_bytes })
      }
      return {
        status: signal !== null ? 'crashed' : exit.code === 0 ? 'completed' : 'failed',
        exitCode: exit.code,
        signal,
        limit: limitInside(end, config),
      }
  }
}

/** A limit that raised inside the code and left it to end by itself. */
function limitInside(end: RunEnd, config: SandboxConfig): LimitHit | null {
  const met = end.workspace_full ? 'workspace_bytes' : end.workspace_files_full ? 'workspace_files' : end.hint
  switch (met) {
    case 'workspace_bytes':
      return { name: 'workspace_bytes', value: config.workspaceBytes, unit: 'bytes', peak: end.workspace_bytes }
    case 'workspace_files':
      return { name: 'workspace_files', value: config.workspaceFiles, unit: 'files', peak: end.workspace_files }
    case 'file_size':
      return { name: 'file_size', value: config.fileBytes, unit: 'bytes', peak: config.fileBytes }
    case 'open_files':
      return { name: 'open_files', value: config.openFiles, unit: 'files', peak: config.openFiles }
    case 'processes':
      return { name: 'processes', value: config.processes, unit: 'processes', peak: end.peak_processes }
    case null:
      return null
  }
}
