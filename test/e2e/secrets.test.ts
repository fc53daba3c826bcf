import { rm, writeFile } from 'node:fs/promises'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import type { EmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { startBackend } from './support/answers.js'
import { endPrograms, logLines, startProgram, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

/** Each stands for itself in all forms of its way through the worker. */
const CODE_SECRET = 'hunter2-in-the-code'
const OUTPUT_SECRET = 'hunter3-in-the-output'

/** Everything that can happen to a call, and to a connection. Returns the calls. */
async function live(backend: EmbeddedBackend): Promise<ToolCall[]> {
  const calls: ToolCall[] = []
  const push = (code: string, timeoutSeconds: number | null = null) => {
    const call = backend.pushCode(`# ${CODE_SECRET}\n${code}`, timeoutSeconds)
    calls.push(call)
    return call
  }
  const POST = { operation: 'cloudtool_post_result' } as const
  const answered = (call: ToolCall) => backend.waitForAnswer(call.fcall_id, 25_000)
  await answered(push(`print("${OUTPUT_SECRET}"[:7] + "3-in-the-output")`))
  await answered(push(`raise ValueError("${CODE_SECRET}")`))
  await answered(push('import time; time.sleep(9)', 1))
  await answered(push('import os; os.kill(os.getpid(), 11)'))
  const garbage = backend.pushCall({ fcall_arguments: `{"code": "${CODE_SECRET}` })
  calls.push(garbage)
  await answered(garbage)
  const { apiKey } = backend
  for (const message of [
    `500: internal error with key ${apiKey}`,
    'Variable "$input" got invalid value {"fcall_untrusted_key": "…"}; Field is wrong',
    '403: your key does not work',
  ]) {
    backend.misbehave({ kind: 'graphql_error', message }, { ...POST, times: 1 })
    await answered(push('print(1)'))
  }
  for (const status of [500, 403]) {
    backend.misbehave({ kind: 'http_status', status, body: `refused: ${apiKey}` }, { ...POST, times: 1 })
    await answered(push('print(1)'))
  }
  backend.misbehave({ kind: 'http_reset' }, { ...POST, times: 1 })
  backend.misbehave({ kind: 'http_body', body: '<html>not JSON</html>' }, { ...POST, times: 1 })
  await answered(push('print(1)'))
  // Echoed by a server that shows the request in its refusal, which is final: the answer is lost, the key must not show.
  const refused = push('print(1)')
  const forget = backend.misbehave(
    { kind: 'graphql_error', message: `400: refused: {"fcall_untrusted_key":"${refused.fcall_untrusted_key}"}` },
    POST,
  )
  await backend.waitFor(() => backend.deltas(refused.fcall_id).length > 0, 10_000)
  await new Promise(resolve => setTimeout(resolve, 300))
  forget()
  backend.dropConnections(4403, `403: ${apiKey} is refused`)
  await answered(push('print(1)'))
  return calls
}

function leaks(log: string, secrets: Readonly<Record<string, string>>): string[] {
  return Object.entries(secrets)
    .filter(([, secret]) => log.includes(secret) || log.includes(encodeURIComponent(secret)))
    .map(([what]) => what)
}

describe('the log at level trace', () => {
  it('holds no API key, no untrusted key, no code and no output, whatever happens', { timeout: 90_000 }, async () => {
    const backend = await startBackend({ accepted: { apiKey: 'fx-secret+key/with=signs-8842' } })
    const worker = await startWorkerProcess(backend, { LOG_LEVEL: 'trace' })
    const calls = await live(backend)
    worker.child.kill('SIGTERM')
    await worker.exited
    const log = worker.stdout() + worker.stderr()
    expect(logLines(worker).length).toBeGreaterThan(30) // it was a log, and each line is JSON
    const keys = Object.fromEntries(calls.map((call, n) => [`key of call ${n}`, call.fcall_untrusted_key]))
    expect(leaks(log, { ...keys, apiKey: backend.apiKey, code: CODE_SECRET, output: OUTPUT_SECRET })).toEqual([])
  })

  it('holds no ticket, neither the configured one nor the one from the file', async () => {
    const ticket = 'ticket-of-the-environment-117'
    const fromFile = 'ticket-of-the-file-118'
    const service = `e2e_${process.pid}_${Date.now()}`
    const file = `/tmp/${service}_flexus_ticket`
    await writeFile(file, `${fromFile}\n`)
    onTestFinished(() => rm(file, { force: true }))
    const backend = await startBackend({ accepted: { ticket: fromFile } })
    const worker = await startProgram(['start'], {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_WS_TICKET: ticket,
      SERVICE_NAME: service,
      LOG_LEVEL: 'trace',
    })
    await backend.waitFor(() => backend.registrations.length > 0, 20_000)
    backend.accept({ ticket: 'another' })
    backend.dropConnections()
    const refused: string[] = []
    backend.onEvent(event => {
      if (event.type === 'request_refused') refused.push(event.reason)
    })
    await backend.waitFor(() => refused.length > 0, 15_000)
    worker.child.kill('SIGTERM')
    await worker.exited
    expect(leaks(worker.stdout() + worker.stderr(), { ticket, fromFile })).toEqual([])
  })

  it("holds no superuser token of a developer's box", async () => {
    const token = 'curr-secret-password-for-/v1/superuser'
    const backend = await startBackend({ accepted: { superuserToken: token }, endpoints: ['/v1/superuser'] })
    const worker = await startProgram(['start'], {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_ENDPOINT: '/v1/superuser',
      LOG_LEVEL: 'trace',
    })
    await backend.waitFor(() => backend.registrations.length > 0, 20_000)
    backend.misbehave(
      { kind: 'graphql_error', message: `403: ${token} does not work` },
      { operation: 'cloudtool_post_result', times: 1 },
    )
    const call = backend.pushCode('print(1)')
    await backend.waitForAnswer(call.fcall_id, 20_000)
    worker.child.kill('SIGTERM')
    await worker.exited
    expect(leaks(worker.stdout() + worker.stderr(), { token, key: call.fcall_untrusted_key })).toEqual([])
  })
})

describe('a secret that code prints', () => {
  it('is masked in live output, the answer and its provenance, also in pieces and where the output is cut', async () => {
    const apiKey = 'fx-secret+key/with=signs-8842'
    const backend = await startBackend({ accepted: { apiKey } })
    const worker = await startWorkerProcess(backend, { LOG_LEVEL: 'trace' })
    const half = JSON.stringify([apiKey.slice(0, 9), apiKey.slice(9)])
    const code = `import sys, time
a, b = ${half}
for piece in ("1 ", a, b, " 2 ", a, "\\n"):
    print(piece, end="", flush=True)
    time.sleep(0.15)
print("é" + a + b, file=sys.stderr)
open(a.replace("/", "") + "x", "w").close()
a + b`
    const call = backend.pushCode(code)
    const answer = await backend.waitForAnswer(call.fcall_id, 25_000)
    const flood = backend.pushCode(`a, b = ${half}\nfor n in range(9000):\n    print(a + b, n)`)
    const cut = await backend.waitForAnswer(flood.fcall_id, 25_000)
    worker.child.kill('SIGTERM')
    await worker.exited
    const live = backend
      .deltas(call.fcall_id)
      .map(delta => delta.text)
      .join('')
    expect(live).toBe('1 [redacted] 2 fx-secret\n')
    expect(answer.content).toContain(live)
    for (const text of [JSON.stringify(answer), JSON.stringify(cut), JSON.stringify(backend.deltas(flood.fcall_id))]) {
      expect(text).toContain('[redacted]')
      expect(text).not.toContain(apiKey)
      expect(text).not.toContain('signs-8842')
      expect(text).not.toContain(apiKey.slice(0, 15))
    }
    expect(leaks(worker.stdout() + worker.stderr(), { apiKey })).toEqual([])
  })
})
