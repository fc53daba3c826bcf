import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import type { Config } from '../../../src/config.js'
import type { FileStore } from '../../../src/files/store.js'
import { FilesOfThreads } from '../../../src/files/thread-files.js'
import type { SandboxReport } from '../../../src/outcome.js'
import { createPythonExecute, type SandboxRunRequest } from '../../../src/tool/python-execute.js'
import { assertStrict } from '../../../src/tool/strict-schema.js'
import { captured, config, context, invocationOf, reportOf } from './fixtures.js'

/** The tool with a sandbox that prints what it is given, and the requests that it got. */
function toolWith(changes: Partial<Config> = {}, report: Partial<SandboxReport> = {}) {
  const requests: SandboxRunRequest[] = []
  const tool = createPythonExecute({
    ...context,
    config: { ...config, ...changes },
    toolbox: null,
    run: async request => {
      requests.push(request)
      request.onStdout('out')
      request.onStdout('put\n')
      return reportOf({ stdout: captured('output\n'), ...report })
    },
  })
  return { tool, requests }
}

const always = { confirmBefore: 'always' } as const
const argsOf = (code: string, timeout_seconds: number | null = null) => ({ args: { code, timeout_seconds } })

test('the definition is strict and carries the limits', () => {
  const { tool } = toolWith()
  assertStrict(tool)
  expect(tool.name).toBe('python_execute')
  expect(tool.description).toContain('60 s')
  expect(JSON.stringify(tool.parameters)).toContain('1 to 540; null means 60')
})

test('arguments are parsed under the configured size', () => {
  const { tool } = toolWith({ argumentsMaxBytes: 30 })
  expect(tool.parse('{"code":"x"}')).toEqual({ ok: true, ...argsOf('x') })
  expect(tool.parse(`{"code":"${'x'.repeat(30)}"}`)).toMatchObject({ ok: false })
})

describe('a run', () => {
  test('is given code, wall time and signal, and answers with its outcome', async () => {
    const { tool, requests } = toolWith()
    const invocation = invocationOf(argsOf('print(1)', 5))
    const reply = await tool.handle(invocation)
    expect(requests).toMatchObject([{ code: 'print(1)', wallMs: 5000, signal: invocation.signal }])
    expect(reply).toMatchObject({
      kind: 'answer',
      content: 'output\n',
      dollars: 0.0175,
      provenance: { system: 'python_service', limits: { wall_ms: 5000 } },
      outcome: { status: 'completed', usage: { queue_ms: 12 } },
    })
  })

  test('streams stdout in order', async () => {
    const streamed: string[] = []
    await toolWith().tool.handle(invocationOf({ stream: text => streamed.push(text) }))
    expect(streamed).toEqual(['out', 'put\n'])
  })

  test('says that the time asked for was clamped', async () => {
    const reply = await toolWith().tool.handle(invocationOf(argsOf('x', 900)))
    expect(reply).toMatchObject({
      content: 'output\n[timeout_seconds 900 is over the maximum: limited to 540 s]',
    })
  })

  test('names the shortened time when it is over', async () => {
    const { tool, requests } = toolWith({}, { status: 'timed_out', exitCode: null })
    const reply = await tool.handle(invocationOf({ remainingMs: 20_000 }))
    expect(requests[0]?.wallMs).toBe(20_000)
    expect(reply).toMatchObject({
      content: expect.stringMatching(/\[timed out after 20 s\]\n\[time limit shortened from 60 s to 20 s/),
    })
  })

  test('has less time where files of earlier calls have to be put in place before a near deadline', async () => {
    const store: FileStore = {
      list: async () => ({ files: [{ path: 'a', bytes: 1, at: 1, version: '1' }], gone: [] }),
      get: async () => Buffer.from('a'),
      keep: async () => ({ stored: new Map(), refused: new Map(), evicted: [] }),
      remove: async () => {},
      close: () => {},
    }
    const bounds = { bytes: 10, fileBytes: 10, files: 10 }
    const files = new FilesOfThreads({ store, bounds, log: pino({ level: 'silent' }) })
    const requests: SandboxRunRequest[] = []
    const run = async (request: SandboxRunRequest) => {
      requests.push(request)
      return reportOf()
    }
    const tool = createPythonExecute({ ...context, toolbox: null, files, run })
    const thread = { group: 'g', thread: 't' }
    for (const remainingMs of [40_000, 585_000]) await tool.handle(invocationOf({ remainingMs, thread }))
    expect(requests[0]?.wallMs).toBeLessThanOrEqual(30_000)
    expect(requests[1]?.wallMs).toBe(60_000)
    expect(requests[0]?.files).toMatchObject({ contents: 'kept', inputs: [{ path: 'a' }] })
  })

  test('does not begin with less than a second left, and says so', async () => {
    const { tool, requests } = toolWith()
    const reply = await tool.handle(invocationOf({ remainingMs: 999 }))
    expect(requests).toEqual([])
    expect(reply).toMatchObject({
      content: expect.stringMatching(/less than 1 s was left.*; not run, safe to retry\]$/),
      dollars: 0,
      outcome: { status: 'interrupted', provenance: { started: false }, usage: { queue_ms: 12 } },
    })
  })

  test('that the sandbox refuses with an error passes it on', async () => {
    const tool = createPythonExecute({ ...context, toolbox: null, run: () => Promise.reject(new Error('broken')) })
    await expect(tool.handle(invocationOf())).rejects.toThrow('broken')
  })
})

