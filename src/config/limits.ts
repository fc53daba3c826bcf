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
  const usualWorkspaceBytes = Math.min(256 * MIB, memoryBytes)
  const workspaceBytes = values.SANDBOX_WORKSPACE_MB ?? Math.max(values.SANDBOX_FILE_MB ?? 0, usualWorkspaceBytes)
  if (values.SANDBOX_WORKSPACE_MB === undefined && workspaceBytes > usualWorkspaceBytes) {
    const mib = workspaceBytes / MIB
    warnings.push(
      `SANDBOX_FILE_MB=${mib} raises SANDBOX_WORKSPACE_MB, which is not set, from ${usualWorkspaceBytes / MIB} to ${mib}`,
    )
  }
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
      `the workspace (SANDBOX_WORKSPACE_MB, ${workspaceBytes / MIB} MiB) is larger than the memory limit (SANDBOX_MEMORY_MB=${memoryBytes / MIB}), ` +
        'which counts the bytes of files too: code that fills its workspace runs out of memory first',
    )
  }

  const fit = fittingSlots(host, memoryBytes)
  const slots = values.MAX_CONCURRENT_CALLS ?? Math.max(1, Math.min(fit.byCpu, fit.byMemory))
  const asked =
    values.MAX_CONCURRENT_CALLS === undefined ? 'one call at once (the least)' : `MAX_CONCURRENT_CALLS=${slots}`
  if (slots > fit.byMemory) warnings.push(memoryWarning(asked, slots, memoryBytes, host))
  else if (slots > fit.byCpu) {
    const lower = values.MAX_CONCURRENT_CALLS === undefined || slots === 1 ? '' : ', or lower MAX_CONCURRENT_CALLS'
    warnings.push(
      `${asked} is more than ${Number(host.cpus.toFixed(2))} CPUs serve well (${SLOTS_PER_CPU} for each): code runs slowly; ` +
        `give the container ${slots / SLOTS_PER_CPU} CPUs${lower}`,
    )
  }
  return {
    limits: { wallMs, wallMaxMs, callDeadlineMs, memoryBytes, workspaceBytes, fileBytes, slots },
    faults,
    warnings,
  }
}

function fittingSlots(host: HostFacts, memoryBytes: number): { readonly byCpu: number; readonly byMemory: number } {
  return {
    byCpu: Math.floor(SLOTS_PER_CPU * host.cpus),
    byMemory: Math.max(0, Math.floor((host.memoryBytes - WORKER_BYTES) / memoryBytes)),
  }
}

function memoryWarning(asked: string, slots: number, memoryBytes: number, host: HostFacts): string {
  const needMib = (WORKER_BYTES + slots * memoryBytes) / MIB
  const lower = slots === 1 ? 'SANDBOX_MEMORY_MB' : 'MAX_CONCURRENT_CALLS or SANDBOX_MEMORY_MB'
  const danger =
    slots === 1
      ? 'a call that uses its limit may be ended by the kernel, and the worker with it'
      : 'calls that use their limits together may run out'
  return (
    `${asked} needs ${WORKER_BYTES / MIB} MiB for the worker and ${slots} × ${memoryBytes / MIB} MiB, ${needMib} MiB of memory, ` +
    `and there are ${Math.floor(host.memoryBytes / MIB)} MiB: ${danger}; ` +
    `give the container at least ${needMib} MiB, or lower ${lower}`
  )
}
