import type { Variables } from '../config.js'
import type { HostFacts } from '../host.js'
import type { Fault } from './report.js'

const MIB = 1024 * 1024
/** The worker itself, the template and the zygote. */
const WORKER_BYTES = 512 * MIB
const SLOTS_PER_CPU = 4

/** The limits that depend on each other or on the host; durations in ms, sizes in bytes. */
interface RelatedLimits {
  readonly wallMs: number
  readonly wallMaxMs: number
  readonly callDeadlineMs: number
  readonly memoryBytes: number
  readonly workspaceBytes: number
  readonly fileBytes: number
  readonly slots: number
}

/**
 * Fills in what is unset so that it fits to what is set: setting one of a pair never contradicts the other's default. Only
 * two values that were both given can contradict each other.
 */
export function relatedLimits(
  values: Variables,
  host: HostFacts,
): { readonly limits: RelatedLimits; readonly faults: readonly Fault[]; readonly warnings: readonly string[] } {
  const faults: Fault[] = []
  const warnings: string[] = []

  const callDeadlineMs = values.CALL_DEADLINE_MS ?? 585_000
  // Time for the queue, the start and the post; a tenth where the deadline is short.
  const reserveMs = Math.min(45_000, Math.floor(callDeadlineMs / 10))
  const wallMaxMs =
    values.SANDBOX_WALL_MAX_MS ?? Math.max(values.SANDBOX_WALL_MS ?? 0, Math.min(540_000, callDeadlineMs - reserveMs))
  const wallMs = values.SANDBOX_WALL_MS ?? Math.min(60_000, wallMaxMs)
  if (wallMs > wallMaxMs) {
    faults.push({ variable: 'SANDBOX_WALL_MS', right: `give at most SANDBOX_WALL_MAX_MS, which is ${wallMaxMs}` })
  }
  if (wallMaxMs >= callDeadlineMs) {
    const variable = values.SANDBOX_WALL_MAX_MS === undefined ? 'SANDBOX_WALL_MS' : 'SANDBOX_WALL_MAX_MS'
    faults.push({ variable, right: `give less than CALL_DEADLINE_MS, which is ${callDeadlineMs}` })
  }

  const memoryBytes = values.SANDBOX_MEMORY_MB ?? 512 * MIB
  const workspaceBytes =
    values.SANDBOX_WORKSPACE_MB ?? Math.max(values.SANDBOX_FILE_MB ?? 0, Math.min(256 * MIB, memoryBytes))
  const fileBytes = values.SANDBOX_FILE_MB ?? Math.min(128 * MIB, workspaceBytes)
  if (fileBytes > workspaceBytes) {
    faults.push({
      variable: 'SANDBOX_FILE_MB',
      right: `give at most SANDBOX_WORKSPACE_MB, which is ${workspaceBytes / MIB}`,
    })
  }
  // The code becomes a file in the workspace; the default always fits, as a file may have 1 MiB at least.
  if (values.ARGUMENTS_MAX_BYTES > fileBytes) {
    const right = `give at most SANDBOX_FILE_MB, which is ${fileBytes} bytes: the code is run from a file`
    faults.push({ variable: 'ARGUMENTS_MAX_BYTES', right })
  }
  if (workspaceBytes > memoryBytes) {
    warnings.push(
      `the workspace (${workspaceBytes / MIB} MiB) is larger than the memory limit (SANDBOX_MEMORY_MB=${memoryBytes / MIB}), ` +
        'which counts the bytes of files too: code that fills its workspace runs out of memory first',
    )
  }

  const fit = fittingSlots(host, memoryBytes)
  const slots = values.MAX_CONCURRENT_CALLS ?? Math.max(1, fit.slots)
  if (slots > fit.slots) {
    const asked =
      values.MAX_CONCURRENT_CALLS === undefined ? 'one call at once (the least)' : `MAX_CONCURRENT_CALLS=${slots}`
    warnings.push(
      `${asked} is more than this machine surely holds: ${fit.arithmetic}; calls that use their limits together may run out`,
    )
  }
  return {
    limits: { wallMs, wallMaxMs, callDeadlineMs, memoryBytes, workspaceBytes, fileBytes, slots },
    faults,
    warnings,
  }
}

function fittingSlots(host: HostFacts, memoryBytes: number): { readonly slots: number; readonly arithmetic: string } {
  const byCpu = Math.floor(SLOTS_PER_CPU * host.cpus)
  const byMemory = Math.max(0, Math.floor((host.memoryBytes - WORKER_BYTES) / memoryBytes))
  const slots = Math.min(byCpu, byMemory)
  const cpus = Number(host.cpus.toFixed(2))
  const hostMib = Math.floor(host.memoryBytes / MIB)
  return {
    slots,
    arithmetic:
      `min(${SLOTS_PER_CPU} × ${cpus} CPUs = ${byCpu}, ` +
      `(${hostMib} MiB − ${WORKER_BYTES / MIB} MiB) ÷ ${memoryBytes / MIB} MiB = ${byMemory}) = ${slots}`,
  }
}
