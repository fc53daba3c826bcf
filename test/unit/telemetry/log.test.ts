import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Logger } from 'pino'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createLog, type LogOptions } from '../../../src/telemetry/log.js'
import { Redactor } from '../../../src/telemetry/redactor.js'

function capture(options: Partial<LogOptions>, write: (log: Logger) => void): string {
  let text = ''
  const destination = {
    write(line: string) {
      text += line
    },
  }
  write(createLog({ level: 'trace', pretty: false, destination, ...options }))
  return text
}

function captureJson(write: (log: Logger) => void, options: Partial<LogOptions> = {}): Record<string, unknown> {
  return JSON.parse(capture(options, write)) as Record<string, unknown>
}

const KEY = 'untrusted-4fz1'

describe('a log line', () => {
  test('is one JSON object with level, ISO time, message and fields, and nothing else', () => {
    const line = captureJson(log => log.info({ calls: 3 }, 'call ended'))
    expect(line).toEqual({
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      calls: 3,
      msg: 'call ended',
    })
  })

  test('below the level is not written', () => {
    expect(capture({ level: 'warn' }, log => log.info('call ended'))).toBe('')
  })

  test('is for a person when pretty, without colours unless asked', () => {
    const text = capture({ pretty: true }, log => log.warn({ calls: 3 }, 'queue is full'))
    expect(text).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] WARN: queue is full\n {4}calls: 3\n$/)
  })

  test('has colours when pretty and asked', () => {
    expect(capture({ pretty: true, colour: true }, log => log.warn('queue is full'))).toContain('\u001b[')
  })
})

describe('a secret is masked', () => {
  test.each([
    ['as a field', { fcall_untrusted_key: KEY }],
    ['in a call', { call: { fcall_untrusted_key: KEY } }],
    ['in a list of calls', { calls: [{ fcall_untrusted_key: KEY }] }],
    ['far down', { a: { b: { c: { d: { e: { fcall_untrusted_key: KEY } } } } } }],
    ['in headers', { request: { headers: { authorization: `Bearer ${KEY}`, 'x-flexus-superuser': KEY } } }],
    ['in credentials', { config: { backend: { credentials: { mode: 'key', apiKey: KEY, ticket: KEY } } } }],
    ['in JSON within text', { text: JSON.stringify({ variables: { fcall_untrusted_key: KEY } }) }],
    ['in JSON within JSON within text', { text: JSON.stringify({ body: JSON.stringify({ apikey: KEY }) }) }],
    ['in text', { text: `x-flexus-call-untrusted-key: ${KEY}, Authorization: Bearer ${KEY}` }],
  ])('%s', (_, fields) => {
    const text = capture({}, log => log.info(fields, 'call taken'))
    expect(text).not.toContain(KEY)
    expect(JSON.parse(text)).toMatchObject({ msg: 'call taken' })
  })

  test.each(['fx-8qT4canary9', 'Bearer abc.def', 'curr-secret-password-for-/v1/superuser'])(
    'by its shape: %s',
    secret => {
      const line = captureJson(log => log.info({ text: `got ${secret} here` }, 'note'))
      expect(line['text']).toMatch(/^got (Bearer )?\[redacted\] here$/)
    },
  )

  test('by its value, wherever it stands', () => {
    const redactor = new Redactor(['t"icket-of-ours', 'long-t"icket-of-ours'])
    const line = captureJson(log => log.info({ a: { b: 'x long-t"icket-of-ours y' } }, 'said t"icket-of-ours'), {
      redactor,
    })
    expect(line).toMatchObject({ a: { b: 'x [redacted] y' }, msg: 'said [redacted]' })
  })

  test('in bindings of a child logger', () => {
    expect(capture({}, log => log.child({ call: { fcall_untrusted_key: KEY } }).info('call taken'))).not.toContain(KEY)
  })

  test('in pretty lines', () => {
    expect(
      capture({ pretty: true }, log => log.info({ call: { fcall_untrusted_key: KEY } }, 'call taken')),
    ).not.toContain(KEY)
  })

  test('and a null under the same name far down leaves the line valid JSON', () => {
    const fields = { a: { b: { c: { d: { e: { fcall_untrusted_key: null, ticket: 7 } } } } } }
    expect(captureJson(log => log.info(fields, 'call taken'))).toMatchObject(fields)
  })
})

describe('an error in a log line', () => {
  test('keeps type, message and stack, and nothing that was hung on it', () => {
    const error = Object.assign(new RangeError('too far'), {
      request: { variables: { x: 1 } },
      response: {},
      code: 'E1',
    })
    const { err } = captureJson(log => log.error({ err: error }, 'post failed'))
    expect(err).toEqual({ type: 'RangeError', message: 'too far', stack: expect.stringContaining('log.test.ts') })
  })

  test('loses the request that graphql-request puts into its message', () => {
    const request = JSON.stringify({
      response: { status: 200 },
      request: { query: 'mutation', variables: { input: KEY } },
    })
    const { err } = captureJson(log => log.error({ err: new Error(`403: no: ${request}`) }, 'post failed'))
    expect(err).toMatchObject({ message: '403: no' })
    expect(JSON.stringify(err)).not.toContain(KEY)
  })

  test('names its causes', () => {
    const cause = new AggregateError([
      new Error('connect ECONNREFUSED ::1:1'),
      new Error('connect ECONNREFUSED 127.0.0.1:1'),
    ])
    const { err } = captureJson(log => log.error({ err: new TypeError('fetch failed', { cause }) }, 'post failed'))
    expect(err).toMatchObject({ message: 'fetch failed: connect ECONNREFUSED ::1:1; connect ECONNREFUSED 127.0.0.1:1' })
  })

  test('is bounded', () => {
    const text = capture({}, log => log.error({ err: new Error('x'.repeat(1_000_000)) }, 'post failed'))
    expect(text.length).toBeLessThan(20_000)
  })

  test('that is its own cause ends', () => {
    const error = new Error('loop')
    error.cause = error
    expect(captureJson(log => log.error({ err: error }, 'post failed'))['err']).toMatchObject({
      message: 'loop: loop: loop: loop',
    })
  })

  test('may be no Error at all', () => {
    expect(captureJson(log => log.error({ err: 'gone' }, 'post failed'))['err']).toEqual({
      type: 'string',
      message: 'gone',
    })
  })
})

