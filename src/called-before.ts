import type { ClaimedCall, Journal } from './journal/journal.js'
import type { CalledTools } from './outcome.js'
import { calledFrom } from './toolbox/replay.js'

/**
 * The tools that the code of a call has called so far, in whatever phase and life of the worker: no end of a call may be told without
 * having asked this, since "not run, safe to retry" would have them called twice. Never rejects.
 */
export async function calledBefore(
  call: Pick<ClaimedCall, 'fcall_id'>,
  { journal, mask = text => text }: { readonly journal: Journal; mask?(text: string): string },
): Promise<CalledTools> {
  return calledFrom(await journal.toolLog(call).earlier(), mask)
}
