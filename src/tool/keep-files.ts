import type { ThreadFiles } from '../files/thread-files.js'
import type { FileRecord, SandboxReport } from '../outcome.js'

/**
 * Stores the files of a run whose outcome is final, and lets go of their contents: the report with where each file is kept, and what the model
 * has to know. What a store that hangs still holds counts in the worker's memory for as long. `thread` null: nothing is kept. Never rejects.
 */
export async function keepFiles(
  thread: ThreadFiles | null,
  report: SandboxReport,
  signal: AbortSignal,
): Promise<{ readonly report: SandboxReport; readonly notes: readonly string[] }> {
  const { collected, ...rest } = report
  let done = Promise.resolve()
  try {
    if (thread === null || collected === undefined) return { report: rest, notes: [] }
    if (report.status === 'cancelled' || report.status === 'interrupted') {
      const some = collected.files.length + collected.unlisted.length > 0
      return {
        report: rest,
        notes: some
          ? [`not kept for later calls, since the call was ${report.status}: its files and what it changed`]
          : [],
      }
    }
    const mayForget = report.status === 'completed' || report.status === 'failed'
    const kept = await thread.keep(collected, mayForget, signal)
    const { stored, notes } = kept
    done = kept.done
    return { report: { ...rest, files: report.files.map(file => withPlace(file, stored.get(file.path))) }, notes }
  } finally {
    void done.then(() => collected?.release())
  }
}

function withPlace(file: FileRecord, kept: string | undefined): FileRecord {
  return kept === undefined ? file : { ...file, kept }
}