describe('the destination', () => {
  // The logger writes to the descriptors of its process, so each of these runs a process of its own.
  let folder = ''

  beforeAll(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'log-test-'))
    const { resolve } = createRequire(import.meta.url)
    const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }
    writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }')
    for (const name of ['log', 'log-sink', 'redactor']) {
      const source = readFileSync(new URL(`../../../src/telemetry/${name}.ts`, import.meta.url), 'utf8')
      const compiled = ts.transpileModule(source, { compilerOptions: options }).outputText
      const linked = compiled.replace(
        /from '(pino|pino-pretty)'/g,
        (_, name: string) => `from ${JSON.stringify(pathToFileURL(resolve(name)))}`,
      )
      writeFileSync(path.join(folder, `${name}.js`), linked)
    }
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Runs `body` with `log` in a new process and waits for its end. */
  async function run(
    options: string,
    body: string,
    stdout: 'pipe' | number = 'pipe',
    onStart = (_: ChildProcess) => {},
  ) {
    const script = `import { createLog } from './log.js'; const log = createLog({ level: 'info', ${options} }); ${body}`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      cwd: folder,
      stdio: ['ignore', stdout, 'pipe'],
    })
    const texts = { stdout: '', stderr: '' }
    child.stdout?.on('data', data => {
      texts.stdout += data
    })
    child.stderr?.on('data', data => {
      texts.stderr += data
    })
    onStart(child)
    const [code] = await once(child, 'close')
    return { code, ...texts }
  }

  const threeLines = "for (const n of [1, 2, 3]) log.info({ n }, 'note'); process.exit(7)"

  test.each([false, true])(
    'is stdout, and has the last line although the process exits at once (pretty: %s)',
    async pretty => {
      const { code, stdout, stderr } = await run(`pretty: ${pretty}`, threeLines)
      expect({ code, stderr, notes: stdout.match(/note/g)?.length }).toEqual({ code: 7, stderr: '', notes: 3 })
    },
  )

  test('is stderr when asked, and stdout stays empty', async () => {
    const { stdout, stderr } = await run("pretty: false, destination: 'stderr'", threeLines)
    expect({ stdout, notes: stderr.match(/note/g)?.length }).toEqual({ stdout: '', notes: 3 })
  })

  test('that is closed does not end the process', async () => {
    const body = "setInterval(() => log.info('note'), 5); setTimeout(() => process.exit(7), 300)"
    const { code } = await run('pretty: false', body, 'pipe', child => child.stdout?.destroy())
    expect(code).toBe(7)
  })

  test.skipIf(!existsSync('/dev/full'))('that is full does not end the process', async () => {
    const full = openSync('/dev/full', 'w')
    const body = "setInterval(() => log.info('note'), 5); setTimeout(() => process.exit(7), 300)"
    const { code } = await run('pretty: false', body, full).finally(() => closeSync(full))
    expect(code).toBe(7)
  })

  /** 8 MB of lines; says on stderr when they are written, as far as the worker is concerned. */
  const flood = `
    for (let n = 0; n < 8_000; n++) log.info({ n }, 'x'.repeat(1_000))
    process.stderr.write('written')
  `

  test('that nobody reads holds nothing up; the last 4 MiB are there when it is read, and how much is missing', async () => {
    const body = `${flood}; setTimeout(() => { log.info('last words'); process.exit(7) }, 2_000)`
    const { code, stdout } = await run('pretty: false', body, 'pipe', child => {
      child.stdout?.pause()
      child.stderr?.once('data', () => child.stdout?.resume())
    })
    expect(code).toBe(7)
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as Record<string, unknown>)
    const numbers = lines.flatMap(({ n }) => (typeof n === 'number' ? [n] : []))
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
    expect(numbers.at(-1)).toBe(7_999)
    expect(numbers.length).toBeGreaterThan(3_000)
    expect(numbers.length).toBeLessThan(6_000)
    const lost = lines.flatMap(line => (typeof line['lines'] === 'number' ? [line['lines']] : []))
    expect(lost).toEqual([8_000 - numbers.length])
    expect(lines.some(({ msg }) => msg === 'last words')).toBe(true)
  })

  test('that nobody reads holds up an exit for a second at most', async () => {
    let endedMs = Number.POSITIVE_INFINITY
    const { code } = await run('pretty: false', `${flood}; process.exit(7)`, 'pipe', child => {
      child.stdout?.pause()
      child.stderr?.once('data', () => {
        const saidMs = performance.now()
        child.once('exit', () => {
          endedMs = performance.now() - saidMs
          child.stdout?.resume()
        })
      })
    })
    expect(code).toBe(7)
    expect(endedMs).toBeLessThan(4_000)
  })
})
