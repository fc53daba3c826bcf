import { pino } from 'pino'
import { expect, it, onTestFinished } from 'vitest'
import { openToolbox, readToolSettings } from '../../../src/commands/toolbox.js'
import type { SandboxFacts } from '../../../src/outcome.js'
import { local } from '../config/fixtures.js'

const FACTS: SandboxFacts = {
  tier: 'namespaces',
  layers: [],
  interpreter: { path: '/usr/bin/python3', version: '3.11.2' },
  installed: {},
  missing: {},
  subprocesses: true,
}

it.each([
  ['restricted', true, /^tools\.shell has no tools now: under the restricted policy/],
  ['restricted', false, /restricted policy/],
  ['full', false, /may not start processes/],
  ['full', true, null],
] as const)('the shell under the policy %s, with processes: %s', async (SANDBOX_POLICY, subprocesses, why) => {
  const config = local({ SANDBOX_POLICY })
  const log = pino({ level: 'silent' })
  const { settings } = readToolSettings(config.tools, {})
  const mask = (text: string) => text
  const opened = await openToolbox(config, { ...FACTS, subprocesses }, settings, { log, env: {}, mask })
  onTestFinished(() => opened?.close())
  const run = await opened?.toolbox.begin({
    code: 'tools.shell.terminal("true")',
    isApproved: false,
    signal: new AbortController().signal,
    toolLog: { earlier: async () => ({ steps: [], isWhole: true }), note: async () => true },
    onBlocked: () => {},
    onDiverged: () => {},
  })
  if (run === undefined || 'refused' in run) throw new Error('no run')
  const request = { id: 1, op: 'call', category: 'shell', tool: 'terminal', args: ['true'], kw: {} }
  const answers: unknown[] = []
  await run.calls.request(Buffer.from(JSON.stringify(request)), async payload => {
    answers.push(JSON.parse(payload.toString()))
  })
  expect(answers).toMatchObject([why === null ? { local: true } : { ok: false, message: expect.stringMatching(why) }])
})
