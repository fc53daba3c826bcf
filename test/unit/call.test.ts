import { setMaxListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { Admission } from '../../src/admission.js'
import { BackendError } from '../../src/backend/errors.js'
import type { ToolCall } from '../../src/backend/protocol.js'
import { type CallContext, handleCall, rejectUnreadable } from '../../src/call.js'
import type { StoredAnswer } from '../../src/journal/journal.js'
import { MemoryJournal } from '../../src/journal/memory-journal.js'
import { PostingPace } from '../../src/posting-pace.js'
import { PostingRoom } from '../../src/posting-room.js'
import type { HandledCall } from '../../src/telemetry/status.js'
import { answer, broken, busy, CALLED_NOTHING, notRun, rejected } from '../../src/tool/outcome-without-run.js'
import { Interruption, type Invocation, type Reply, type Tool } from '../../src/tool/tool.js'
import { captureLog, sampleCall } from '../backend/support/fixtures.js'
import { config, context as outcomeContext } from './tool/fixtures.js'

type Handle = (invocation: Invocation<unknown>) => Promise<Reply>
interface Post {
  readonly answer: Omit<StoredAnswer, 'asPlaceholder'>
  readonly asPlaceholder: boolean
}

const NEVER = new AbortController().signal
setMaxListeners(0, NEVER)

function text(content: string): Reply {
  return { kind: 'answer', content, provenance: { system: 'test' }, dollars: 0.5, outcome: null }
}

/** The way of a call with a scripted tool and a backend that answers each post with `onPost`. */
function setup(handle: Handle, onPost: (post: Post) => void | Promise<void> = () => {}, before: Reply | null = null) {
  const posts: Post[] = []
  const asked: string[] = []
  const forbidden: string[] = []
  const logged = captureLog()
  const stopPosting = new AbortController()
  setMaxListeners(0, stopPosting.signal)
  const admission = new Admission({ slots: 1, queueMax: 10 })
  const tool: Tool = {
    name: 'python_execute',
    description: 'A scripted tool.',
    parameters: { type: 'object' },
    parse: given => (given === 'bad' ? { ok: false, message: 'bad arguments' } : { ok: true, args: given }),
    before: ({ confirmedByHuman }) => (confirmedByHuman === null ? before : null),
    handle,
  }
  const context: CallContext = {
    config,
    tools: new Map([[tool.name, tool]]),
    journal: new MemoryJournal(),
    admission,
    api: {
      async postResult(_call, answer, { asPlaceholder }) {
        const post = { answer, asPlaceholder }
        posts.push(post)
        await onPost(post)
      },
      async requestConfirmation(call) {
        asked.push(call.fcall_id)
        if (call.fcall_id === 'nobody') throw new BackendError('model', '400: no person here', { status: 400 })
        if (call.fcall_id === 'lost' && asked.length === 1) throw new BackendError('retry', 'socket hang up', {})
        return ['elsewhere', 'lost'].includes(call.fcall_id) ? 'asked_before' : 'asked'
      },
    },
    openDelta: () => ({ push: () => {}, end: async () => {}, stats: { messages: 0, sentBytes: 0, droppedBytes: 0 } }),
    outcomes: {
      rejected: (message, called) => rejected(outcomeContext, message, called),
      busy: called => busy(outcomeContext, called),
      notRun: (status, reason, called) => notRun(outcomeContext, status, reason, called),
      broken: (reason, started, called) => broken(outcomeContext, reason, started, called),
    },
    room: new PostingRoom({ onRoom: () => {}, onFull: () => {} }),
    pace: new PostingPace({ log: logged.log, onOpen: () => {}, random: () => 0 }),
    onForbidden: reason => forbidden.push(reason),
    log: logged.log,
    stopPosting: stopPosting.signal,
    wallClock: () => 1_700_000_001_000,
  }
  const handleOne = (changes: Partial<ToolCall> = {}, cancel: AbortSignal = NEVER) =>
    handleCall(sampleCall(changes), context, cancel)
  const reject = (changes: Partial<ToolCall> = {}) =>
    rejectUnreadable(sampleCall(changes), 'fcall_ftm_alt: expected int', context)
  return { handleOne, reject, posts, asked, forbidden, logged, stopPosting, admission, context }
}

describe('the way of a call', () => {
  it('posts what the tool answers, once, with its provenance and cost', async () => {
    const { handleOne, posts } = setup(async () => text('done'))
    expect(await handleOne()).toBe(true)
    expect(posts).toEqual([
      {
        answer: expect.objectContaining({ content: '"done"', provenance: '{"system":"test"}', dollars: 0.5 }),
        asPlaceholder: false,
      },
    ])
  })

  it('runs a call that is delivered twice once', async () => {
    let runs = 0
    const { handleOne, posts } = setup(async () => text(`run ${++runs}`))
    await Promise.all([handleOne(), handleOne()])
    expect(runs).toBe(1)
    expect(posts).toHaveLength(1)
  })

  it.each([true, false])('runs once what comes again with a word (%s) that nobody asked for', async word => {
    let runs = 0
    const { handleOne, posts } = setup(async () => text(`run ${++runs}`))
    await Promise.all([handleOne(), handleOne({ confirmed_by_human: word })])
    expect(runs).toBe(1)
    expect(posts).toHaveLength(1)
    await handleOne({ confirmed_by_human: word })
    expect(runs).toBe(1)
    expect(posts.map(post => post.answer.content)).toEqual(['"run 1"', '"run 1"'])
  })

  it('posts a settled answer again when the backend delivers the call again, but never two posts at a time', async () => {
    let release: () => void = () => {}
    const held = new Promise<void>(resolve => {
      release = resolve
    })
    const { handleOne, posts } = setup(
      async () => text('done'),
      () => held,
    )
    const first = handleOne()
    while (posts.length === 0) await new Promise(resolve => setImmediate(resolve))
    expect(await handleOne()).toBe(true)
    expect(posts).toHaveLength(1)
    release()
    await first
    expect(await handleOne()).toBe(true)
    expect(posts.map(post => post.answer.content)).toEqual(['"done"', '"done"'])
  })

  it('is not run where it may have been before, and is answered so', async () => {
    let runs = 0
    const { posts, context, logged } = setup(async () => text(`run ${++runs}`))
    const now = 1_700_000_001_000
    const journal = new MemoryJournal({ wallClock: () => now, namesMost: 1 })
    for (let n = 0; n < 2_002; n++) {
      journal.claim(`other ${n}`)
      await journal.settled(`other ${n}`, { content: '', provenance: '', dollars: 0, asPlaceholder: false })
      journal.delivered(`other ${n}`)
    }
    const call = sampleCall({ fcall_created_ts: now / 1000 - 1 })
    expect(await handleCall(call, { ...context, journal }, NEVER)).toBe(true)
    expect(runs).toBe(0)
    expect(posts.map(post => post.answer.content)).toEqual([
      expect.stringMatching(/can not tell.*may have run in part/),
    ])
    expect(JSON.parse(posts[0]?.answer.provenance ?? '')).toMatchObject({ status: 'interrupted', started: true })
    expect(logged.lines.map(line => line['msg'])).toContain(
      'call is not run: it may have been answered before, and too many came after it to know',
    )
  })

  it('posts a placeholder as one, and again as one', async () => {
    const { handleOne, posts } = setup(async () => ({ kind: 'placeholder', subchats: ['s1'] }))
    await handleOne()
    await handleOne()
    expect(posts.map(post => post.asPlaceholder)).toEqual([true, true])
    expect(posts[0]?.answer.content).toBe('"WAIT_SUBCHATS"')
    expect(JSON.parse(posts[0]?.answer.provenance ?? '')).toMatchObject({ subchats_started: ['s1'] })
  })

  it.each(['later', 'already_answered'] as const)(
    'posts nothing for "%s", however often it is delivered',
    async kind => {
      let runs = 0
      const { handleOne, posts } = setup(async () => {
        runs++
        return { kind }
      })
      expect(await handleOne()).toBe(true)
      expect(await handleOne()).toBe(true)
      expect(runs).toBe(1)
      expect(posts).toEqual([])
    },
  )

  it('asks a person once, and runs after the yes', async () => {
    const ask: Reply = { kind: 'confirm', setupKey: '', command: 'x', explanation: 'Run?', outcome: null }
    const { handleOne, posts, asked } = setup(
      async () => text('ran'),
      () => {},
      ask,
    )
    await handleOne()
    await handleOne()
    expect(asked).toHaveLength(1)
    expect(posts).toEqual([])
    await handleOne({ confirmed_by_human: true })
    expect(posts.map(post => post.answer.content)).toEqual(['"ran"'])
  })

  it.each([
    ['elsewhere', 'is not known', [{ step: 'asked', tools: null }]],
    ['lost', 'is what it asked for, where only the word of it was lost', []],
  ])('what a person was shown when they had been asked already: %s %s', async (fcall_id, _what, steps) => {
    const ask: Reply = { kind: 'confirm', setupKey: '', command: 'x', explanation: 'Run?', outcome: null }
    const { handleOne, posts, context } = setup(
      async () => text('ran'),
      () => {},
      ask,
    )
    await handleOne({ fcall_id })
    expect(posts).toEqual([])
    expect(await context.journal.toolLog({ fcall_id }).earlier()).toEqual({ steps, isWhole: true })
  })

  it('holds of what ran before a person is asked no more than there is room for, and else its text', async () => {
    const image = { m_type: 'image/png', m_content: 'x'.repeat(8 * 1024 * 1024) }
    const ran = { ...notRun(outcomeContext, 'interrupted', 'x', CALLED_NOTHING), content: 'sent 3' }
    const parts = [{ m_type: 'text', m_content: 'sent 3' }, image]
    const { handleOne, posts, context } = setup(async () => ({
      kind: 'confirm',
      setupKey: '',
      command: 'x',
      explanation: 'Go on?',
      outcome: { ...ran, parts },
    }))
    let held = 0
    let most = 0
    class Counted extends PostingRoom {
      override take(bytes: number): boolean {
        const fits = super.take(bytes)
        if (fits) held += bytes
        most = Math.max(most, held)
        return fits
      }
      override give(bytes: number): void {
        super.give(bytes)
        held -= bytes
      }
    }
    let refuse: () => void = () => {}
    const refused = new Promise<void>(resolve => {
      refuse = resolve
    })
    const admission = new Admission({ slots: 1, queueMax: 20 })
    Object.assign(context, { admission, room: new Counted({ onRoom: () => {}, onFull: () => {} }) })
    context.api.requestConfirmation = async () => {
      await refused
      throw new BackendError('model', '400: no person here', { status: 400 })
    }
    const calls = Array.from({ length: 20 }, (_, n) => handleOne({ fcall_id: `c${n}` }))
    await expect.poll(() => held > 7 * 8 * 1024 * 1024).toBe(true)
    await new Promise(resolve => setTimeout(resolve, 200))
    refuse()
    await Promise.all(calls)
    expect(most).toBeLessThanOrEqual(64 * 1024 * 1024)
    expect(held).toBe(0)
    const contents = posts.map(({ answer }) => answer.content)
    expect(contents.filter(content => content.includes('could not be asked')).length).toBe(20)
    expect(contents.filter(content => content.includes('[what it has shown was left out')).length).toBeGreaterThan(10)
  })

  it('answers "not run" when nobody can be asked', async () => {
    const ask: Reply = { kind: 'confirm', setupKey: '', command: 'x', explanation: 'Run?', outcome: null }
    const { handleOne, posts } = setup(
      async () => text('ran'),
      () => {},
      ask,
    )
    expect(await handleOne({ fcall_id: 'nobody' })).toBe(true)
    expect(posts[0]?.answer.content).toMatch(/could not be asked.*no person here.*not run/)
  })

  it('answers as a person has decided whose word comes when nobody seemed to have been asked', async () => {
    const ask: Reply = { kind: 'confirm', setupKey: '', command: 'x', explanation: 'Run?', outcome: null }
    const { handleOne, posts, context } = setup(
      async () => text('ran'),
      () => {},
      ask,
    )
    const { journal } = context
    const toolLog = journal.toolLog.bind(journal)
    journal.toolLog = call => ({
      ...toolLog(call),
      earlier: async () => {
        await handleOne({ fcall_id: 'nobody', confirmed_by_human: true })
        return { steps: [], isWhole: true }
      },
    })
    expect(await handleOne({ fcall_id: 'nobody' })).toBe(true)
    expect(posts.map(post => post.answer.content)).toEqual(['"ran"'])
  })

  it('answers when the tool throws, and keeps the reason to itself', async () => {
    const { handleOne, posts, logged } = setup(async () => {
      throw new Error('internal detail')
    })
    await handleOne()
    expect(posts[0]?.answer.content).toContain('the worker failed while it handled the call')
    expect(posts[0]?.answer.content).not.toContain('internal detail')
    expect(logged.messages()).toContain('call failed inside the worker')
    expect(posts[0]?.answer.content).toContain('may have run in part')
    expect(JSON.parse(posts[0]?.answer.provenance ?? '')).toMatchObject({ status: 'interrupted', started: true })
  })

  it('says "not run" when the worker fails before the tool was called', async () => {
    const { context, posts } = setup(async () => text('ran'))
    const tools = new Map(
      [...context.tools].map(([name, tool]) => [
        name,
        {
          ...tool,
          before: () => {
            throw new Error('broken')
          },
        },
      ]),
    )
    await handleCall(sampleCall(), { ...context, tools }, NEVER)
    expect(posts[0]?.answer.content).toContain('not run, safe to retry')
    expect(JSON.parse(posts[0]?.answer.provenance ?? '')).toMatchObject({ started: false })
  })

  it('is not hurt by live output that fails, which is logged', async () => {
    const { context, posts, logged } = setup(async ({ stream }) => {
      stream('printed')
      return text('done')
    })
    const openDelta = () => {
      throw new Error('no stream')
    }
    expect(await handleCall(sampleCall(), { ...context, openDelta }, NEVER)).toBe(true)
    expect(posts[0]?.answer.content).toBe('"done"')
    expect(logged.messages()).toContain('live output failed')
  })

  it('bounds the tool name that a model made up, in the answer and in the log', async () => {
    const { handleOne, posts, logged } = setup(async () => text('ran'))
    await handleOne({ fcall_name: 'n'.repeat(100_000) })
    expect(posts[0]?.answer.content.length).toBeLessThan(1_000)
    expect(logged.text().length).toBeLessThan(5_000)
  })

  it('bounds ids in the log, and answers under the whole id', async () => {
    const { handleOne, logged, posts } = setup(async () => text('ran'))
    await handleOne({ fcall_id: 'c'.repeat(100_000), located_fgroup_id: 'g'.repeat(100_000) })
    expect(posts).toHaveLength(1)
    expect(logged.text().length).toBeLessThan(5_000)
  })
})

describe('a call of which only its identity can be read', () => {
  it('is rejected once, with what is wrong with it', async () => {
    const { reject, posts } = setup(async () => text('ran'))
    expect(await reject()).toBe(true)
    expect(posts[0]?.answer.content).toMatch(/^"Not run: .*fcall_ftm_alt: expected int.*not at fault/)
    expect(JSON.parse(posts[0]?.answer.provenance ?? '')).toMatchObject({ status: 'rejected', started: false })
  })

  it('is left alone while the call, delivered before, is being handled', async () => {
    let finish: (reply: Reply) => void = () => {}
    const { handleOne, reject, posts } = setup(
      () =>
        new Promise(resolve => {
          finish = resolve
        }),
    )
    const handled = handleOne()
    await new Promise(resolve => setImmediate(resolve))
    expect(await reject()).toBe(true)
    expect(posts).toEqual([])
    finish(text('ran'))
    await handled
    expect(posts.map(post => post.answer.content)).toEqual(['"ran"'])
  })
})

describe('an answer that the backend refuses', () => {
  it.each([
    ['413', new BackendError('final', 'HTTP 413', { status: 413 })],
    ['a text that says so', new BackendError('model', '400: content too large', { status: 400 })],
  ])('as too large (%s) is shortened until it is taken, and says so', async (_what, error) => {
    const { handleOne, posts } = setup(
      async () => text(`${'x'.repeat(100_000)} the end`),
      ({ answer }) => {
        if (answer.content.length > 10_000) throw error
      },
    )
    expect(await handleOne()).toBe(true)
    expect(posts.length).toBeGreaterThan(1)
    const last = posts.at(-1)?.answer.content ?? ''
    expect(last.length).toBeLessThan(10_000)
    expect(last).toContain('the middle of this answer was left out')
    expect(last).toContain('the end')
    await handleOne()
    expect(posts.at(-1)?.answer.content).toBe(last)
  })

  it('for its provenance is posted with the least of it, and whole else', async () => {
    const files = Array.from({ length: 100 }, (_, n) => ({ path: `${n}${'x'.repeat(2_000)}`, bytes: 1, mime: 'a/b' }))
    const provenance = { system: 'test', status: 'completed', started: true, code_sha256: 'c0de', usage: {}, files }
    const { handleOne, posts } = setup(
      async () => ({ kind: 'answer', content: 'x'.repeat(10_000), provenance, dollars: 0, outcome: null }),
      ({ answer }) => {
        if (answer.provenance.length > 16_384) throw new BackendError('final', 'HTTP 413', { status: 413 })
      },
    )
    expect(await handleOne()).toBe(true)
    expect(posts).toHaveLength(2)
    expect(posts[1]?.answer.content).toHaveLength(10_002)
    expect(JSON.parse(posts[1]?.answer.provenance ?? '')).toEqual({
      system: 'test',
      status: 'completed',
      started: true,
      code_sha256: 'c0de',
      truncated: true,
    })
  })

  it('as too large at any size is given up, and counts as unanswered', async () => {
    const { handleOne, posts } = setup(
      async () => text('x'.repeat(100_000)),
      () => {
        throw new BackendError('final', 'HTTP 413', { status: 413 })
      },
    )
    expect(await handleOne()).toBe(false)
    expect(posts.length).toBeLessThan(8)
  })

  it('with 460 stops the client for good', async () => {
    const { handleOne, posts, forbidden } = setup(
      async () => text('done'),
      () => {
        throw new BackendError('never', '460: too old', { status: 460 })
      },
    )
    expect(await handleOne()).toBe(false)
    expect(posts).toHaveLength(1)
    expect(forbidden).toEqual(['460: too old'])
  })

  it('is not tried again once the backend has given the call up, counted from its creation', async () => {
    const { handleOne, posts } = setup(
      async () => text('done'),
      () => {
        throw new BackendError('retry', 'HTTP 503', { status: 503 })
      },
    )
    expect(await handleOne({ fcall_created_ts: 1_700_000_001 - 660 })).toBe(false)
    expect(posts).toHaveLength(1)
  })

  it('until the worker stops posting counts as unanswered', async () => {
    const { handleOne, stopPosting } = setup(
      async () => text('done'),
      () => {
        stopPosting.abort()
        throw new BackendError('retry', 'HTTP 503', { status: 503 })
      },
    )
    expect(await handleOne()).toBe(false)
  })
})

describe('a call that waits', () => {
  const blocked: Handle = ({ signal }) =>
    new Promise(resolve => signal.addEventListener('abort', () => resolve(text('ended')), { once: true }))

  async function withOneRunning() {
    const set = setup(blocked)
    const running = new AbortController()
    const first = set.handleOne({ fcall_id: 'running' }, running.signal)
    await new Promise(resolve => setImmediate(resolve)) // until it has its slot
    const end = async () => {
      running.abort('over')
      await first
    }
    return { ...set, end }
  }

  it('and is cancelled is answered "not run" with the reason', async () => {
    const { handleOne, posts, end } = await withOneRunning()
    const cancel = new AbortController()
    const waiting = handleOne({ fcall_id: 'waiting' }, cancel.signal)
    cancel.abort('the person pressed stop')
    await waiting
    expect(posts.map(post => post.answer.content)).toEqual(['"[cancelled: the person pressed stop; not run]"'])
    await end()
  })

  it('and whose deadline comes is answered "not run" before a slot is free', async () => {
    const { handleOne, posts, end } = await withOneRunning()
    // 585 s after its creation is the deadline; 1 s before that is too late to start.
    await handleOne({ fcall_id: 'waiting', fcall_created_ts: 1_700_000_001 - 583.9 })
    expect(posts[0]?.answer.content).toMatch(/turn did not come in time.*not run, safe to retry/)
    await end()
  })

  it('when the worker drains is answered "interrupted, not run", and so is one that comes after', async () => {
    const { handleOne, posts, end, admission } = await withOneRunning()
    const waiting = handleOne({ fcall_id: 'waiting' })
    admission.close(new Interruption('the worker is being stopped'))
    await waiting
    await handleOne({ fcall_id: 'late' })
    const expected = '"[interrupted: the worker is being stopped; not run, safe to retry]"'
    expect(posts.map(post => post.answer.content)).toEqual([expected, expected])
    await end()
  })

  it('or is refused counts as such, with how long it waited', async () => {
    const { handleOne, end, admission, context } = await withOneRunning()
    const told: HandledCall[] = []
    Object.assign(context, { onHandled: (call: HandledCall) => told.push(call) })
    const facts = () => told.splice(0).map(({ refused, queueMs }) => [refused, queueMs === null ? null : queueMs >= 90])
    await handleOne({ fcall_id: 'late', fcall_created_ts: 1_700_000_001 - 583.9 })
    expect(facts()).toEqual([['deadline', true]])

    const cancel = new AbortController()
    const cancelled = handleOne({ fcall_id: 'cancelled' }, cancel.signal)
    const waiting = Array.from({ length: 9 }, (_, n) => handleOne({ fcall_id: `waiting ${n}` }))
    await handleOne({ fcall_id: 'one too many' })
    expect(facts()).toEqual([['busy', null]])

    await new Promise(resolve => setTimeout(resolve, 100))
    cancel.abort('the person pressed stop')
    await cancelled
    expect(facts()).toEqual([[null, true]])
    admission.close(new Interruption('the worker is being stopped'))
    await Promise.all(waiting)
    expect(facts()).toEqual(Array.from({ length: 9 }, () => ['drain', true]))
    await end()
    expect(facts()).toEqual([[null, false]])
  })

  it('counts as refused where its turn comes too late for the tool, or can not be put into the journal', async () => {
    const told: HandledCall[] = []
    const set = setup(async () => answer(notRun(outcomeContext, 'interrupted', 'too late', CALLED_NOTHING)))
    Object.assign(set.context, { onHandled: (call: HandledCall) => told.push(call) })
    await set.handleOne({ fcall_created_ts: 1_700_000_001 - 590 })
    set.context.journal.started = async () => false
    await set.handleOne({ fcall_id: 'next' })
    expect(told.map(({ refused, queueMs }) => [refused, queueMs !== null])).toEqual([
      ['deadline', true],
      ['journal', true],
    ])
    expect(set.logged.lines.filter(line => line['msg'] === 'call handled').map(line => line['refused'])).toEqual([
      'deadline',
      'journal',
    ])
  })
})
