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
  start(): void
  refuse(reason: Error): void
}

/**
 * Who runs when. At most `slots` at once; those who wait are served round robin over their groups, and one group gets at
 * most half of the slots while others wait, so that a flood of one customer's calls does not keep the rest out.
 */
export class Admission {
  readonly #options: AdmissionOptions
  readonly #limit: LimitFunction
  /** In the order in which the groups are served next. */
  readonly #queues = new Map<string, Waiting[]>()
  readonly #runningOf = new Map<string, number>()
  #running = 0
  #waiting = 0
  /** Set by close(). */
  #closed: Error | null = null

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#limit = pLimit(options.slots)
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
    if (this.#waiting >= this.#options.queueMax && this.#running >= this.#options.slots) {
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
        start: () => {
          signal.removeEventListener('abort', leave)
          this.#running++
          this.#runningOf.set(group, (this.#runningOf.get(group) ?? 0) + 1)
          this.#limit(() => task(performance.now() - arrived))
            .finally(() => this.#done(group))
            .then(resolve, reject)
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
      this.#pump()
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

  #done(group: string): void {
    this.#running--
    const left = (this.#runningOf.get(group) ?? 1) - 1
    if (left > 0) this.#runningOf.set(group, left)
    else this.#runningOf.delete(group)
    this.#pump()
    this.#changed()
  }

  #pump(): void {
    while (this.#running < this.#options.slots) {
      const next = this.#next()
      if (next === undefined) return
      next.start()
    }
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
