import pLimit, { type LimitFunction } from 'p-limit'

/** More calls wait than the queue takes: answered "busy, not run, safe to retry". */
export class QueueFull extends Error {
  override readonly name = 'QueueFull'
}

export interface AdmissionOptions {
  readonly slots: number
  /** Calls that may wait; beyond, they are refused at once. */
  readonly queueMax: number
  /** Told after each change of the two counts. */
  onChange?(running: number, waiting: number): void
}

interface Waiting {
  readonly group: string
  /** Resolves when it has ended, however; never rejects. */
  start(): Promise<void>
  refuse(reason: Error): void
}

/**
 * Who runs when. p-limit bounds how many run at once; whose turn it is, is decided when it gives a slot: those who wait are
 * served round robin over their groups, and one group gets at most half of the slots while others wait, so that a flood of one
 * customer's calls does not keep the rest out.
 */
export class Admission {
  readonly #options: AdmissionOptions
  /** Holds one turn for each call that waits, not the call itself. */
  readonly #turns: LimitFunction
  /** In the order in which the groups are served next. */
  readonly #queues = new Map<string, Waiting[]>()
  readonly #runningOf = new Map<string, number>()
  #running = 0
  #waiting = 0
  /** Set by close(). */
  #closed: Error | null = null

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#turns = pLimit(options.slots)
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#waiting
  }

  /**
   * Runs the task when it is its group's turn and a slot is free; gives it the milliseconds that it waited.
   *
   * Rejects with QueueFull, with the signal's reason when that aborts before the start, or with the reason of close().
   */
  run<T>(group: string, signal: AbortSignal, task: (queueMs: number) => Promise<T>): Promise<T> {
    if (this.#closed !== null) return Promise.reject(this.#closed)
    // A slot that is free is taken a moment later, so what waits counts against the free ones too.
    if (this.#waiting + this.#running >= this.#options.queueMax + this.#options.slots) {
      return Promise.reject(new QueueFull(`${this.#waiting} calls are waiting`))
    }
    const arrived = performance.now()
    return new Promise<T>((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason)
        return
      }
      const entry: Waiting = {
        group,
        start: async () => {
          signal.removeEventListener('abort', leave)
          try {
            resolve(await task(performance.now() - arrived))
          } catch (error) {
            reject(error)
          }
        },
        refuse: reason => {
          signal.removeEventListener('abort', leave)
          reject(reason)
        },
      }
      const leave = () => {
        this.#remove(entry)
        this.#changed()
        reject(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      const queue = this.#queues.get(group)
      if (queue === undefined) this.#queues.set(group, [entry])
      else queue.push(entry)
      this.#waiting++
      void this.#turns(() => this.#serve())
      this.#changed()
    })
  }

  /** Nothing starts any more: what waits and what still comes is rejected with `reason`; what runs goes on. */
  close(reason: Error): void {
    this.#closed = reason
    const waiting = [...this.#queues.values()].flat()
    this.#queues.clear()
    this.#waiting = 0
    for (const entry of waiting) entry.refuse(reason)
    this.#changed()
  }

  /** One turn: whoever is next runs. The turn of a call that has left meanwhile serves another one, or nobody. */
  async #serve(): Promise<void> {
    const next = this.#next()
    if (next === undefined) return
    const { group } = next
    this.#running++
    this.#runningOf.set(group, (this.#runningOf.get(group) ?? 0) + 1)
    this.#changed()
    await next.start()
    this.#running--
    const left = (this.#runningOf.get(group) ?? 1) - 1
    if (left > 0) this.#runningOf.set(group, left)
    else this.#runningOf.delete(group)
    this.#changed()
  }

  /**
   * The first of the next group in turn. A group that has its share comes after all others, but it comes: a slot that stays
   * free while calls wait helps nobody.
   */
  #next(): Waiting | undefined {
    const share = Math.max(1, Math.floor(this.#options.slots / 2))
    const groups = [...this.#queues.keys()]
    const running = (name: string) => this.#runningOf.get(name) ?? 0
    const group = groups.find(name => running(name) < share) ?? groups.toSorted((a, b) => running(a) - running(b))[0]
    if (group === undefined) return undefined
    const queue = this.#queues.get(group) ?? []
    const entry = queue.shift()
    this.#queues.delete(group)
    if (queue.length > 0) this.#queues.set(group, queue) // to the end of the line
    if (entry !== undefined) this.#waiting--
    return entry
  }

  #remove(entry: Waiting): void {
    const queue = this.#queues.get(entry.group)
    const index = queue?.indexOf(entry) ?? -1
    if (queue === undefined || index < 0) return
    queue.splice(index, 1)
    if (queue.length === 0) this.#queues.delete(entry.group)
    this.#waiting--
  }

  #changed(): void {
    this.#options.onChange?.(this.#running, this.#waiting)
  }
}
