import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { Broker } from '../../src/toolbox/broker.js'
import type { BrokerOptions, CatalogView } from '../../src/toolbox/broker-options.js'
import { hashOf } from '../../src/toolbox/ledger.js'
import { calledFrom, recordedFrom } from '../../src/toolbox/replay.js'
import { type Json, type ToolEntry, ToolFailure } from '../../src/toolbox/tool-entry.js'
import type { ToolStep } from '../../src/toolbox/tool-log.js'

type Arguments = { readonly [name: string]: Json }

function tool(name: string, call: ToolEntry['call'], consent: ToolEntry['consent'] = 'free'): ToolEntry {
  const entry = { category: 't', name, description: name, parameters: {}, consent }
  return call === undefined ? entry : { ...entry, call }
}

const echo = tool('echo', async args => ({ value: args['value'] ?? null, dollars: 0.5 }))
const fails = tool('fails', async () => {
  throw new ToolFailure('no such city: "Atlantis"')
})
const local = tool('local', undefined)

function catalogOf(entries: readonly ToolEntry[]): CatalogView {
  return {
    find: (category, name) =>
      entries.find(entry => entry.category === category && entry.name === name) ?? {
        problem: `no ${category}.${name}`,
      },
    bind: (_entry, args, kw) => (args.length > 0 ? { problem: 'no positional arguments' } : { args: kw }),
    overview: callsMax => ({ calls_max: callsMax }),
    ls: path => [path],
    read: path => `read ${path}`,
    tree: path => `tree ${path}`,
    search: words => [words],
  }
}

const recordedOf = (steps: readonly ToolStep[]) => recordedFrom({ steps, isWhole: true })

/** A broker, and what the library in the sandbox would do with it. */
function open(entries: readonly ToolEntry[], changes: Partial<BrokerOptions> = {}) {
  const steps: ToolStep[] = []
  const diverged: string[] = []
  const broker = new Broker({
    catalog: async () => catalogOf(entries),
    callsMax: 50,
    approved: () => false,
    recorded: [],
    mayAsk: true,
    toolLog: {
      earlier: async () => ({ steps: [], isWhole: true }),
      note: async step => {
        steps.push(step)
        return true
      },
    },
    mask: text => text.replaceAll('hunter2hunter2', '***'),
    log: pino({ level: 'silent' }),
    onBlocked: () => {},
    onDiverged: reason => diverged.push(reason),
    ...changes,
  })
  let id = 0
  const ask = (request: object): Promise<Record<string, unknown>> =>
    new Promise(resolve => {
      broker.request(Buffer.from(JSON.stringify({ id: ++id, ...request })), async payload =>
        resolve(JSON.parse(payload.toString('utf8')) as Record<string, unknown>),
      )
    })
  const call = (name: string, kw: Arguments = {}) => ask({ op: 'call', category: 't', tool: name, args: [], kw })
  const tell = (message: object) =>
    broker.request(Buffer.from(JSON.stringify({ id: ++id, ...message })), async () => {})
  return { broker, steps, diverged, ask, call, tell }
}

