import { describe, expect, it } from 'vitest'
import { fullJitterMs, sleep } from '../../src/backend/waiting.js'
import { TimeLimitError, withStepLimit, withTimeLimit } from '../../src/time-limit.js'

const forever = () => new Promise<never>(() => {})

describe('a time limit', () => {
  it('passes on what the work returns or throws', async () => {
    const { signal } = new AbortController()
    expect(await withTimeLimit(1_000, signal, async () => 5)).toBe(5)
    await expect(withTimeLimit(1_000, signal, () => Promise.reject(new Error('x')))).rejects.toThrow('x')
  })

  it('ends work that does not listen, and aborts its signal', async () => {
    let seen: AbortSignal | null = null
    const limited = withTimeLimit(10, new AbortController().signal, signal => {
      seen = signal
      return forever()
    })
    await expect(limited).rejects.toBeInstanceOf(TimeLimitError)
    expect(seen).toMatchObject({ aborted: true })
  })

  it("ends with the caller's reason", async () => {
    const controller = new AbortController()
    const limited = withTimeLimit(10_000, controller.signal, forever)
    controller.abort(new Error('stop'))
    await expect(limited).rejects.toThrow('stop')
    await expect(withTimeLimit(10_000, controller.signal, forever)).rejects.toThrow('stop')
  })
})

it('a limit of each step lets a long row of steps pass, and no long step', async () => {
  const steps = (ms: number) => async (onStep: () => void) => {
    for (let n = 0; n < 5; n++) {
      await new Promise(resolve => setTimeout(resolve, ms))
      onStep()
    }
    return 'done'
  }
  expect(await withStepLimit(400, steps(100))).toBe('done')
  await expect(withStepLimit(100, steps(400))).rejects.toBeInstanceOf(TimeLimitError)
})

it('a sleep ends at once when aborted, before or during it', async () => {
  const controller = new AbortController()
  const sleeping = sleep(1e12, controller.signal)
  controller.abort()
  await sleeping
  await sleep(1e12, controller.signal)
})

it('full jitter doubles with each failure up to its cap, however many there were', () => {
  const spans = [1, 2, 3, 4, 5_000].map(failures => fullJitterMs(failures, 1_000, 5_000, () => 1))
  expect(spans).toEqual([1_000, 2_000, 4_000, 5_000, 5_000])
  expect(fullJitterMs(3, 1_000, 5_000, () => 0)).toBe(0)
})
