import { expect, it, onTestFinished, vi } from 'vitest'
import { Recorder } from '../../../src/telemetry/recorder.js'
import { captureLog } from '../../backend/support/fixtures.js'

it('logs each minute which part of it no slot was in use, and which part all were', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { lines, log } = captureLog()
  let running = 0
  const recorder = new Recorder({
    log,
    status: () => ({
      state: 'serving',
      reasons: [],
      impairments: [],
      slots: 2,
      running,
      waiting: 0,
      outbox: { answers: 0, oldestMs: 0 },
      journal: { writable: true, unsaved: 0 },
    }),
  })
  const use = (slots: number) => {
    running = slots
    recorder.slotsChanged(running, 2)
  }
  vi.advanceTimersByTime(15_000)
  use(1)
  vi.advanceTimersByTime(15_000)
  use(2)
  vi.advanceTimersByTime(30_000)
  expect(lines.at(-1)).toMatchObject({
    msg: 'load of the last minute',
    slots: 2,
    running: 2,
    idle_percent: 25,
    full_percent: 50,
    calls: 0,
  })
  vi.advanceTimersByTime(60_000)
  expect(lines.at(-1)).toMatchObject({ idle_percent: 0, full_percent: 100 })
  recorder.close()
})
