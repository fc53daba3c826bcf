import type { SandboxConfig } from '../config.js'
import { sharesFor } from './capture.js'

/** The limits of one sandbox, as the Python side reads them. */
export interface WireLimits {
  readonly memory_bytes: number
  readonly processes: number
  readonly workspace_bytes: number
  readonly workspace_files: number
  readonly file_bytes: number
  readonly open_files: number
  readonly stdout_first: number
  readonly stdout_last: number
  readonly stderr_first: number
  readonly stderr_last: number
}

export function wireLimits(config: SandboxConfig, streamMaxBytes: number): WireLimits {
  const stdout = sharesFor(config.stdoutKeptBytes, streamMaxBytes)
  const stderr = sharesFor(config.stderrKeptBytes, 0)
  return {
    memory_bytes: config.memoryBytes,
    processes: config.processes,
    workspace_bytes: config.workspaceBytes,
    workspace_files: config.workspaceFiles,
    file_bytes: config.fileBytes,
    open_files: config.openFiles,
    stdout_first: stdout.firstBytes,
    stdout_last: stdout.lastBytes,
    stderr_first: stderr.firstBytes,
    stderr_last: stderr.lastBytes,
  }
}
