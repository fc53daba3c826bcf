import pLimit from 'p-limit'
import { exactJson } from '../exact-json.js'
import type { ToolCallRecord } from '../outcome.js'
import type { BrokerOptions, CatalogView } from './broker-options.js'
import { hashOf, Ledger, previewOf } from './ledger.js'
import { needsConfirmation, RUN_OVER, refused, toldOf } from './refusals.js'
import { errorOf, madeOf, placeOf, replayed } from './replay.js'
import { type Answer, type CallRequest, packAnswer, parseRequest, type Request } from './requests.js'
import { type Json, nameOf, type ToolEntry, ToolFailure } from './tool-entry.js'
import type { ToolAnswer } from './tool-log.js'
import { Turns } from './turns.js'
import { UnreadAnswers } from './unread-answers.js'

/** Calls of one run that tools work on at once; others wait for their turn. */
const AT_ONCE = 64
/** Results that are kept for the time after a person was asked, all of one run together. */
const KEPT_MOST_BYTES = 8 * 1024 * 1024
const RESULT_MOST_BYTES = 16 * 1024 * 1024
/** Calls that are written down though they were refused. */
const BLOCKED_MOST = 64
/** Of the arguments of all calls that are under way. */
const VALUES_MOST = 200_000
/** No word of the end of a tool in the sandbox is longer. */
const DONE_MOST_BYTES = 64 * 1024

const FAILED = 'the worker failed while it handled this call'

/** Lets the code of one run call tools: counts, asks for consent, calls, writes down. The code sees only what comes back. */
export class Broker {
  readonly #options: BrokerOptions
  readonly #ledger: Ledger
  /** Places of the recorded calls that the code has not come to again. */
  readonly #notAgain: Set<number>
  readonly #limit = pLimit(AT_ONCE)
  readonly #ended = new AbortController()
  /** Calls that the sandbox works on itself: the number of the request → its place in the ledger. */
  readonly #local = new Map<number, { readonly n: number; readonly startedMs: number }>()
  readonly #blocked = new Set<string>()
  /** Calls that are not answered yet. */
  readonly #underWay = new Set<Promise<Answer>>()
  readonly #turns = new Turns()
  readonly #unread = new UnreadAnswers()
  #hasComplained = false
  #isClosed = false
  #refusedForBudget = 0
  #blockedCalls = 0
  #values = 0
  #keptBytes = 0
  #diverged: string | null = null

  constructor(options: BrokerOptions) {
    this.#options = options
    this.#ledger = new Ledger(options.recorded.length)
    this.#notAgain = new Set(options.recorded.keys())
  }

