import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 20
/** What has just begun ends soon. */
const LEAST_MS = 500

/** Resolves when no thread of Node's waits for a disk or a name server any more, or at `untilMs` (monotonic) and not before half a second. */
export async function threadsAreFree(untilMs = 0): Promise<void> {
  const endMs = Math.max(untilMs, performance.now() + LEAST_MS)
  while (hasBusyThread() && performance.now() < endMs) await sleep(POLL_MS)
}

/**
 * Ends the process, after the last words of its log. Node waits for its threads whatever ends it: where one still waits for a disk or a name
 * server, nothing does but SIGKILL. `code`: default process.exitCode.
 */
export function exitNow(code?: number): never {
  if (hasBusyThread()) process.on('exit', () => process.kill(process.pid, 'SIGKILL'))
  process.exit(code)
}

function hasBusyThread(): boolean {
  return process.getActiveResourcesInfo().some(name => /^(FS|FileHandleClose|GetAddrInfo)Req/.test(name))
}