describe('a call of a tool', () => {
  it('is answered with the value as it is', async () => {
    const { call } = open([echo])
    for (const value of [null, '', 'a\u2028b', { deep: [[[1]]] }, 'x'.repeat(3_000_000)]) {
      expect(await call('echo', { value })).toMatchObject({ ok: true, value })
    }
  })

  it('is in the ledger, the log and the steps, with what it cost and with secrets masked', async () => {
    const { broker, call, steps } = open([echo])
    await call('echo', { value: 'hunter2hunter2' })
    expect(broker.calls).toEqual([
      {
        tool: 't.echo',
        ok: true,
        ms: expect.any(Number),
        args_preview: '{"value":"***"}',
        error: null,
        bytes: 16,
        dollars: 0.5,
      },
    ])
    expect(broker.dollars).toBe(0.5)
    expect(steps.map(({ step }) => step)).toEqual(['called', 'answered'])
  })

  it('that fails says why, at once', async () => {
    const { broker, call } = open([fails])
    expect(await call('fails')).toMatchObject({ ok: false, kind: 'tool', message: 'no such city: "Atlantis"' })
    expect(broker.calls[0]).toMatchObject({ ok: false, error: 'no such city: "Atlantis"' })
  })

  it('that does not exist, is denied or has wrong arguments costs nothing', async () => {
    const { broker, call, ask } = open([echo, tool('never', async () => ({ value: 1 }), 'deny')], { callsMax: 1 })
    expect(await call('nothing')).toMatchObject({ ok: false, kind: 'unknown' })
    expect(await call('never')).toMatchObject({ ok: false, kind: 'denied' })
    expect(await ask({ op: 'call', category: 't', tool: 'echo', args: [1], kw: {} })).toMatchObject({
      kind: 'arguments',
    })
    expect(await call('echo', { value: 1 })).toMatchObject({ ok: true })
    expect(broker.calls.length).toBe(1)
  })

  it('beyond the budget is refused, whichever of many at once it is', async () => {
    const { broker, call } = open([tool('slow', () => sleep(5, { value: 1 }))], { callsMax: 10 })
    const answers = await Promise.all(Array.from({ length: 40 }, () => call('slow')))
    expect(answers.filter(({ ok }) => ok).length).toBe(10)
    expect(answers.filter(({ kind }) => kind === 'budget').length).toBe(30)
    expect(answers.find(({ kind }) => kind === 'budget')?.['message']).toContain('10 tool calls')
    expect(broker).toMatchObject({ isOverBudget: true, calls: { length: 10 } })
  })

  it('runs beside others', async () => {
    const { call } = open([tool('slow', () => sleep(200, { value: 1 }))])
    const started = performance.now()
    await Promise.all(Array.from({ length: 20 }, () => call('slow')))
    expect(performance.now() - started).toBeLessThan(2_000)
  })

  it('that waits when the run ends is told to stop, and is in the ledger as unanswered', async () => {
    let stopped = false
    const waits = tool('waits', async (_args, { signal }) => {
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
      stopped = true
      throw new ToolFailure('stopped')
    })
    const { broker, call } = open([waits])
    void call('waits')
    await expect.poll(() => broker.calls.length).toBe(1)
    expect(broker.calls[0]).toMatchObject({ ok: false, error: 'had not answered when the run ended' })
    broker.end()
    await expect.poll(() => stopped).toBe(true)
    expect(await call('waits')).toMatchObject({ ok: false, kind: 'ended' })
  })

  it('that breaks inside the worker says so, and no more', async () => {
    const breaks = tool('breaks', async () => {
      throw new Error('/secret/path')
    })
    expect(await open([breaks]).call('breaks')).toMatchObject({
      kind: 'tool',
      message: 'the tool failed inside the worker',
    })
  })

  describe('with a large result', () => {
    const MIB = 1024 * 1024

    /** `start` calls it so often at once; the answers are read when `read` is called. */
    function opened() {
      let made = 0
      const big = tool('big', async args => {
        made++
        await sleep(5 * Number(args['n']))
        return { value: 'x'.repeat(Number(args['mib']) * MIB) }
      })
      const { broker, steps } = open([big])
      const answers: { readonly ok: boolean; readonly kind?: string; readonly value?: string }[] = []
      const waiting: (() => void)[] = []
      const start = (calls: number, mib: number) => {
        for (let n = 0; n < calls; n++) {
          const request = { id: n, op: 'call', category: 't', tool: 'big', args: [], kw: { mib, n } }
          void broker.request(Buffer.from(JSON.stringify(request)), payload => {
            answers.push(JSON.parse(payload.toString()))
            return new Promise(resolve => waiting.push(resolve))
          })
        }
      }
      const read = () => {
        for (const done of waiting.splice(0)) done()
      }
      return { big, broker, steps, answers, start, read, made: () => made }
    }

    it('is answered with it where others are not read yet', async () => {
      const { broker, answers, start } = opened()
      start(10, 4)
      await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(10)
      expect(answers.map(({ value }) => value?.length)).toEqual(Array(10).fill(4 * MIB))
      expect(broker.calls.map(({ ok }) => ok)).toEqual(Array(10).fill(true))
    })

    it('waits before it is made while too much is not read, and is not made where that is never read', async () => {
      const { broker, answers, start, read, made } = opened()
      start(3, 12)
      await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(3)
      start(2, 12)
      await sleep(50)
      expect(made()).toBe(3)
      read()
      await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(5)
      start(1, 12)
      await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(6)
      start(1, 12)
      await sleep(50)
      broker.end()
      await expect.poll(() => answers.length).toBe(7)
      expect([made(), broker.calls.length, answers[6]?.kind]).toEqual([6, 6, 'ended'])
    })

    it('that finds no room is told as lost, to the ledger and the code alike, and again after a yes', async () => {
      const { big, broker, steps, answers, start } = opened()
      start(8, 15)
      await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(8)
      expect(answers.map(({ ok }) => ok)).toEqual([...Array(6).fill(true), false, false])
      expect(answers[7]).toMatchObject({ kind: 'lost', message: expect.stringContaining('did its work') })
      expect(broker.calls.map(({ ok, bytes }) => [ok, bytes > 15 * MIB])).toEqual(answers.map(({ ok }) => [ok, true]))
      const last = steps.filter(step => 'n' in step && step.n === 7)
      const again = open([big], { recorded: recordedOf(last).calls })
      expect(await again.call('big', { mib: 15, n: 7 })).toMatchObject({ kind: 'lost' })
    })

    it('that is larger than an answer may be is lost at once', async () => {
      const { broker, answers, start } = opened()
      start(1, 17)
      await expect.poll(() => answers.length, { timeout: 10_000 }).toBe(1)
      expect(answers[0]).toMatchObject({ kind: 'lost', message: expect.stringContaining('17825') })
      expect(broker.calls).toMatchObject([{ ok: false, error: expect.stringContaining('is lost') }])
    })
  })
})

