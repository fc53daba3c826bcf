import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { exactJson } from '../../src/exact-json.js'
import { ToolSteps } from '../../src/journal/tool-steps.js'
import { ToolCatalog } from '../../src/toolbox/catalog.js'
import { maskedSource } from '../../src/toolbox/masked-source.js'
import { Toolbox } from '../../src/toolbox/toolbox.js'
import { httpServer, isCall } from './mcp/support/http-server.js'
import { misbehaving, open } from './mcp/support/sources.js'
import { printed } from './python/support/run-code.js'

const LARGE =
  '{"id":9223372036854775807,"neg":-9223372036854775808,"deep":[[{"n":36893488147419103233}]],"inf":1e400,"text":"9223372036854775807"}'
const SECRET = '777777777777777777'

test('numbers of results arrive exactly, also when they are given again after a yes', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'exact-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const { url, received } = await httpServer((one, response) => {
    if (!isCall(one)) return false
    const content = one.message.params?.name === 'do' ? LARGE : `[${'1'.repeat(5_000)},${SECRET}]`
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(`{"jsonrpc":"2.0","id":${one.message.id},"result":{"content":[],"structuredContent":${content}}}`)
    return true
  })
  const mask = (text: string) => text.replaceAll(SECRET, '[redacted]')
  const catalog = new ToolCatalog({
    sources: [maskedSource(open({ url }).source, mask)],
    globs: { allow: null, ask: [], deny: [] },
  })
  const toolbox = new Toolbox({
    catalog: (signal, wanted) => catalog.snapshot(signal, wanted),
    categoriesIn: code => catalog.categoriesIn(code),
    mentioned: () => [],
    mayUseTools: () => true,
    description: '',
    callsMax: 5,
    progress: false,
    mask,
    log: pino({ level: 'silent' }),
  })
  const code = `
value = tools.srv.do()
assert value["id"] == 2**63 - 1 and value["neg"] == -2**63 and value["deep"] == [[{"n": 2**65 + 1}]], value
assert value["inf"] == float("inf") and value["text"] == str(2**63 - 1), value
assert tools.srv.other() == [(10**5000 - 1) // 9, "[redacted]"]`
  for (const isApproved of [false, true]) {
    const steps = await ToolSteps.open(folder, ['c'])
    const run = await toolbox.begin({
      code,
      isApproved,
      signal: new AbortController().signal,
      toolLog: { earlier: () => steps.read('c'), note: step => steps.note('c', step).then(() => true) },
      onBlocked: () => {},
      onDiverged: () => {},
    })
    if ('refused' in run) throw new Error(run.refused)
    const answer = (request: unknown, line: { raw(payload: Buffer): void }) => {
      void run.calls.request(Buffer.from(JSON.stringify(request)), async payload => line.raw(payload))
      return null
    }
    await printed(code, { answer })
    expect(run.made.map(({ ok }) => ok)).toEqual([true, true])
    expect(received.filter(isCall)).toHaveLength(2)
  }
})

test('numbers of a server over stdio arrive as those over HTTP do', async () => {
  const { call } = open(misbehaving('good'))
  const value = await call('raw', { result: `{"content":[],"structuredContent":${LARGE}}` })
  expect(exactJson(value)).toBe(LARGE)
})