describe('confirmation', () => {
  test.each([
    ['never, not asked', {}, null],
    ['never, approved', {}, true],
    ['always, approved', always, true],
  ])('is not needed: %s', async (_what, changes, confirmedByHuman) => {
    const { tool, requests } = toolWith(changes)
    const invocation = invocationOf({ confirmedByHuman })
    expect(await tool.before(invocation)).toBe(null)
    await tool.handle(invocation)
    expect(requests.length).toBe(1)
  })

  test('is asked for with the code as the command', async () => {
    const code = 'import os\nprint("é😀")\n'
    expect(await toolWith(always).tool.before(invocationOf(argsOf(code, 90)))).toEqual({
      kind: 'confirm',
      setupKey: '',
      command: code,
      explanation: 'Run 2 lines of Python in an isolated sandbox without network, for up to 90 s?',
      outcome: null,
    })
  })

  test('shows the first 2000 characters and says that there are more', async () => {
    const reply = await toolWith(always).tool.before(invocationOf(argsOf('x'.repeat(2001))))
    expect(reply).toMatchObject({
      command: `${'x'.repeat(2000)}\n… [cut here: 2000 of 2001 characters are shown]`,
      explanation: expect.stringContaining('Only the first 2000 of 2001 characters are shown.'),
    })
  })

  test('shows 2000 characters whole', async () => {
    expect(await toolWith(always).tool.before(invocationOf(argsOf('x'.repeat(2000))))).toMatchObject({
      command: 'x'.repeat(2000),
    })
  })

  test('does not cut inside a character', async () => {
    const reply = await toolWith(always).tool.before(invocationOf(argsOf(`${'x'.repeat(1999)}😀y`)))
    expect(reply).toMatchObject({ command: `${'x'.repeat(1999)}\n… [cut here: 1999 of 2002 characters are shown]` })
  })

  test('shows characters that would hide or reorder code', async () => {
    const reply = await toolWith(always).tool.before(invocationOf(argsOf('a\u202e # \u200b\rb\r\nc 👩‍💻')))
    expect(reply).toMatchObject({ command: 'a\\u{202e} # \\u{200b}\\u{d}b\nc 👩‍💻' })
  })

  test.each([
    ['always', always],
    ['never', {}],
  ])('that a person refused means nothing runs: %s', async (_what, changes) => {
    const { tool, requests } = toolWith(changes)
    const invocation = invocationOf({ confirmedByHuman: false })
    const refused = {
      kind: 'answer',
      content: expect.stringContaining('declined, not run'),
      dollars: 0,
      outcome: { status: 'declined', provenance: { started: false } },
    }
    expect(await tool.before(invocation)).toMatchObject(refused)
    expect(await tool.handle(invocation)).toMatchObject(refused)
    expect(requests).toEqual([])
  })

  test('is asked for again rather than run, if nobody asked before', async () => {
    const { tool, requests } = toolWith(always)
    expect(await tool.handle(invocationOf())).toMatchObject({ kind: 'confirm' })
    expect(requests).toEqual([])
  })

  test('is not asked for where no time is left to run', async () => {
    const { tool } = toolWith(always)
    const invocation = invocationOf({ remainingMs: 10 })
    expect(await tool.before(invocation)).toBe(null)
    expect(await tool.handle(invocation)).toMatchObject({ outcome: { status: 'interrupted' } })
  })
})