describe('a tool of the sandbox itself', () => {
  it('is counted and left to the sandbox, which says how it ended', async () => {
    const { broker, ask, tell } = open([local])
    const answer = await ask({ op: 'call', category: 't', tool: 'local', args: [], kw: { path: 'a' } })
    expect(answer).toEqual({ id: 1, ok: true, local: true, kw: { path: 'a' } })
    tell({ op: 'done', of: 1, ok: false, error: 'no such file', bytes: 3 })
    tell({ op: 'done', of: 1, ok: true, error: null, bytes: 99 }) // nothing to be ended any more
    tell({ op: 'done', of: 77, ok: true, error: null, bytes: 99 })
    expect(broker.calls).toMatchObject([{ tool: 't.local', ok: false, error: 'no such file', bytes: 3 }])
  })

  it('is in the ledger as ended also where the run ended before its word could be worked on', async () => {
    const seen: unknown[] = []
    const { broker, ask, tell } = open([local], {
      catalog: async () => ({
        ...catalogOf([local]),
        ls: () => {
          const untilMs = performance.now() + 20
          while (performance.now() < untilMs);
          queueMicrotask(() => {
            tell({ op: 'done', of: 1, ok: true, error: null, bytes: 3 })
            seen.push(broker.calls)
            broker.end()
            seen.push(broker.calls)
          })
          return []
        },
      }),
    })
    await ask({ op: 'call', category: 't', tool: 'local', args: [], kw: {} })
    await ask({ op: 'ls', path: '' })
    expect(seen).toMatchObject([[{ ok: false }], [{ ok: true, bytes: 3 }]])
  })
})

