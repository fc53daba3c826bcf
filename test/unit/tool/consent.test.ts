import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { MemoryJournal } from '../../../src/journal/memory-journal.js'
import type { SandboxReport } from '../../../src/outcome.js'
import { createPythonExecute, type SandboxRunRequest } from '../../../src/tool/python-execute.js'
import { ToolCatalog } from '../../../src/toolbox/catalog.js'
import { mayUseTools } from '../../../src/toolbox/mentions.js'
import type { ToolEntry, ToolSource } from '../../../src/toolbox/tool-entry.js'
import { Toolbox } from '../../../src/toolbox/toolbox.js'
import { captured, config, context, invocationOf, reportOf } from './fixtures.js'

const SECRET = 'a-key-that-is-known-0123'

interface Guest {
  /** What the code is answered when it calls. */
  call(category: string, tool: string): Promise<{ readonly ok: boolean; readonly kind?: string }>
  print(text: string): void
  readonly signal: AbortSignal
}

/** python_execute with servers `db`, which is there from `start()` on, and `web`; `code` plays what runs in the sandbox. */
function setup(code: (guest: Guest) => Promise<Partial<SandboxReport>>, names: readonly string[] = ['drop_all']) {
  const called: string[] = []
  let isUp = true
  const entry = (category: string, name: string, consent: ToolEntry['consent']): ToolEntry => ({
    category,
    name,
    description: name,
    parameters: { type: 'object' },
    consent,
    call: async () => {
      if (name === 'slow') await sleep(1_500)
      return { value: called.push(`${category}.${name}`) }
    },
  })
  const db = names.map(name => entry('db', name, 'ask'))
  const web = [entry('web', 'look', 'free'), entry('web', 'slow', 'free'), entry('web', 'send', 'ask')]
  const source = (category: string, tools: () => readonly ToolEntry[]): ToolSource => ({
    category,
    description: category,
    problem: null,
    tools: async () => tools(),
    close: async () => {},
  })
  const catalog = new ToolCatalog({
    sources: [source('db', () => (isUp ? db : [])), source('web', () => web)],
    globs: { allow: null, ask: [], deny: [] },
  })
  const mask = (text: string) => text.replaceAll(SECRET, '[redacted]')
  const toolbox = new Toolbox({
    catalog: (signal, wanted) => catalog.snapshot(signal, wanted),
    categoriesIn: text => catalog.categoriesIn(text),
    mentioned: (text, entries) => catalog.mentioned(text, entries),
    mayUseTools,
    description: '',
    callsMax: 50,
    progress: false,
    mask,
    log: pino({ level: 'silent' }),
  })
  const run = async (request: SandboxRunRequest): Promise<SandboxReport> => {
    let id = 0
    const call: Guest['call'] = (category, tool) =>
      new Promise(resolve => {
        const payload = { id: ++id, op: 'call', category, tool, args: [], kw: {} }
        request.calls?.request(Buffer.from(JSON.stringify(payload)), async answer =>
          resolve(JSON.parse(answer.toString('utf8')) as { ok: boolean }),
        )
      })
    let stdout = ''
    const print = (text: string) => {
      stdout += text
      request.onStdout(text)
    }
    const end = await code({ call, print, signal: request.signal })
    request.calls?.end()
    return reportOf({ stdout: captured(stdout), ...end })
  }
  const tool = createPythonExecute({ ...context, config, mask, toolbox, run })
  const journal = new MemoryJournal()
  const shown: string[] = []
  const deliver = async (
    text: string,
    confirmedByHuman: boolean | null,
    { toolLog = journal.toolLog({ fcall_id: 'c' }), signal = new AbortController().signal } = {},
  ) => {
    const args = { code: text, timeout_seconds: null }
    const stream = (piece: string) => void shown.push(piece)
    const invocation = invocationOf({ args, confirmedByHuman, toolLog, signal, stream })
    return (await tool.before(invocation)) ?? (await tool.handle(invocation))
  }
  return { deliver, called, shown: () => shown.join(''), stop: () => (isUp = false), start: () => (isUp = true) }
}

const DROP = 'tools.db.drop_all()'
const drops = async ({ call }: Guest): Promise<Partial<SandboxReport>> =>
  (await call('db', 'drop_all')).ok ? {} : { status: 'failed', exitCode: 1 }
const untilEnded = (signal: AbortSignal) =>
  new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))

