/** How a call ended, as every result is made from it and as `exec --json` prints it. Field names are the printed ones. */

export const STATUSES = [
  'completed', // exit code 0
  'failed', // an exception or another exit code
  'timed_out',
  'out_of_memory',
  'limit_exceeded', // another limit, and we ended the run
  'crashed', // a signal that we did not send
  'cancelled',
  'rejected', // bad arguments: nothing ran
  'declined', // a person said no
  'needs_confirmation',
  'interrupted', // worker, sandbox machinery or drain ended it or kept it from starting
] as const

export type Status = (typeof STATUSES)[number]

type LimitName =
  | 'wall'
  | 'cpu'
  | 'memory'
  | 'processes'
  | 'workspace_bytes'
  | 'workspace_files'
  | 'file_size'
  | 'open_files'
  | 'output'
  | 'tool_calls'

/** The limit that was met: its value, and the highest use seen, both in `unit`; `peak` is null where it was not measured. */
export interface LimitHit {
  readonly name: LimitName
  readonly value: number
  readonly unit: 'ms' | 'bytes' | 'files' | 'processes' | 'calls'
  readonly peak: number | null
}

/**
 * What was kept of one output stream. `text` is well-formed, without U+0000; the counts are bytes as the code wrote them, less what
 * it drew over.
 */
export interface CapturedText {
  readonly text: string
  readonly bytes_total: number
  readonly bytes_kept: number
  readonly truncated: boolean
}

/** One part of a multimodal answer, as the backend takes it. */
export interface Part {
  readonly m_type: string
  readonly m_content: string
}

/** One tool that the code has called: category.tool. `error`: what it was told instead of a result, or null. */
export interface ToolCallRecord {
  readonly tool: string
  readonly ok: boolean
  readonly ms: number
  readonly args_preview: string
  readonly error: string | null
  /** Of the result, as JSON. */
  readonly bytes: number
  readonly dollars: number
}

/** The tools that the code of a call has called so far, before and after a person was asked, in this life of the worker and the one before. */
export interface CalledTools {
  readonly calls: readonly ToolCallRecord[]
  /** false: it has called others too, or may have, of which nothing is known any more. */
  readonly isWhole: boolean
}

/** A file that the run made or changed in its workspace: path relative to the workspace. */
export interface FileRecord {
  readonly path: string
  readonly bytes: number
  readonly mime: string
  /** Where later calls of the thread find it, as a URI; absent: they do not. */
  readonly kept?: string
}

/** A file that the run made or changed, with its content where that was wanted and could be had. */
export interface CollectedFile extends FileRecord {
  readonly content: Buffer | null
  /** Why it could not be had, as a phrase for the model. */
  readonly why: string | null
}

export interface CollectedFiles {
  readonly files: readonly CollectedFile[]
  /** false: the code has made more files than these; the notes of the report say why. */
  readonly isAll: boolean
  /** Paths of files that were put in place before and are not there any more. */
  readonly gone: readonly string[]
  /** Paths of those that are neither as they were nor among `files`. */
  readonly unlisted: readonly string[]
  /** To be called when nothing of the contents is needed any more: they count in the memory of the worker. */
  release(): void
}

export interface Usage {
  readonly queue_ms: number
  readonly start_ms: number
  readonly run_ms: number
  readonly cpu_ms: number
  readonly max_rss_bytes: number
}

export type TierName = 'namespaces' | 'landlock'

/** One layer of the sandbox: whether it is in force, and where it is not, why. */
export interface Layer {
  readonly name: string
  readonly inForce: boolean
  readonly why?: string
}

/** What the sandbox room reports of one run; the tool room makes the outcome from it. */
export interface SandboxReport {
  readonly status:
    | 'completed'
    | 'failed'
    | 'timed_out'
    | 'out_of_memory'
    | 'limit_exceeded'
    | 'crashed'
    | 'cancelled'
    | 'interrupted'
  readonly exitCode: number | null
  /** Signal name such as SIGSEGV, or null. */
  readonly signal: string | null
  readonly limit: LimitHit | null
  readonly stdout: CapturedText
  readonly stderr: CapturedText
  /** repr of the last expression's value, or null. Well-formed, bounded. */
  readonly value: string | null
  /** What the model is shown in its place, such as the table of a DataFrame; null where that is the repr. */
  readonly valueText: string | null
  /** What it has shown besides its text. */
  readonly shown: {
    readonly parts: readonly Part[]
    readonly images: number
    /** Name, and the rest of a sentence that begins with it; both may be the code's own words. */
    readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
  }
  readonly files: readonly FileRecord[]
  /** Contents of them; absent where none were asked for, or nothing ran to its end. */
  readonly collected?: CollectedFiles
  /** Sentences the model must know, without brackets (for example "files: 3 more not listed"). */
  readonly notes: readonly string[]
  /** Why it was cancelled or interrupted, as a phrase for the model; null otherwise. */
  readonly reason: string | null
  /** Whether any of the code may have run. */
  readonly started: boolean
  /** Milliseconds from the request until the code began, then until it ended; CPU of the whole tree; bytes. */
  readonly usage: Omit<Usage, 'queue_ms'>
}

/** What the sandbox room knows of itself after its start: goes into the description, provenance, log and readiness. */
export interface SandboxFacts {
  readonly tier: TierName
  readonly layers: readonly Layer[]
  readonly interpreter: { readonly path: string; readonly version: string }
  /** Preloaded modules with versions, for example {numpy: "1.24.2"}. */
  readonly installed: Readonly<Record<string, string>>
  /** Configured ones that are not preloaded, each with the reason. */
  readonly missing: Readonly<Record<string, string>>
  /** Folders of the interpreter's path that sandboxes do not see, as they may hold more than libraries. */
  readonly notShown?: readonly string[]
  /** False where processes can't be started inside (landlock tier). */
  readonly subprocesses: boolean
}

export interface Outcome {
  readonly status: Status
  readonly exit_code: number | null
  readonly signal: string | null
  readonly limit: LimitHit | null
  /** What the model reads; never empty. */
  readonly content: string
  /** null where nothing but text is there; else `content` as a text, then images and texts in the order shown. */
  readonly parts: readonly Part[] | null
  readonly stdout: CapturedText
  readonly stderr: CapturedText
  readonly value: string | null
  /** What `content` shows in its place, such as the table of a DataFrame; null where that is the repr. */
  readonly value_text: string | null
  readonly tool_calls: readonly ToolCallRecord[]
  readonly files: readonly FileRecord[]
  readonly usage: Usage
  readonly provenance: Readonly<Record<string, unknown>>
  readonly dollars: number
}