describe('requests that no library would send', () => {
  it.each(['', 'null', '[]', '{}', '{"id":-1,"op":"catalog"}', '{"id":"1","op":"catalog"}', '{"op":{"id":1}}', '\xff'])(
    'and that have no number are not answered: %j',
    async text => {
      const { broker, call } = open([echo])
      let answered = false
      await broker.request(Buffer.from(text, 'latin1'), async () => {
        answered = true
      })
      expect(await call('echo', { value: 1 })).toMatchObject({ ok: true })
      expect(answered).toBe(false)
    },
  )

  it.each([
    ['{"id":1,"op":"exit"}', 'op '],
    ['{"id":1,"op":"call"}', 'category must be text'],
    ['{"id":1', null],
    ['{"id":1,"op":"call","category"', 'no JSON'],
    ['{ "op" : "ls", "id" : 1 }', 'path must be text'],
    [`{"id":1,"op":"read","path":"${'x'.repeat(1_001)}"}`, 'path may have no more than 1,000 characters'],
    ['{"id":1,"op":"search","words":"a","limit":0}', 'limit must be a whole number from 1 to 100'],
    ['{"id":1,"op":"search","words":"a","limit":101}', 'limit must be a whole number from 1 to 100'],
    ['{"id":1,"op":"search","words":"a","limit":2.5}', 'limit must be a whole number from 1 to 100'],
    ['{"id":1,"op":"search","words":"a","limit":"5"}', 'limit must be a whole number from 1 to 100'],
    [nested(104), 'nested 106 deep, and may be 100'],
    [nested(100_000), 'nested 100002 deep'],
    [
      `{"id":1,"op":"call","category":"t","tool":"echo","args":[],"kw":{"value":[${'0,'.repeat(100_001)}0]}}`,
      'at most',
    ],
  ])('are told what is wrong with them: %.80s', async (text, message) => {
    const { broker } = open([echo])
    const answers: string[] = []
    await broker.request(Buffer.from(text, 'utf8'), async payload => void answers.push(payload.toString()))
    if (message === null) expect(answers).toEqual([])
    else {
      expect(answers.map(answer => JSON.parse(answer))).toEqual([
        { id: 1, ok: false, kind: 'arguments', message: expect.stringContaining(message) },
      ])
    }
    expect(broker.calls).toEqual([])
  })

  it('are let through as deep as the library lets them be', async () => {
    const { broker } = open([echo])
    const answers: string[] = []
    await broker.request(Buffer.from(nested(101)), async payload => void answers.push(payload.toString()))
    expect(JSON.parse(answers[0] ?? '')).toMatchObject({ ok: true })
  })

  it('take turns with the rest of the worker, and a small part of its time when they never end', async () => {
    const busy = (ms: number) => {
      const untilMs = performance.now() + ms
      while (performance.now() < untilMs);
    }
    const { broker } = open([], {
      catalog: async () => ({
        ...catalogOf([]),
        search: () => {
          busy(4)
          return []
        },
      }),
    })
    let answered = 0
    for (let n = 0; n < 2_000; n++) {
      void broker.request(Buffer.from('{"id":1,"op":"search","words":"a","limit":100}'), async () => void answered++)
    }
    let turns = 0
    const startedMs = performance.now()
    while (performance.now() - startedMs < 5_000) {
      await new Promise(resolve => setImmediate(resolve))
      turns++
    }
    expect(turns).toBeGreaterThan(answered / 3)
    expect(answered).toBeGreaterThan(10)
    expect(answered).toBeLessThan(900) // 2 s at once, and a tenth of the rest
    broker.end()
  })

  it('take no memory but their own while the catalogue is waited for, and are not worked on after the end', async () => {
    const { broker } = open([], {
      catalog: signal =>
        new Promise(resolve => signal.addEventListener('abort', () => resolve(catalogOf([])), { once: true })),
    })
    const big = Buffer.from(
      JSON.stringify({ id: 1, op: 'call', category: 'a', tool: 'b', args: [Array(50_000).fill(0)], kw: {} }),
    )
    const before = process.memoryUsage().heapUsed
    const all = Array.from({ length: 200 }, () => broker.request(big, async () => {}))
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20 * 1024 * 1024)
    broker.end()
    await Promise.all(all)
  })

  it('fail inside the worker as often as they are sent, and the log tells of it once', async () => {
    const lines: string[] = []
    const log = pino({ level: 'error' }, { write: line => lines.push(line) })
    const { ask } = open([], {
      log,
      catalog: async () => ({
        ...catalogOf([]),
        ls: () => {
          throw new Error('a fault')
        },
      }),
    })
    for (let n = 0; n < 20; n++) expect(await ask({ op: 'ls', path: '' })).toMatchObject({ ok: false, kind: 'tool' })
    expect(lines).toHaveLength(1)
  })

  it('have the calls under way hold only so many values at once', async () => {
    const waiting: (() => void)[] = []
    const waits = tool('waits', () => new Promise(resolve => waiting.push(() => resolve({ value: 1 }))))
    const { ask } = open([waits])
    const kw = { value: Array(60_000).fill(0) }
    const request = { op: 'call', category: 't', tool: 'waits', args: [], kw }
    const asked = Array.from({ length: 6 }, () => ask(request))
    await asked.at(-1)
    await expect.poll(() => waiting.length).toBe(3)
    for (const end of waiting) end()
    const answers = await Promise.all(asked)
    expect(answers.filter(({ ok }) => ok)).toHaveLength(3)
    expect(answers.at(-1)?.['message']).toContain('too many values')
    const again = ask(request)
    await expect.poll(() => waiting.length).toBe(4)
    waiting[3]?.()
    expect(await again).toMatchObject({ ok: true })
  })
})