  /**
   * The answer is for the code to read; it is sent with `answer`, which resolves when it was read. Resolves when nothing is kept of
   * the request any more; never rejects.
   */
  request(payload: Buffer, answer: (payload: Buffer) => Promise<void>): Promise<void> {
    return new Promise(done => {
      this.#turns.add({
        work: () => void this.#handle(payload, answer).then(done),
        left: () => {
          // Nobody waits for answers any more, but what was done belongs into the ledger.
          const parsed = payload.length > DONE_MOST_BYTES ? null : parseRequest(payload)
          if (parsed !== null && 'request' in parsed && parsed.request.op === 'done') this.#endLocal(parsed.request)
          done()
        },
      })
    })
  }

  end(): void {
    this.#ended.abort()
    this.#unread.end()
    this.#turns.finish()
  }

  /** What the run came to is told: nothing is written down of it any more, as what is written down is removed with the call. */
  close(): void {
    this.#isClosed = true
  }

  get calls(): readonly ToolCallRecord[] {
    // What was done before the person was asked stays done, also where the code does not come to it again.
    const rest = this.#options.recorded.filter((_call, place) => this.#notAgain.has(place))
    return [...this.#ledger.calls, ...madeOf(rest, this.#options.mask)]
  }

  get dollars(): number {
    return this.calls.reduce((sum, call) => sum + call.dollars, 0)
  }

  /** Tools that were called and that nobody has approved, named category.tool. Once there is one, nothing is called any more. */
  get blocked(): readonly string[] {
    return [...this.#blocked]
  }

  /** Why the code may not go on, as it does not do again what it did before a person was asked: a phrase for the model; null: it does. */
  get diverged(): string | null {
    return this.#diverged
  }

  /** Whether the code asked for more calls than it has. */
  get isOverBudget(): boolean {
    return this.#refusedForBudget > 0
  }

  /** Never rejects. */
  async #handle(payload: Buffer, answer: (payload: Buffer) => Promise<void>): Promise<void> {
    const parsed = parseRequest(payload)
    if (parsed === null) return
    if ('problem' in parsed) {
      await answer(packAnswer(parsed.id, { ok: false, kind: 'arguments', message: parsed.problem }))
      return
    }
    if (parsed.request.op === 'done') {
      this.#endLocal(parsed.request)
      return
    }
    const { values } = parsed
    this.#values += values
    const data = await this.#packed(parsed.request)
    await answer(data)
    this.#unread.read(data.length)
    this.#values -= values
  }

  /** The answer, which counts as unread from now on. */
  async #packed(request: Exclude<Request, { op: 'done' }>): Promise<Buffer> {
    let data = packAnswer(request.id, await this.#answer(request))
    // What a tool answers is looked at before its end is written down.
    if (request.op !== 'call' && !this.#unread.hasRoomFor(data.length)) {
      data = packAnswer(request.id, refused('too many large results wait to be read; read them first'))
    }
    this.#unread.add(data.length)
    return data
  }

  /** Never rejects. */
  async #answer(request: Exclude<Request, { op: 'done' }>): Promise<Answer> {
    if (this.#ended.signal.aborted) return RUN_OVER
    if (this.#values > VALUES_MOST && request.op === 'call')
      return refused('the calls under way were given too many values; call fewer tools at once, or pass text')
    try {
      const catalog = await this.#options.catalog(this.#ended.signal, request)
      return await new Promise<Answer>(resolve => {
        this.#turns.add({ work: () => resolve(this.#answerFrom(catalog, request)), left: () => resolve(RUN_OVER) })
      })
    } catch (error) {
      this.#complain(error, request.op)
      return refused(FAILED)
    }
  }

  /** All of it that costs time is done before it waits for the first time. */
  async #answerFrom(catalog: CatalogView, request: Exclude<Request, { op: 'done' }>): Promise<Answer> {
    switch (request.op) {
      case 'catalog':
        return { ok: true, value: catalog.overview(this.#options.callsMax) }
      case 'ls':
        return { ok: true, value: catalog.ls(request.path) }
      case 'read':
        return { ok: true, value: catalog.read(request.path) }
      case 'tree':
        return { ok: true, value: catalog.tree(request.path) }
      case 'search':
        return { ok: true, value: catalog.search(request.words, request.limit) }
      case 'call':
        return await this.#whileUnderWay(this.#call(request, catalog))
    }
  }

  /** Once a run: code can ask for the same again and again. */
  #complain(error: unknown, op: string): void {
    if (this.#hasComplained) return
    this.#hasComplained = true
    this.#options.log.error({ err: error, op }, 'a request to the toolbox failed inside the worker')
  }

  async #call(request: CallRequest, catalog: CatalogView): Promise<Answer> {
    if (this.#ended.signal.aborted) return RUN_OVER
    const entry = catalog.find(request.category, request.tool)
    if ('problem' in entry) return { ok: false, kind: 'unknown', message: entry.problem }
    const bound = catalog.bind(entry, request.args, request.kw)
    if ('problem' in bound) return { ok: false, kind: 'arguments', message: bound.problem }
    const { args } = bound
    const refusal = this.#refusal(entry, args)
    if (refusal !== null) return refusal

    // From here on to the ledger nothing waits: the count and the order are those of the requests.
    const call = this.#described(entry, args)
    const place = placeOf(call, this.#options.recorded, this.#notAgain)
    const again = place === null ? null : this.#replay(place, request, entry, args, call)
    if (again !== null) return again
    if (place !== null) this.#notAgain.delete(place)
    const n = this.#ledger.begin(call.tool, call.argsPreview, place)
    // Before anything is done: who finds the record must find this call.
    if (!(await this.#options.toolLog.note({ step: 'called', n, ...call }))) {
      this.#ledger.drop(n)
      return refused(`${call.tool} was not called: the worker can not write down that it calls it; try again later`)
    }
    if (entry.call !== undefined) return await this.#limit(() => this.#dispatch(n, entry, args))
    const over = this.#over(n)
    if (over !== null) return over
    this.#local.set(request.id, { n, startedMs: performance.now() })
    return { ok: true, local: true, kw: args }
  }

  /** The refusal of a call that was let through, where the run has ended before it was made. */
  #over(n: number): Answer | null {
    if (!this.#ended.signal.aborted && this.#diverged === null) return null
    this.#ledger.drop(n)
    if (!this.#isClosed) void this.#options.toolLog.note({ step: 'dropped', n })
    return this.#diverged === null ? RUN_OVER : this.#stopped()
  }

  async #whileUnderWay(call: Promise<Answer>): Promise<Answer> {
    this.#underWay.add(call)
    try {
      return await call
    } finally {
      this.#underWay.delete(call)
    }
  }

  #described(entry: ToolEntry, args: { readonly [name: string]: Json }) {
    return { tool: nameOf(entry), hash: hashOf(args), argsPreview: previewOf(args, this.#options.mask) }
  }

  /** Refusals cost nothing. */
  #refusal(entry: ToolEntry, args: { readonly [name: string]: Json }): Answer | null {
    const { callsMax, approved } = this.#options
    const name = nameOf(entry)
    if (this.#diverged !== null) return this.#stopped()
    if (this.#blocked.size > 0) {
      this.#noteBlocked(entry, args)
      return needsConfirmation([...this.#blocked])
    }
    if (entry.consent === 'deny') return { ok: false, kind: 'denied', message: `${name} may not be called here` }
    if (entry.consent === 'ask' && !approved(name)) {
      this.#blocked.add(name)
      this.#noteBlocked(entry, args)
      this.#options.onBlocked(Promise.allSettled(this.#underWay))
      return needsConfirmation([name])
    }
    if (this.#ledger.size >= callsMax) {
      this.#refusedForBudget++
      const message = `the budget of ${callsMax} tool calls is used up; print what you have and go on in a new call`
      return { ok: false, kind: 'budget', message }
    }
    return null
  }

  /** The approved code makes this call: among those that were under way it may be the first. */
  #noteBlocked(entry: ToolEntry, args: { readonly [name: string]: Json }): void {
    if (!this.#options.mayAsk || this.#isClosed || ++this.#blockedCalls > BLOCKED_MOST) return
    const call = this.#described(entry, args)
    const n = this.#ledger.begin(call.tool, call.argsPreview)
    this.#ledger.drop(n)
    void this.#options.toolLog.note({ step: 'blocked', n, ...call })
  }

  #stopped(): Answer {
    return { ok: false, kind: 'ended', message: `no tool is called any more: ${this.#diverged}` }
  }

  /** What the call was answered before the person was asked; null: it was not made then. */
  #replay(
    place: number,
    request: CallRequest,
    entry: ToolEntry,
    args: { readonly [name: string]: Json },
    call: { readonly tool: string; readonly hash: string; readonly argsPreview: string },
  ): Answer | null {
    const recorded = this.#options.recorded[place]
    const again = recorded === undefined ? null : replayed(recorded, call, entry.call === undefined)
    if (again === null) return null
    if ('diverged' in again) {
      this.#diverged = again.diverged
      this.#options.onDiverged(again.diverged)
      return this.#stopped()
    }
    this.#notAgain.delete(place)
    const n = this.#ledger.begin(call.tool, call.argsPreview, place)
    if (entry.call === undefined) {
      this.#local.set(request.id, { n, startedMs: performance.now() })
      return { ok: true, local: true, kw: args }
    }
    const { answer, ...end } = again
    this.#ledger.end(n, { ...end, error: 'failure' in answer ? errorOf(answer.failure, this.#options.mask) : null })
    return toldOf(answer)
  }

  async #dispatch(n: number, entry: ToolEntry, args: { readonly [name: string]: Json }): Promise<Answer> {
    await this.#unread.areFew()
    const over = this.#over(n)
    if (over !== null) return over
    const startedMs = performance.now()
    let answer: ToolAnswer
    let dollars = 0
    try {
      const result = await entry.call?.(args, { signal: this.#ended.signal })
      if (result === undefined) throw new Error('the tool has no call')
      dollars = result.dollars ?? 0
      answer = { value: result.value }
    } catch (error) {
      if (!(error instanceof ToolFailure)) {
        this.#options.log.error({ err: error, called: nameOf(entry) }, 'a tool failed inside the worker')
      }
      const known = error instanceof ToolFailure ? error : new ToolFailure('the tool failed inside the worker')
      answer = { failure: known.message, isLost: known.isLost }
    }
    const json = exactJson('failure' in answer ? answer.failure : answer.value)
    const bytes = Buffer.byteLength(json, 'utf8')
    if ('value' in answer) answer = this.#unlessLost(nameOf(entry), answer, bytes)
    this.#conclude(n, {
      ok: !('failure' in answer),
      ms: rounded(performance.now() - startedMs),
      error: 'failure' in answer ? errorOf(answer.failure, this.#options.mask) : null,
      bytes,
      dollars,
      // A failure of a call that the end of the run has cut off says nothing of what the tool did.
      ...('failure' in answer && this.#ended.signal.aborted ? {} : { answer }),
    })
    return toldOf(answer)
  }

  /** The answer, but for a result that can not be handed on: the ledger and the code are told the same of that. */
  #unlessLost(name: string, answer: ToolAnswer, bytes: number): ToolAnswer {
    const isTooLarge = bytes > RESULT_MOST_BYTES
    if (!isTooLarge && this.#unread.hasRoomFor(bytes)) return answer
    const why = isTooLarge
      ? `a tool may answer ${RESULT_MOST_BYTES}; ask it for less at once`
      : 'too many large results wait to be read; call fewer tools at once'
    return {
      failure: `${name} was called and did its work; its result of ${bytes} bytes is lost: ${why}`,
      isLost: true,
    }
  }

  #endLocal(request: Extract<Request, { readonly op: 'done' }>): void {
    const call = this.#local.get(request.of)
    if (call === undefined) return
    this.#local.delete(request.of)
    const { ok, bytes } = request
    const error = ok ? null : errorOf(request.error ?? '', this.#options.mask)
    this.#conclude(call.n, { ok, ms: rounded(performance.now() - call.startedMs), error, bytes, dollars: 0 })
  }

  #conclude(
    n: number,
    end: Pick<ToolCallRecord, 'ok' | 'ms' | 'error' | 'bytes' | 'dollars'> & { readonly answer?: ToolAnswer },
  ): void {
    const { answer, ...told } = end
    const call = this.#ledger.end(n, told)
    if (call === null) return
    this.#options.log.info({ called: call.tool, ...told, args_preview: call.args_preview }, 'tool called')
    if (this.#isClosed || this.#options.recorded[n]?.isMade === true) return
    // Of a result that is lost only that is kept.
    const size = answer !== undefined && 'failure' in answer ? Buffer.byteLength(answer.failure) : told.bytes
    const kept = answer !== undefined && this.#options.mayAsk && this.#keptBytes + size <= KEPT_MOST_BYTES
    if (kept) this.#keptBytes += size
    const { ok, ms, bytes, dollars } = told
    void this.#options.toolLog.note({ step: 'answered', n, ok, ms, bytes, dollars, ...(kept ? { answer } : {}) })
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100
}
