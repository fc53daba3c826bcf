import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { runBackend } from '../../src/dev/backend-server.js'
import { isLoopbackAddress } from '../../src/dev/local-access.js'
import type { Sample } from '../../src/dev/samples.js'
import { startScriptedWorker } from './embedded-worker.js'

const LIMIT_MS = 10_000
const KEY = 'fx-of-this-test'

const sample = (code: string): Sample => ({
  title: 'Sample',
  code,
  expectedStatus: 'completed',
  expectedTexts: ['yes'],
  expectedStream: null,
})

describe('the embedded backend alone', () => {
  let text: string
  let stop: AbortController
  const out = {
    write(piece: string) {
      text += piece
    },
  }

  beforeEach(() => {
    text = ''
    stop = new AbortController()
  })

  afterEach(() => stop.abort())

  const shows = (words: string | RegExp) => vi.waitFor(() => expect(text).toMatch(words), LIMIT_MS)
  const addressShown = async (): Promise<string> => {
    await shows(/FLEXUS_API_KEY=/)
    return /port (\d+)/.exec(text)?.[1] ?? ''
  }

  test('sends the worker that comes the samples, one after the other, shows them, and stays up', async () => {
    const ended = runBackend({ out, signal: stop.signal, apiKey: KEY, samples: [sample('say yes'), sample('say yes')] })
    const url = `http://127.0.0.1:${await addressShown()}/`
    const worker = await startScriptedWorker(url, KEY)
    await shows('All 2 sample calls came back as they should.')
    expect(text.match(/│ yes\n.*✔ completed/g)).toHaveLength(2)
    const response = await fetch(`${url}dev/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code: 'say more' }),
    })
    expect(await response.text()).toMatch(/^more\n--- completed/)
    await worker.stop()
    stop.abort()
    expect(await ended).toBe(0)
  })

  test('a sample that does not come back as it should is named, and the exit code is 1', async () => {
    const ended = runBackend({ out, signal: stop.signal, apiKey: KEY, samples: [sample('say no')] })
    const worker = await startScriptedWorker(`http://127.0.0.1:${await addressShown()}/`, KEY)
    await shows('Sample: the result lacks "yes"')
    await worker.stop()
    stop.abort()
    expect(await ended).toBe(1)
  })

  test('shows no key that it was given, and the one that it made', async () => {
    const ended = runBackend({ out, signal: stop.signal, apiKey: KEY })
    await addressShown()
    expect(text).not.toContain(KEY)
    stop.abort()
    expect(await ended).toBe(0)
    text = ''
    stop = new AbortController()
    const again = runBackend({ out, signal: stop.signal })
    await shows(/FLEXUS_API_KEY=fx-embedded-[0-9a-f]{24}\n/)
    stop.abort()
    expect(await again).toBe(0)
  })

  test('says when no worker comes, and what may be wrong', async () => {
    const ended = runBackend({ out, signal: stop.signal, hintAfterMs: 20 })
    await shows('No worker has come so far')
    stop.abort()
    expect(await ended).toBe(0)
  })

  test('a stop while a sample runs is no fault of the sample', async () => {
    const ended = runBackend({ out, signal: stop.signal, apiKey: KEY, samples: [sample('say yes\nsleep 20000')] })
    const worker = await startScriptedWorker(`http://127.0.0.1:${await addressShown()}/`, KEY)
    await shows('│ yes')
    stop.abort()
    expect(await ended).toBe(0)
    worker.interrupt()
    await worker.stop().catch(() => {}) // its answer has nobody to take it
  })

  test('listens where it is told to', async () => {
    const ended = runBackend({ out, signal: stop.signal, host: '0.0.0.0' })
    const port = await addressShown()
    expect(text).toContain(`FLEXUS_API_BASEURL=http://ADDRESS:${port}/`)
    expect((await fetch(`http://127.0.0.2:${port}/v1/graphql`)).status).toBe(405)
    stop.abort()
    expect(await ended).toBe(0)
  })
})

test.each([
  ['127.0.0.1', true],
  ['127.8.9.1', true],
  ['::1', true],
  ['::ffff:127.0.0.1', true],
  ['172.18.0.3', false],
  ['::ffff:172.18.0.3', false],
  ['fe80::1', false],
  ['12.7.0.1', false],
  ['', false],
])('a program at %s is on this machine: %s', (address, expected) => {
  expect(isLoopbackAddress(address)).toBe(expected)
})
