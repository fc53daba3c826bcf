import { createContext, Script } from 'node:vm'

/** Work that took longer than it may. */
export class TookTooLong extends Error {
  override readonly name = 'TookTooLong'
}

/** Of `run`, which calls what it is given. Made at the first use. */
let run: { readonly script: Script; readonly box: { work: (() => unknown) | null } } | null = null

/**
 * Does synchronous work that is ended from outside when it takes longer than `limitMs`: schemas and what is checked by them come
 * from outside, and patterns and alternatives in each other can take time without end. Costs about 0.1 ms. What the work was
 * changing when it was ended must not be used any more. Throws TookTooLong, and what the work throws.
 */
export function withinTime<T>(limitMs: number, work: () => T): T {
  if (run === null) {
    const box = { work: null }
    run = { script: new Script('work()'), box: createContext(box) as typeof box }
  }
  run.box.work = work
  try {
    return run.script.runInContext(run.box, { timeout: limitMs }) as T
  } catch (error) {
    if ((error as NodeJS.ErrnoException | null)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw new TookTooLong()
    throw error
  } finally {
    run.box.work = null
  }
}
