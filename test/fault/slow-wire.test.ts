import { pino } from 'pino'
import { describe, expect, it, type TestContext } from 'vitest'
import { postAnswer } from '../../src/answering.js'
import { createCredentials } from '../../src/backend/credentials.js'
import { type BackendApiOptions, createBackendApi } from '../../src/backend/http.js'
import type { ToolCall } from '../../src/backend/protocol.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import type { StoredAnswer } from '../../src/journal/journal.js'
import { MemoryJournal } from '../../src/journal/memory-journal.js'
import { PostingPace } from '../../src/posting-pace.js'
import { PostingRoom } from '../../src/posting-room.js'
import { captureLog } from '../backend/support/fixtures.js'
import { startProxy, type WireProxy } from './support/proxy.js'

const KIB = 1024
const MIB = 1024 * KIB

interface Wire {
  readonly backend: EmbeddedBackend
  readonly proxy: WireProxy
  readonly call: ToolCall
  readonly lines: readonly Record<string, unknown>[]
  /** Posts an answer, for at most so long after its first attempt. */
  post(answer: StoredAnswer, giveUpAfterMs?: number): ReturnType<typeof postAnswer>
}

async function startWire(
  { onTestFinished }: TestContext,
  limits: Pick<BackendApiOptions, 'timeoutMs' | 'slowestBytesPerSecond'> = {},
): Promise<Wire> {
  const backend = await startEmbeddedBackend()
  const proxy = await startProxy(backend.port)
  const { log, lines } = captureLog()
  const config = {
    baseUrl: proxy.url,
    endpoint: '/v1/graphql',
    credentials: { mode: 'key', apiKey: backend.apiKey },
  } as const
  const credentials = createCredentials({ config, serviceName: 'python_execute' })
  const api = createBackendApi({ config, credentials, log: pino({ level: 'silent' }), ...limits })
  onTestFinished(async () => {
    await api.close()
    await proxy.close()
    await backend.close()
  })
  const context = {
    config: { serviceName: 'python_execute', resultMaxBytes: 8 * MIB },
    journal: new MemoryJournal(),
    api,
    stopPosting: new AbortController().signal,
    onForbidden: () => {},
    room: new PostingRoom({ onRoom: () => {}, onFull: () => {} }),
    pace: new PostingPace({ log: log, onOpen: () => {}, random: () => 0 }),
  }
  const call = backend.pushCode('print(1)')
  const post = (answer: StoredAnswer, giveUpAfterMs = 60_000) =>
    postAnswer({ call, key: call.fcall_id, giveUpAtMs: performance.now() + giveUpAfterMs }, answer, context, log)
  return { backend, proxy, call, lines, post }
}

const answerOf = (content: unknown): StoredAnswer => ({
  content: JSON.stringify(content),
  provenance: JSON.stringify({ system: 'python_execute' }),
  dollars: 0,
  asPlaceholder: false,
})

describe.concurrent('an answer on a slow wire', () => {
  it('of 8 MiB at 600 kB a second is delivered whole, with the first attempt', { timeout: 60_000 }, async context => {
    const { backend, proxy, call, post } = await startWire(context)
    proxy.throttle(600_000, 'up')
    const from = performance.now()
    const { delivery } = await post(answerOf('x'.repeat(8 * MIB - 100)))
    expect(delivery).toEqual({ delivered: true, alreadyAnswered: false, attempts: 1 })
    expect(performance.now() - from).toBeGreaterThan(11_000)
    expect(backend.answers.get(call.fcall_id)?.[0]?.content).toHaveLength(8 * MIB - 100)
  })

  it('that is too slow even for that loses its images, says so, and is delivered', {
    timeout: 60_000,
  }, async context => {
    const { backend, proxy, call, lines, post } = await startWire(context, {
      timeoutMs: 500,
      slowestBytesPerSecond: MIB,
    })
    proxy.throttle(200 * KIB, 'up')
    const image = { m_type: 'image/png', m_content: 'x'.repeat(MIB) }
    const { delivery } = await post(answerOf([{ m_type: 'text', m_content: 'what was printed' }, image]))
    expect(delivery.delivered).toBe(true)
    // What a buffer on the way still held of the long one may arrive too.
    expect(backend.answers.get(call.fcall_id)?.map(({ content }) => content)).toContain(
      'what was printed\n[left out, as the answer would be too large: image/png (1 MB)]',
    )
    expect(lines.filter(({ msg }) => msg === 'answer is too large, shortening it')).toEqual([
      expect.objectContaining({ reason: 'did not get through in time 3 times, and is large' }),
    ])
  })

  it('that is small is never shortened, however often it finds no end in time', async context => {
    const { proxy, lines, post } = await startWire(context, { timeoutMs: 100 })
    proxy.freeze()
    const { delivery } = await post(answerOf('x'.repeat(10_000)), 9_000)
    expect(delivery).toMatchObject({ delivered: false, why: 'gave_up' })
    expect(delivery.attempts).toBeGreaterThan(3)
    expect(lines.filter(({ msg }) => msg === 'answer is too large, shortening it')).toEqual([])
  })
})