describe('a call that can not be written down', () => {
  it.each(['echo', 'local'])('is not made and costs nothing: %s', async name => {
    let called = 0
    const counted = tool('echo', async () => ({ value: ++called }))
    let isFull = true
    const { broker, call } = open([counted, local], {
      callsMax: 1,
      toolLog: { earlier: async () => ({ steps: [], isWhole: true }), note: async () => !isFull },
    })
    expect(await call(name)).toMatchObject({ ok: false, kind: 'tool', message: expect.stringContaining('write down') })
    expect([called, broker.calls, broker.isOverBudget]).toEqual([0, [], false])
    isFull = false
    expect(await call(name)).toMatchObject({ ok: true })
    expect(broker.calls).toHaveLength(1)
  })
})

describe('what is written down of calls', () => {
  it.each([true, false])('has their answers only as long as a person may be asked: %s', async mayAsk => {
    const { call, steps } = open([echo], { mayAsk })
    await call('echo', { value: 1 })
    await expect.poll(() => steps.length).toBe(2)
    expect(steps[1]).toMatchObject({ step: 'answered', ok: true })
    expect('answer' in (steps[1] ?? {})).toBe(mayAsk)
  })

  const called = (n: number): ToolStep => ({ step: 'called', n, tool: `t.${n}`, hash: 'h', argsPreview: '{}' })

  it('tells all that is there, in order, and is not whole where a call is missing', () => {
    const made = calledFrom({ steps: [called(2), called(0)], isWhole: true }, text => text)
    expect(made).toMatchObject({ isWhole: false, calls: [{ tool: 't.0' }, { tool: 't.2' }] })
  })
})

/** A call of t.echo with a value that is so many lists. */
function nested(levels: number): string {
  const value = '['.repeat(levels) + ']'.repeat(levels)
  return `{"id":1,"op":"call","category":"t","tool":"echo","args":[],"kw":{"value":${value}}}`
}

