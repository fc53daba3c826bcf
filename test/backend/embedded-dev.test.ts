import { request } from 'node:http'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createCallView } from '../../src/dev/call-view.js'
import { type RunningWorker, runDemo } from '../../src/dev/demo.js'
import { runDev } from '../../src/dev/dev-server.js'
import { SAMPLES, type Sample } from '../../src/dev/samples.js'
import { createPaint } from '../../src/dev/terminal.js'
import { startScriptedWorker } from './embedded-worker.js'

const LIMIT_MS = 10_000

/** A stream that keeps what is written. */
function screen(isTTY = false): { text: string; isTTY: boolean; write(text: string): void } {
  return {
    text: '',
    isTTY,
    write(text) {
      this.text += text
    },
  }
}

describe('dev', () => {
  let url: string
  let out: ReturnType<typeof screen>
  let ctrlC: AbortController
  let again: AbortController
  let ended: Promise<number>

  beforeEach(async () => {
    out = screen()
    ctrlC = new AbortController()
    again = new AbortController()
    url = await new Promise<string>((resolve, reject) => {
      const startWorker = async (backendUrl: string, apiKey: string): Promise<RunningWorker> => {
        const worker = await startScriptedWorker(backendUrl, apiKey)
        resolve(backendUrl)
        return worker
      }
      ended = runDev({ startWorker, out, signal: ctrlC.signal, hurry: again.signal })
      ended.catch(reject)
    })
  })

  afterEach(async () => {
    ctrlC.abort()
    await ended
  })

  async function call(body: string, headers: Record<string, string> = {}): Promise<Response> {
    const signal = AbortSignal.timeout(LIMIT_MS)
    return await fetch(`${url}dev/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      signal,
    })
  }

  test('a call streams its output and then the rest of the result and how it ended', async () => {
    const text = await (await call(JSON.stringify({ code: 'say a\nsay b\nvalue 42' }))).text()
    expect(text).toMatch(/^a\nb\n42\n--- completed in .* · namespaces tier · \$0\.25\n$/)
  })

  test('output arrives while the code still runs', async () => {
    const reader = (await call(JSON.stringify({ code: 'say early\nsleep 400\nsay late' }))).body?.getReader()
    const decoder = new TextDecoder()
    const first = decoder.decode((await reader?.read())?.value)
    expect(first).toBe('early\n')
    await reader?.cancel()
  })

  test('a call that fails says so', async () => {
    const text = await (await call(JSON.stringify({ code: 'fail ZeroDivisionError' }))).text()
    expect(text).toMatch(/ZeroDivisionError\n--- failed in /)
  })

  test('a call that waits for a person goes on after /dev/confirm', async () => {
    const response = await call(JSON.stringify({ code: 'ask\nsay yes' }))
    const id = response.headers.get('x-fcall-id')
    const confirm = await fetch(`${url}dev/confirm`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ fcall_id: id, approve: true }),
    })
    expect(await confirm.text()).toBe('approved\n')
    expect(await response.text()).toMatch(/yes\n--- completed/)
  })

  test.each([
    ['not JSON', 'code', {}, 400, 'not JSON'],
    ['no code', '{}', {}, 400, 'code'],
    ['a field of no meaning', '{"code": "", "timeout": 3}', {}, 400, 'timeout'],
    ['a form of a web page', '{"code": ""}', { 'content-type': 'text/plain' }, 415, 'content-type'],
    ['another origin', '{"code": ""}', { origin: 'https://example.com' }, 403, 'origin'],
    ['a sandboxed page', '{"code": ""}', { origin: 'null' }, 403, 'origin'],
    ['a page on another port of this machine', '{"code": ""}', { origin: 'http://localhost:3000' }, 403, 'origin'],
    ['what the browser says comes from another site', '{"code": ""}', { 'sec-fetch-site': 'cross-site' }, 403, 'site'],
    ['what comes from another port', '{"code": ""}', { 'sec-fetch-site': 'same-site' }, 403, 'site'],
  ])('%s is refused', async (_what, body, headers, status, word) => {
    const response = await call(body, headers as Record<string, string>)
    expect(response.status).toBe(status)
    expect(await response.text()).toContain(word)
  })

  test('its own page is let in', async () => {
    const headers = { origin: new URL(url).origin, 'sec-fetch-site': 'same-origin' }
    expect((await call('{"code": "say x"}', headers)).status).toBe(200)
  })

  test('a name that only resolves to this machine is refused', async () => {
    // fetch does not let the Host header be set.
    const status = await new Promise(resolve => {
      const sent = request(`${url}dev/call`, { method: 'POST', headers: { host: 'evil.example' } }, answer => {
        answer.resume()
        resolve(answer.statusCode)
      })
      sent.end('{}')
    })
    expect(status).toBe(403)
  })

  test('calls side by side are shown in whole lines with their own labels', async () => {
    await Promise.all(
      ['one', 'two'].map(async word => await (await call(JSON.stringify({ code: `say ${word}` }))).text()),
    )
    expect(out.text).toMatch(/^ {2}[0-9a-f]{4} .*│ one$/m)
    expect(out.text).toMatch(/^ {2}[0-9a-f]{4} .*│ two$/m)
    expect(out.text).toContain('/dev/call')
  })

  test('what a script prints can not steer the terminal', async () => {
    await (await call(JSON.stringify({ code: 'say \u001b[2J' }))).text()
    expect(out.text).toContain('\u241b[2J')
    expect(out.text).not.toContain('\u001b')
  })

  test('Ctrl-C ends both and the exit code is 0', async () => {
    ctrlC.abort()
    expect(await ended).toBe(0)
    await expect(fetch(url)).rejects.toThrow()
  })

  test('Ctrl-C does not wait for a call that waits for a person, and its client is told', async () => {
    const response = await call(JSON.stringify({ code: 'ask\nsay yes' }))
    await vi.waitFor(() => expect(out.text).toContain('waits for a person'), LIMIT_MS)
    const pressedAt = performance.now()
    ctrlC.abort()
    expect(await response.text()).toMatch(/^\[waiting for a person: .*\n--- the backend is closing\n$/)
    expect(await ended).toBe(0)
    expect(performance.now() - pressedAt).toBeLessThan(2_000)
    expect(out.text).not.toContain('waiting up to')
  })

  test('a call that runs is waited for, which is said, until Ctrl-C comes again', async () => {
    const response = await call(JSON.stringify({ code: 'say a\nsleep 20000\nsay b' }))
    await vi.waitFor(() => expect(out.text).toContain('│ a'), LIMIT_MS)
    ctrlC.abort()
    const words = 'waiting up to 25 s for 1 running call; Ctrl-C again ends it now'
    await vi.waitFor(() => expect(out.text).toContain(words), LIMIT_MS)
    again.abort()
    expect(await response.text()).toMatch(/^a\nb\n--- completed/)
    expect(await ended).toBe(0)
  })

  test('nothing is left behind that would keep the process', async () => {
    const before = process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
    const waiting = await Promise.all(Array.from({ length: 5 }, () => call(JSON.stringify({ code: 'ask' }))))
    ctrlC.abort()
    await Promise.all(waiting.map(response => response.text()))
    await ended
    expect(process.getActiveResourcesInfo().filter(name => name === 'Timeout').length).toBeLessThan(before + 5)
  })
})

describe('demo', () => {
  const samples: Sample[] = [
    {
      title: 'Progress',
      code: 'say one\nsleep 60\nsay two\nsleep 60\nsay three',
      expectedStatus: 'completed',
      expectedTexts: ['one', 'three'],
      expectedStream: { deltas: 3, overMs: 100 },
    },
    {
      title: 'Value',
      code: 'say a\nvalue 42',
      expectedStatus: 'completed',
      expectedTexts: ['42'],
      expectedStream: null,
    },
    { title: 'Bad', code: 'say a\nfail Boom', expectedStatus: 'failed', expectedTexts: ['Boom'], expectedStream: null },
  ]

  test('all as expected ends with 0 and with what to try next', async () => {
    const out = screen()
    expect(await runDemo({ startWorker: startScriptedWorker, out, samples })).toBe(0)
    expect(out.text).toMatch(/│ one\n.*│ two\n.*│ three\n.*✔ completed in .* · namespaces tier · \$0\.25\n/)
    expect(out.text).toMatch(/✘ failed in /)
    expect(out.text).toMatch(/node dist\/main.js exec script.py.*\n.*node dist\/main.js dev.*\n$/)
    expect(out.text).not.toContain('\u001b')
  })

  test('colours are for terminals without NO_COLOR', async () => {
    const coloured = screen(true)
    const plain = screen(true)
    const one = samples.slice(1, 2)
    await runDemo({ startWorker: startScriptedWorker, out: coloured, env: {}, samples: one })
    await runDemo({ startWorker: startScriptedWorker, out: plain, env: { NO_COLOR: '1' }, samples: one })
    expect(coloured.text).toContain('\u001b[32m')
    expect(plain.text).not.toContain('\u001b')
  })

  test.each<[string, string, Partial<Sample>, string]>([
    ['another status', 'say a\nfail Boom', {}, 'ended as failed, expected completed'],
    ['a text that is not there', 'say a', { expectedTexts: ['b'] }, 'the result lacks "b"'],
    ['output all at once', 'say a\nsay b\nsay c', { expectedStream: { deltas: 3, overMs: 1000 } }, 'were streamed'],
    [
      'a result without its stream',
      'mute a',
      { expectedStream: { deltas: 0, overMs: 0 } },
      'does not say what was streamed',
    ],
    ['a second answer', 'say a\ntwice', {}, '1 of the answers came twice'],
  ])('%s ends with 1 and says so', async (_what, code, more, message) => {
    const out = screen()
    const sample: Sample = {
      title: 'Sample',
      code,
      expectedStatus: 'completed',
      expectedTexts: [],
      expectedStream: null,
      ...more,
    }
    expect(await runDemo({ startWorker: startScriptedWorker, out, samples: [sample] })).toBe(1)
    expect(out.text).toContain(message)
  })

  test('a worker that does not start is no fault of the samples: its own error comes out', async () => {
    const startWorker = (): Promise<RunningWorker> => Promise.reject(new Error('python3 was not found'))
    await expect(runDemo({ startWorker, out: screen(), samples })).rejects.toThrow('python3 was not found')
  })

  test.each(SAMPLES)('all of the code of "$title" is shown', ({ title, code }) => {
    const out = screen()
    createCallView({ out, paint: createPaint(out, {}), label: '', live: true, now: () => 0 }).begin(title, code)
    expect(out.text).toBe(`\n${title}\n${code.trimEnd().replace(/^/gm, '    ')}\n`)
  })

  test('code too long to be shown ends with its last line', () => {
    const out = screen()
    const view = createCallView({ out, paint: createPaint(out, {}), label: '', live: true, now: () => 0 })
    view.begin('Title', 'a\nb\nc\nd\ne\nf', 4)
    expect(out.text).toBe('\nTitle\n    a\n    b\n    … 3 more lines\n    f\n')
  })
})
