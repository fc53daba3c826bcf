import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { STATUSES } from '../outcome.js'
import { type HandledCall, IMPAIRMENTS, REFUSALS, type WorkerIdentity, type WorkerStatus } from './status.js'

const PREFIX = 'python_execute_'
/** Seconds. A sandbox is parked in advance, so the first buckets tell whether there was one. */
const START_BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const CALL_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
/** Of HandledCall: the limits at which we end code, and a person's cancellation. */
const KILL_CAUSES = ['wall', 'cpu', 'memory', 'processes', 'workspace_bytes', 'workspace_files', 'cancelled']
const SESSION_ENDS = ['network', 'directed', 'auth', 'forbidden']
const POST_FAILURES = ['gave_up', 'refused', 'forbidden', 'aborted']
const QUEUE_BUCKETS = [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300]

/**
 * The worker's metrics in Prometheus' text format; no label holds an id. Times are seconds, sizes bytes. Each label value that is known
 * beforehand is there with 0 from the start: what appears as 1 is no increase to Prometheus.
 */
export class Metrics {
  readonly #registry = new Registry()
  readonly #build: Gauge
  readonly #calls: Histogram
  readonly #queue: Histogram
  readonly #start: Histogram
  readonly #callsRefused: Counter
  readonly #kills: Counter
  readonly #failedPosts: Counter
  readonly #refused: Counter
  readonly #lost: Counter
  readonly #reconnects: Counter
  readonly #dropped: Counter
  readonly #dollars: Counter

  constructor(status: () => WorkerStatus | null) {
    const registers = [this.#registry]
    const name = (rest: string) => ({ name: PREFIX + rest, registers })
    const gauge = (rest: string, help: string, read: (status: WorkerStatus) => number) =>
      new Gauge({
        ...name(rest),
        help,
        collect() {
          const now = status()
          if (now !== null) this.set(read(now))
        },
      })
    collectDefaultMetrics({ register: this.#registry })
    gauge('slots', 'Calls that may run at once', ({ slots }) => slots)
    gauge('slots_used', 'Calls that run now', ({ running }) => running)
    gauge('calls_waiting', 'Calls that wait for a slot', ({ waiting }) => waiting)
    gauge('ready', '1 while calls are taken, or would be were a slot free', ({ reasons }) =>
      Number(reasons.length === 0),
    )
    new Gauge({
      ...name('impaired'),
      help: '1 while this is wrong, and no calls are taken for it',
      labelNames: ['what'],
      collect() {
        const now = status()
        if (now !== null) for (const what of IMPAIRMENTS) this.set({ what }, Number(now.impairments.includes(what)))
      },
    })
    gauge('outbox_answers', 'Answers that the backend has not taken so far', ({ outbox }) => outbox.answers)
    gauge(
      'outbox_oldest_seconds',
      'How long the oldest of them has been waiting',
      ({ outbox }) => outbox.oldestMs / 1000,
    )
    gauge(
      'journal_unsaved_calls',
      'Calls that are in memory alone since the disk refuses: a kill would lose them',
      ({ journal }) => journal.unsaved,
    )
    gauge('journal_writable', '0 since the disk refused what was to be written', ({ journal }) =>
      Number(journal.writable),
    )
    this.#build = new Gauge({
      ...name('build_info'),
      help: 'Always 1; what this is, in its labels',
      labelNames: ['version', 'tier', 'python', 'node'],
    })
    this.#calls = new Histogram({
      ...name('call_seconds'),
      help: 'From the delivery of a call until its answer is taken, by status',
      labelNames: ['status'],
      buckets: CALL_BUCKETS,
    })
    this.#queue = new Histogram({
      ...name('queue_seconds'),
      help: 'Waiting for a slot, also in vain',
      buckets: QUEUE_BUCKETS,
    })
    this.#start = new Histogram({
      ...name('sandbox_start_seconds'),
      help: 'From asking for a sandbox until the code starts in it',
      buckets: START_BUCKETS,
    })
    this.#callsRefused = new Counter({
      ...name('calls_refused_total'),
      help: 'Calls that were answered "not run" though nothing was wrong with them, by reason',
      labelNames: ['why'],
    })
    this.#kills = new Counter({ ...name('kills_total'), help: 'Runs that we ended, by cause', labelNames: ['cause'] })
    this.#failedPosts = new Counter({
      ...name('posts_failed_total'),
      help: 'Rounds of attempts to post an answer that ended without its being taken, by reason',
      labelNames: ['why'],
    })
    this.#refused = new Counter({
      ...name('answers_refused_total'),
      help: 'Answers that the backend refused for good; they are kept in rejected/',
    })
    this.#lost = new Counter({
      ...name('answers_lost_total'),
      help: 'Results that are gone: nobody has taken them, and nothing keeps them',
    })
    this.#reconnects = new Counter({
      ...name('reconnects_total'),
      help: 'Sessions with the backend that ended unasked, by reason',
      labelNames: ['reason'],
    })
    this.#dropped = new Counter({ ...name('delta_dropped_bytes_total'), help: 'Live output that was not streamed' })
    this.#dollars = new Counter({ ...name('dollars_total'), help: 'What calls have cost, at the configured prices' })
    for (const status of STATUSES) this.#calls.zero({ status })
    for (const why of REFUSALS) this.#callsRefused.inc({ why }, 0)
    for (const why of POST_FAILURES) this.#failedPosts.inc({ why }, 0)
    for (const cause of KILL_CAUSES) this.#kills.inc({ cause }, 0)
    for (const reason of SESSION_ENDS) this.#reconnects.inc({ reason }, 0)
  }

  identify({ version, tier, python, node }: WorkerIdentity): void {
    this.#build.set({ version, tier, python, node }, 1)
  }

  callHandled(call: HandledCall): void {
    this.#calls.observe({ status: call.status }, call.totalMs / 1000)
    if (call.queueMs !== null) this.#queue.observe(call.queueMs / 1000)
    if (call.startMs !== null) this.#start.observe(call.startMs / 1000)
    if (call.refused !== null) this.#callsRefused.inc({ why: call.refused })
    if (call.killedFor !== null) this.#kills.inc({ cause: call.killedFor })
    if (call.deltaBytesDropped > 0) this.#dropped.inc(call.deltaBytesDropped)
    if (call.dollars > 0) this.#dollars.inc(call.dollars)
  }

  postFailed(why: string): void {
    this.#failedPosts.inc({ why })
    if (why === 'refused') this.#refused.inc()
  }

  answerLost(): void {
    this.#lost.inc()
  }

  sessionEnded(reason: string): void {
    this.#reconnects.inc({ reason })
  }

  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE

  text(): Promise<string> {
    return this.#registry.metrics()
  }
}