describe('consent', () => {
  const asks = tool('asks', async () => ({ value: 'done' }), 'ask')

  it('that is missing stops this call and all after it', async () => {
    const { broker, call } = open([echo, asks])
    expect(await call('echo', { value: 1 })).toMatchObject({ ok: true })
    expect(await call('asks')).toMatchObject({ ok: false, kind: 'needs_confirmation' })
    expect(await call('echo', { value: 2 })).toMatchObject({ ok: false, kind: 'needs_confirmation' })
    expect(broker).toMatchObject({ blocked: ['t.asks'], calls: { length: 1 } })
  })

  it('that was given lets it through, and what was called before is answered from the record', async () => {
    let called = 0
    const counted = tool('counted', async args => ({ value: [++called, args['x'] ?? null], dollars: 1 }))
    const first = open([counted, asks])
    await first.call('counted', { x: 1 })
    await first.call('counted', { x: 2 })
    await first.call('asks')
    const recorded = recordedOf([...first.steps, { step: 'asked', tools: ['t.asks'] }])
    const approved = new Set(recorded.asked?.tools)
    expect([...approved]).toEqual(['t.asks'])

    const again = open([counted, asks], { recorded: recorded.calls, approved: name => approved.has(name) })
    expect(await again.call('counted', { x: 1 })).toMatchObject({ value: [1, 1] })
    expect(await again.call('counted', { x: 2 })).toMatchObject({ value: [2, 2] })
    expect(await again.call('asks')).toMatchObject({ value: 'done' })
    expect(await again.call('counted', { x: 3 })).toMatchObject({ value: [3, 3] })
    expect(called).toBe(3)
    // What was charged before nobody has paid yet; what is in the record is not written again.
    expect(again.broker.dollars).toBe(3)
    expect(again.steps.filter(({ step }) => step === 'called').length).toBe(2)
  })

  it.each([
    ['another tool', 'echo', { value: 1 }],
    ['other arguments', 'counted', { x: 9 }],
  ])('does not cover code that then does something else: %s', async (_what, name, kw) => {
    let called = 0
    const counted = tool('counted', async () => ({ value: ++called }))
    const first = open([counted, echo])
    await first.call('counted', { x: 1 })
    await first.call('counted', { x: 2 })
    const { calls } = recordedOf(first.steps)
    const again = open([counted, echo], { recorded: calls })
    await again.call('counted', { x: 1 })
    expect(await again.call(name, kw as Arguments)).toMatchObject({ ok: false, kind: 'ended' })
    expect(await again.call('counted', { x: 2 })).toMatchObject({ ok: false, kind: 'ended' })
    expect(called).toBe(2)
    expect(again.diverged.length).toBe(1)
    expect(again.broker.calls.map(({ ok }) => ok)).toEqual([true, true])
  })

  it('ends code that makes the same calls in another order, where each had waited for the one before', async () => {
    let called = 0
    const counted = tool('counted', async () => ({ value: ++called }))
    const first = open([counted])
    for (const x of [1, 2]) await first.call('counted', { x })
    const again = open([counted], { recorded: recordedOf(first.steps).calls })
    expect(await again.call('counted', { x: 2 })).toMatchObject({ ok: false, kind: 'ended' })
    expect([called, again.diverged]).toMatchObject([2, [/did not repeat its call of t\.counted/]])
  })

  it('answers from the record in whatever order threads come to calls that were under way together, each once', async () => {
    let called = 0
    let go = (): void => {}
    const all = new Promise<void>(resolve => {
      go = resolve
    })
    const counted = tool('counted', async args => {
      const n = ++called
      if (n <= 3) await all
      return { value: [n, args['x'] ?? null] }
    })
    const first = open([counted, local])
    const together = [1, 2, 1].map(x => first.call('counted', { x }))
    await first.call('local', { x: 1 })
    go()
    await Promise.all(together)
    const { calls } = recordedOf(first.steps)
    const again = open([counted, local], { recorded: calls, callsMax: 5 })
    expect(await again.call('local', { x: 1 })).toMatchObject({ ok: true, local: true })
    expect(await again.call('counted', { x: 2 })).toMatchObject({ value: [2, 2] })
    expect(await again.call('counted', { x: 1 })).toMatchObject({ value: [1, 1] })
    expect(again.broker.calls).toHaveLength(4)
    expect(await again.call('counted', { x: 1 })).toMatchObject({ value: [3, 1] })
    expect([called, again.diverged, again.steps]).toEqual([3, [], []])
    expect(await again.call('counted', { x: 1 })).toMatchObject({ value: [4, 1] })
    expect(await again.call('counted', { x: 1 })).toMatchObject({ ok: false, kind: 'budget' })
    expect(again.steps).toMatchObject([
      { step: 'called', n: 4 },
      { step: 'answered', n: 4 },
    ])
    expect(again.broker.calls.map(one => one.args_preview)).toEqual([
      '{"x":1}',
      '{"x":2}',
      '{"x":1}',
      '{"x":1}',
      '{"x":1}',
    ])
  })

  describe('of code with threads that were under way when one of them was blocked', () => {
    async function blockedRun() {
      let called = 0
      const waiting: (() => void)[] = []
      const get = tool('get', args => {
        called++
        return new Promise(resolve => waiting.push(() => resolve({ value: `got ${args['x']}` })))
      })
      const first = open([get, asks, echo])
      const gets = [1, 2, 3].map(x => first.call('get', { x }))
      await expect.poll(() => waiting.length).toBe(3)
      waiting[0]?.()
      await gets[0]
      expect(await first.call('asks', { x: 1 })).toMatchObject({ kind: 'needs_confirmation' })
      expect(await first.call('get', { x: 4 })).toMatchObject({ kind: 'needs_confirmation' })
      for (const end of waiting.splice(0)) end()
      await Promise.all(gets)
      expect(first.broker.calls).toHaveLength(3)
      const recorded = recordedOf(first.steps)
      expect(recorded.isWhole).toBe(true)
      const again = open([get, asks, echo], { recorded: recorded.calls, approved: () => true })
      const answered = async (x: number) => {
        const answer = again.call('get', { x })
        await expect.poll(() => waiting.splice(0).map(end => end())).toHaveLength(1)
        return await answer
      }
      return { ...again, answered, called: () => called }
    }

    it('makes the calls that were refused whenever it comes to them, and others after them', async () => {
      const { call, answered, called, broker, diverged } = await blockedRun()
      expect(await call('get', { x: 1 })).toMatchObject({ value: 'got 1' })
      expect(await call('asks', { x: 1 })).toMatchObject({ value: 'done' })
      expect(await answered(4)).toMatchObject({ value: 'got 4' })
      expect(await call('echo', { value: 'deleted' })).toMatchObject({ value: 'deleted' })
      expect(await call('get', { x: 3 })).toMatchObject({ value: 'got 3' })
      expect(await call('get', { x: 2 })).toMatchObject({ value: 'got 2' })
      expect([called(), diverged, broker.calls.length]).toEqual([4, [], 6])
    })

    it('need not make calls again that were refused', async () => {
      const { call, answered, diverged } = await blockedRun()
      for (const x of [1, 2, 3]) await call('get', { x })
      expect(await answered(5)).toMatchObject({ value: 'got 5' })
      expect(diverged).toEqual([])
    })

    it.each([
      ['a call of a tool that was under way, with other arguments', 1, 'get', { x: 9 }],
      ['a call before one that was answered by then', 0, 'asks', { x: 1 }],
    ])('is ended at %s', async (_what, repeated, name, kw) => {
      const { call, called, diverged } = await blockedRun()
      for (let x = 1; x <= repeated; x++) await call('get', { x })
      expect(await call(name, kw)).toMatchObject({ ok: false, kind: 'ended' })
      expect([called(), diverged.length]).toEqual([3, 1])
    })
  })

  it('and a call that was kept from being made takes its own place in the record, whenever the code comes to it', async () => {
    let called = 0
    const counted = tool('counted', async () => ({ value: ++called }))
    const step = (n: number, x: number): ToolStep => {
      const hash = hashOf({ x })
      return { step: 'called', n, tool: 't.counted', hash, argsPreview: `{"x":${x}}` }
    }
    const answered: ToolStep = { step: 'answered', n: 1, ok: true, ms: 1, bytes: 1, dollars: 0, answer: { value: 7 } }
    const before: ToolStep[] = [step(0, 1), { step: 'dropped', n: 0 }, step(1, 2), answered]
    const again = open([counted], { recorded: recordedOf(before).calls })
    expect(await again.call('counted', { x: 2 })).toMatchObject({ value: 7 })
    expect(await again.call('counted', { x: 1 })).toMatchObject({ value: 1 })
    const { calls, isWhole } = recordedOf([...before, ...again.steps])
    expect(isWhole).toBe(true)
    expect(calls.map(({ argsPreview, isMade }) => [argsPreview, isMade])).toEqual([
      ['{"x":1}', true],
      ['{"x":2}', true],
    ])
  })

  it('keeps what was called before in the ledger and in the price where the approved code does not call it again', async () => {
    const first = open([echo])
    await first.call('echo', { value: 1 })
    await first.call('echo', { value: 2 })
    const { broker } = open([echo], { recorded: recordedOf(first.steps).calls })
    expect(broker.calls).toMatchObject([{ tool: 't.echo' }, { args_preview: '{"value":2}' }])
    expect(broker.dollars).toBe(1)
  })

  it('lets a call be made that the end of the run had kept from being made', async () => {
    let called = 0
    const counted = tool('counted', async () => ({ value: ++called }))
    let written: (() => void) | undefined
    const steps: ToolStep[] = []
    const toolLog: BrokerOptions['toolLog'] = {
      earlier: async () => ({ steps, isWhole: true }),
      note: async step => {
        steps.push(step)
        if (step.step === 'called') await new Promise<void>(resolve => (written = resolve))
        return true
      },
    }
    const first = open([counted], { toolLog })
    const answer = first.call('counted', { x: 1 })
    await expect.poll(() => written).toBeDefined()
    first.broker.end()
    written?.()
    expect(await answer).toMatchObject({ ok: false, kind: 'ended' })
    expect([called, first.broker.calls]).toEqual([0, []])

    const recorded = recordedOf(steps)
    expect(recorded).toMatchObject({ isWhole: true, calls: [{ tool: 't.counted', isMade: false }] })
    const again = open([counted], { recorded: recorded.calls })
    expect(again.broker.calls).toEqual([])
    expect(await again.call('counted', { x: 1 })).toMatchObject({ ok: true, value: 1 })
    expect(again.broker.calls).toMatchObject([{ ok: true, args_preview: '{"x":1}' }])
    expect(recordedOf([...steps, ...again.steps]).calls).toMatchObject([{ isMade: true, answered: { ok: true } }])
  })

  it('does not take a failure for an answer that came of the end of the run', async () => {
    const waits = tool('waits', async (_args, { signal }) => {
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
      throw new ToolFailure('stopped')
    })
    const first = open([waits])
    void first.call('waits')
    await expect.poll(() => first.steps.length).toBe(1)
    first.broker.end()
    await expect.poll(() => first.steps.length).toBe(2)
    const again = open([waits], { recorded: recordedOf(first.steps).calls })
    expect(await again.call('waits')).toMatchObject({ ok: false, kind: 'ended' })
    expect(again.diverged[0]).toContain('not known')
  })

  it('is worth nothing where an answer before it is not known', async () => {
    const first = open([echo])
    await first.call('echo', { value: 1 })
    const again = open([echo], { recorded: recordedOf(first.steps.filter(({ step }) => step === 'called')).calls })
    expect(await again.call('echo', { value: 1 })).toMatchObject({ ok: false, kind: 'ended' })
    expect(again.diverged[0]).toContain('not known')
  })
})
