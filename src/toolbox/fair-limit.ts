/** Runs work when its run's turn has come; rejects as the work does. `run`: aborts when nobody waits any more, which gives up the place. */
export type FairLimit = <T>(run: AbortSignal, work: () => Promise<T>) => Promise<T>

/**
 * At most `most` pieces of work at once. Runs whose work waits take turns, and none has all of the places where there are
 * several, so that one that asks for much holds up nobody else. Work that has waited until its run was over is run at once:
 * it is its own to say so.
 */
export function fairLimit(most: number): FairLimit {
  const mostOfOne = Math.max(1, most - 1)
  const waiting = new Map<AbortSignal, (() => void)[]>()
  const underWay = new Map<AbortSignal, number>()
  let places = most

  const begin = () => {
    for (const [run, starts] of waiting) {
      if (places === 0) return
      if ((underWay.get(run) ?? 0) >= mostOfOne) continue
      const start = starts.shift()
      // Behind the others.
      waiting.delete(run)
      if (starts.length > 0) waiting.set(run, starts)
      start?.()
    }
  }
  const count = (run: AbortSignal, by: 1 | -1) => {
    places -= by
    const now = (underWay.get(run) ?? 0) + by
    if (now === 0) underWay.delete(run)
    else underWay.set(run, now)
  }
  const turn = (run: AbortSignal) =>
    new Promise<boolean>(resolve => {
      const starts = waiting.get(run) ?? []
      const give = () => {
        starts.splice(starts.indexOf(start), 1)
        if (starts.length === 0 && waiting.get(run) === starts) waiting.delete(run)
        resolve(false)
      }
      const start = () => {
        run.removeEventListener('abort', give)
        count(run, 1)
        resolve(true)
      }
      starts.push(start)
      waiting.set(run, starts)
      run.addEventListener('abort', give, { once: true })
      begin()
    })

  return async (run, work) => {
    const hasPlace = run.aborted ? false : await turn(run)
    try {
      return await work()
    } finally {
      if (hasPlace) {
        count(run, -1)
        begin()
      }
    }
  }
}
