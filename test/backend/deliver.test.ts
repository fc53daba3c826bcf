import { describe, expect, it } from 'vitest'
import { type Delivery, deliverWithRetry } from '../../src/backend/deliver.js'
import { BackendError, classifyBackendText } from '../../src/backend/errors.js'
import { captureLog, fakeTime } from './support/fixtures.js'

/** Delivers through attempts that fail with each of `failures` in turn, then succeed. */
async function deliver(failures: unknown[], { giveUpAfterMs = 1e9, random = (): number => 1, abortAt = -1 } = {}) {
  const time = fakeTime()
  const captured = captureLog()
  const controller = new AbortController()
  let attempts = 0
  const delivery: Delivery = await deliverWithRetry(
    async () => {
      attempts += 1
      if (attempts === abortAt) controller.abort()
      if (attempts <= failures.length) throw failures[attempts - 1]
    },
    { log: captured.log, signal: controller.signal, giveUpAfterMs, random, sleep: time.sleep, now: time.now },
  )
  return { delivery, time, messages: captured.messages() }
}

const busy = new BackendError('retry', '503: busy')

describe('delivery', () => {
  it('takes one attempt when that works', async () => {
    expect((await deliver([])).delivery).toEqual({ delivered: true, alreadyAnswered: false, attempts: 1 })
  })

  it('waits 1 s doubling to 30 s between attempts', async () => {
    const { time } = await deliver(Array(8).fill(busy))
    expect(time.slept).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  })

  it('waits anything down to nothing, by the dice', async () => {
    const { time } = await deliver([busy, busy], { random: () => 0.25 })
    expect(time.slept).toEqual([250, 500])
  })

  it('waits at least as long as Retry-After says', async () => {
    const { time } = await deliver([new BackendError('retry', '429: slow', { retryAfterMs: 12_000 })])
    expect(time.slept).toEqual([12_000])
  })

  it('goes on when the key is refused', async () => {
    expect((await deliver([classifyBackendText('403: no')])).delivery).toMatchObject({ delivered: true, attempts: 2 })
  })

  it('goes on after an error that nobody classified', async () => {
    expect((await deliver([new Error('x')])).delivery).toMatchObject({ delivered: true, attempts: 2 })
  })

  it('is done when the call has its answer already', async () => {
    const { delivery } = await deliver([busy, classifyBackendText('409: this call already has its result')])
    expect(delivery).toEqual({ delivered: true, alreadyAnswered: true, attempts: 2 })
  })

  it.each(['400: bad content', '404: no such call', '460: never'])('ends at %j', async text => {
    const error = classifyBackendText(text)
    const { delivery } = await deliver([busy, error])
    expect(delivery).toEqual({ delivered: false, why: 'refused', error, attempts: 2 })
  })

  it('waits at most 60 s, whatever Retry-After says', async () => {
    const closed = new BackendError('retry', 'HTTP 503', { retryAfterMs: 900_000 })
    const { delivery, time } = await deliver([closed, closed], { giveUpAfterMs: 600_000 })
    expect(delivery).toMatchObject({ delivered: true, attempts: 3 })
    expect(time.slept).toEqual([60_000, 60_000])
  })

  it('gives up when its time is over, after a last attempt at its end', async () => {
    const { delivery, time } = await deliver(Array(9).fill(busy), { giveUpAfterMs: 10_000 })
    expect(delivery).toEqual({ delivered: false, why: 'gave_up', error: busy, attempts: 5 })
    expect(time.slept).toEqual([1_000, 2_000, 4_000, 3_000])
  })

  it('is tried once where no time is left at all', async () => {
    const { delivery, time } = await deliver([busy, busy], { giveUpAfterMs: 0 })
    expect(delivery).toMatchObject({ why: 'gave_up', attempts: 1 })
    expect(time.slept).toEqual([])
  })

  it('ends when aborted', async () => {
    const { delivery } = await deliver(Array(9).fill(busy), { abortAt: 3 })
    expect(delivery).toEqual({ delivered: false, why: 'aborted', attempts: 3 })
  })

  it('tells of trouble once and of its end once', async () => {
    const { messages } = await deliver(Array(5).fill(busy))
    expect(messages).toEqual(['delivery failed, will be retried', 'delivered after retries'])
  })
})