describe('a yes', () => {
  it('covers what the request showed', async () => {
    const { deliver, called } = setup(drops)
    expect(await deliver(DROP, null)).toMatchObject({
      kind: 'confirm',
      explanation: expect.stringContaining('call db.drop_all, for'),
    })
    expect(await deliver(DROP, true)).toMatchObject({ outcome: { status: 'completed' } })
    expect(called).toEqual(['db.drop_all'])
  })

  it('does not cover a tool that was not there yet when the person was asked', async () => {
    const { deliver, called, stop, start } = setup(drops)
    stop()
    const request = await deliver(`${DROP}\ntools.web.send()`, null)
    expect(request).toMatchObject({ kind: 'confirm', explanation: expect.not.stringContaining('drop_all') })
    start()
    expect(await deliver(`${DROP}\ntools.web.send()`, true)).toMatchObject({
      outcome: { status: 'needs_confirmation' },
    })
    expect(called).toEqual([])
  })

  it('to a request that this worker did not make runs no code that could call such a tool', async () => {
    let ran = 0
    const { deliver, called } = setup(async () => ({ exitCode: ran++ }))
    const elsewhere = () => ({ toolLog: new MemoryJournal().toolLog({ fcall_id: 'c' }) })
    expect(await deliver(DROP, true, elsewhere())).toMatchObject({
      content: expect.stringMatching(/another worker asked them.*may have run in part/),
      outcome: { status: 'interrupted' },
    })
    expect(ran).toBe(0)
    expect(await deliver('print(1)', true, elsewhere())).toMatchObject({ outcome: { status: 'completed' } })
    expect(called).toEqual([])
  })

  it('to a request that another worker had made before this one runs none either', async () => {
    const { deliver, called } = setup(drops)
    const toolLog = new MemoryJournal().toolLog({ fcall_id: 'c' })
    await deliver(DROP, null, { toolLog })
    await toolLog.note({ step: 'asked', tools: null })
    expect(await deliver(DROP, true, { toolLog })).toMatchObject({ outcome: { status: 'interrupted' } })
    expect(called).toEqual([])
  })

  it('is not asked for where it could not be known what it is for', async () => {
    const { deliver } = setup(drops)
    const toolLog = { earlier: async () => ({ steps: [], isWhole: true }), note: async () => false }
    expect(await deliver(DROP, null, { toolLog })).toMatchObject({
      content: expect.stringMatching(/can not be written down.*not run, safe to retry/),
      outcome: { status: 'interrupted', provenance: { started: false } },
    })
  })
})

describe('a request', () => {
  it('names every tool whole, and asks for no more than a person reads', async () => {
    const long = `write_${'x'.repeat(200)}`
    const names = [...Array.from({ length: 48 }, (_, n) => `update_${n}`), long, 'transfer']
    const { deliver, called } = setup(drops, names)
    const all = names.map(name => `tools.db.${name}()`).join('\n')
    const reply = await deliver(`#${'x'.repeat(3_000)}\n${all}`, null)
    if (reply.kind !== 'confirm') throw new Error('nobody was asked')
    for (const name of names) expect(reply.explanation).toContain(`db.${name}`)
    expect(await deliver(`${all}\ntools.web.send()`, null)).toMatchObject({
      kind: 'answer',
      content: expect.stringContaining('names 51 tools'),
      outcome: { status: 'needs_confirmation', provenance: { started: false } },
    })
    expect(called).toEqual([])
  })

  it('shows no name that could be read as two, or as another', async () => {
    const { deliver } = setup(drops, ['a, web.send', 'b\u200b', 'b\\u{200b}'])
    const reply = await deliver('tools["db"]["a, web.send"]; tools["db"]["b\u200b"]; tools["db"]["b\\u{200b}"]', null)
    expect(reply).toMatchObject({
      explanation: expect.stringContaining('call "db.a, web.send", "db.b\\u{200b}", "db.b\\\\u{200b}", web.send, for'),
    })
  })

  it('shows no secret that the worker knows', async () => {
    const { deliver } = setup(drops, ['drop_all', SECRET])
    const reply = await deliver(`key = "${SECRET}"\n${DROP}`, null)
    expect(JSON.stringify(reply)).not.toContain(SECRET)
    expect(reply).toMatchObject({ kind: 'confirm', command: expect.stringContaining('key = "[redacted]"') })
  })
})

it('a call that ends when its run has been answered leaves nothing behind', async () => {
  const { deliver, called } = setup(async ({ call }) => {
    void call('web', 'slow')
    await sleep(200)
    return {}
  })
  const toolLog = new MemoryJournal().toolLog({ fcall_id: 'c' })
  expect(await deliver('tools.web.slow()', null, { toolLog })).toMatchObject({
    outcome: { tool_calls: [{ tool: 'web.slow', ok: false, error: 'had not answered when the run ended' }] },
  })
  await expect.poll(() => called, { timeout: 10_000 }).toEqual(['web.slow'])
  await sleep(100)
  expect((await toolLog.earlier()).steps).toMatchObject([{ step: 'called' }])
})

