import { createHash } from 'node:crypto'
import type { Config } from '../config.js'
import type { CapturedText, Layer, SandboxFacts, Status, ToolCallRecord, Usage } from '../outcome.js'
import { cleanText } from './readable-text.js'

/** What every outcome of one worker has in common. */
export interface OutcomeContext {
  readonly config: Config
  readonly facts: SandboxFacts
  /** Version and id of the worker. */
  readonly version: string
  readonly workerId: string
  /** Masks the secrets that the worker knows, in all that is in an outcome; left out: nothing is masked. */
  mask?(text: string): string
}

export interface Run {
  readonly status: Status
  /** Whether any of the code may have run. */
  readonly started: boolean
  /** The code that ran or was to run; null where the arguments never yielded any. */
  readonly code: string | null
  /** The wall time in force for this run; null where none was set. */
  readonly wallMs: number | null
  readonly usage: Usage
  readonly stdout: CapturedText
  readonly stderr: CapturedText
  readonly toolCalls: readonly ToolCallRecord[]
}

/**
 * Where a result comes from and under which conditions it was made; JSON-serialisable, well-formed. `layers` maps each
 * layer to true where it was in force, else to the reason. `cpu_ms` among the limits is null where it follows the wall
 * time. `truncation` is null where everything was kept. The hash is of the code's UTF-8 bytes.
 */
export function provenanceOf({ config, facts, version, workerId }: OutcomeContext, run: Run): Record<string, unknown> {
  const { sandbox } = config
  return {
    system: config.serviceName,
    worker: { version, id: workerId },
    tier: facts.tier,
    policy: sandbox.policy,
    layers: Object.fromEntries(facts.layers.map(layer => [layer.name, inForce(layer)])),
    interpreter: { version: facts.interpreter.version, path: cleanText(facts.interpreter.path) },
    installed: { ...facts.installed },
    code_sha256: run.code === null ? null : createHash('sha256').update(run.code, 'utf8').digest('hex'),
    status: run.status,
    started: run.started,
    limits: {
      wall_ms: run.wallMs,
      cpu_ms: sandbox.cpuMs,
      memory_bytes: sandbox.memoryBytes,
      processes: sandbox.processes,
      workspace_bytes: sandbox.workspaceBytes,
      workspace_files: sandbox.workspaceFiles,
      file_bytes: sandbox.fileBytes,
      open_files: sandbox.openFiles,
      stdout_kept_bytes: sandbox.stdoutKeptBytes,
      stderr_kept_bytes: sandbox.stderrKeptBytes,
    },
    usage: { ...run.usage },
    tool_calls: run.toolCalls.map(call => ({
      ...call,
      tool: cleanText(call.tool),
      args_preview: cleanText(call.args_preview),
      error: call.error === null ? null : cleanText(call.error),
    })),
    truncation: truncationOf(run),
  }
}

/** What remains of a provenance that is too long. */
const LEAST = new Set(['system', 'status', 'started', 'code_sha256', 'limit', 'dollars', 'subchats_started'])

/** A provenance, as JSON, without what may be of any length; null where that would not be shorter. */
export function leastProvenance(provenance: string): string | null {
  const entries = Object.entries(JSON.parse(provenance) as Record<string, unknown>)
  const least = JSON.stringify({ ...Object.fromEntries(entries.filter(([name]) => LEAST.has(name))), truncated: true })
  return Buffer.byteLength(least, 'utf8') < Buffer.byteLength(provenance, 'utf8') ? least : null
}

function inForce(layer: Layer): true | string {
  return layer.inForce || cleanText(layer.why ?? 'not in force')
}

function truncationOf({ stdout, stderr }: Run): Record<string, unknown> | null {
  const cut = Object.entries({ stdout, stderr }).filter(([, captured]) => captured.truncated)
  if (cut.length === 0) return null
  return Object.fromEntries(cut.map(([name, { bytes_kept, bytes_total }]) => [name, { bytes_kept, bytes_total }]))
}