describe('a tool that nobody has approved', () => {
  const unseen = 'call_tool("d" + "b", "drop" + "_all")'

  it('ends code that catches the exception and goes on, long before its wall time', async () => {
    const { deliver, called } = setup(async ({ call, signal }) => {
      await call('db', 'drop_all')
      await untilEnded(signal)
      expect(await call('web', 'look')).toMatchObject({ ok: false, kind: 'needs_confirmation' })
      return { status: 'cancelled', exitCode: null, reason: 'ended' }
    })
    const started = performance.now()
    expect(await deliver(unseen, null)).toMatchObject({
      kind: 'confirm',
      explanation: expect.stringMatching(
        /call db\.drop_all, for up to 60 s\? It has run up to that call, and begins anew\./,
      ),
      outcome: { status: 'needs_confirmation', content: expect.not.stringMatching(/cancelled|interrupted/) },
    })
    expect(performance.now() - started).toBeLessThan(10_000)
    expect(called).toEqual([])
  })

  it('ends it only when the calls beside it are answered, so that it can repeat them', async () => {
    const { deliver, called } = setup(async ({ call, signal }) => {
      const slow = call('web', 'slow')
      await call('db', 'drop_all')
      await Promise.race([slow, untilEnded(signal)])
      return { status: signal.aborted ? 'cancelled' : 'failed' }
    })
    expect(await deliver(unseen, null)).toMatchObject({ kind: 'confirm' })
    expect(await deliver(unseen, true)).toMatchObject({ outcome: { status: 'failed' } })
    expect(called).toEqual(['web.slow', 'db.drop_all'])
  })

  it.each(['completed', 'failed', 'timed_out', 'out_of_memory', 'limit_exceeded', 'crashed'] as const)(
    'is asked for also where the code then made it end as %s',
    async status => {
      const { deliver } = setup(async guest => ({ ...(await drops(guest)), status }))
      expect(await deliver(unseen, null)).toMatchObject({ kind: 'confirm', outcome: { status: 'needs_confirmation' } })
    },
  )

  it.each(['completed', 'failed', 'timed_out', 'out_of_memory', 'limit_exceeded', 'crashed', 'cancelled'] as const)(
    'ends approved code that does something else then as interrupted, also where the code made it end as %s',
    async status => {
      let runs = 0
      const { deliver, called } = setup(async guest => {
        await guest.call('web', runs++ === 0 ? 'look' : 'slow')
        await guest.call('db', 'drop_all')
        return { status, exitCode: null }
      })
      expect(await deliver(unseen, null)).toMatchObject({ kind: 'confirm' })
      expect(await deliver(unseen, true)).toMatchObject({
        content: expect.stringMatching(
          /did not repeat its call of web\.look.*\n\[tool calls made before the end: web\.look ok\]/,
        ),
        outcome: { status: 'interrupted', provenance: { status: 'interrupted' } },
      })
      expect(called).toEqual(['web.look'])
    },
  )

  it('is not asked for where somebody cancelled the call meanwhile', async () => {
    const cancel = new AbortController()
    const { deliver } = setup(async ({ call }) => {
      await call('db', 'drop_all')
      cancel.abort('the user pressed stop')
      return { status: 'cancelled', exitCode: null, reason: 'the user pressed stop' }
    })
    expect(await deliver(unseen, null, { signal: cancel.signal })).toMatchObject({ outcome: { status: 'cancelled' } })
  })

  it('is not asked for a second time', async () => {
    const { deliver } = setup(async guest => {
      await guest.call('web', 'send')
      return drops(guest)
    })
    expect(await deliver(unseen, null)).toMatchObject({ kind: 'confirm' })
    expect(await deliver(unseen, true)).toMatchObject({
      kind: 'answer',
      outcome: { status: 'needs_confirmation', content: expect.stringContaining('db.drop_all') },
    })
  })

  it('leaves what was printed to be shown once, by the run that a person approves', async () => {
    const { deliver, shown } = setup(async guest => {
      guest.print(`look ${(await guest.call('web', 'look')).ok}\n`)
      guest.print((await guest.call('db', 'drop_all')).ok ? 'dropped\n' : 'not dropped\n')
      return {}
    })
    expect(await deliver(unseen, null)).toMatchObject({ outcome: { content: expect.stringContaining('not dropped') } })
    expect(shown()).toBe('look true\n')
    expect(await deliver(unseen, true)).toMatchObject({ content: 'look true\ndropped\n' })
    expect(shown()).toBe('look true\ndropped\n')
  })
})
