import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { BackendError } from '../../src/backend/errors.js'
import { PostingPace } from '../../src/posting-pace.js'
import { captureLog } from '../backend/support/fixtures.js'

const NEVER = new AbortController().signal
setMaxListeners(0, NEVER)
const busy = new BackendError('retry', 'HTTP 503', { status: 503 })

/** A backend behind a pace, whose dice always give the longest pause. */
function start() {
  const { log, messages } = captureLog()
  const backend = { error: null as BackendError | null, began: [] as number[], underWay: 0, most: 0, opened: 0 }
  const pace = new PostingPace({ log, onOpen: () => backend.opened++, random: () => 1 })
  const post = (leave = NEVER) =>
    pace
      .go(async () => {
        backend.began.push(performance.now())
        backend.underWay++
        backend.most = Math.max(backend.most, backend.underWay)
        await sleep(5)
        backend.underWay--
        if (backend.error !== null) throw backend.error
      }, leave)
      .then(
        () => 'taken',
        (error: Error) => error.message,
      )
  const posts = (count: number) => Promise.all(Array.from({ length: count }, () => post()))
  return { backend, pace, post, posts, messages }
}

it('lets up to 64 go at once while they get through, and an answer that fails alone holds up nobody', async () => {
  const { backend, post, posts, messages } = start()
  await post()
  for (let n = 0; n < 5; n++) {
    backend.error = busy
    await post()
    backend.error = null
    await post()
  }
  expect(new Set(await posts(200))).toEqual(new Set(['taken']))
  expect(backend.most).toBe(64)
  expect(messages()).toEqual([])
})

it('after three failures in a row lets one go at a time, and all when that gets through', async () => {
  const { backend, post, posts, messages } = start()
  await post()
  backend.error = busy
  for (let n = 0; n < 3; n++) await post()
  const before = backend.began.length
  const waiting = posts(50)
  await sleep(500)
  expect(backend.began.length).toBe(before)
  await sleep(800)
  expect(backend.began.length).toBe(before + 1)
  backend.error = null
  expect(new Set(await waiting)).toEqual(new Set(['taken', 'HTTP 503']))
  expect(backend.opened).toBe(2)
  expect(messages()).toEqual(['the backend takes no answers for now', 'the backend takes answers again'])
})

it.each([
  ['as long as Retry-After says, whoever was told so', new BackendError('retry', 'x', { retryAfterMs: 2_500 }), 2_400],
  ['no longer for a backend that refuses an answer for what it is', new BackendError('model', '400: no'), 0],
])('waits %s', async (_what, error, leastMs) => {
  const { backend, post } = start()
  await post()
  backend.error = error
  for (let n = 0; n < 3; n++) await post()
  backend.error = null
  const from = performance.now()
  await post()
  expect(performance.now() - from).toBeGreaterThanOrEqual(leastMs)
  expect(performance.now() - from).toBeLessThan(leastMs + 1_000)
})

it('lets one go as soon as the websocket is back, and whoever rests', async () => {
  const { backend, pace, post } = start()
  await post()
  pace.setAway(true)
  backend.error = busy
  for (let n = 0; n < 4; n++) void post()
  await sleep(1_200)
  expect(backend.began.length).toBe(3)
  backend.error = null
  const from = performance.now()
  const rested = pace.rest(30_000, NEVER)
  pace.setAway(false)
  await rested
  expect(await post()).toBe('taken')
  expect(performance.now() - from).toBeLessThan(1_500)
})

it('is left by who waits, not by who posts', async () => {
  const { backend, post } = start()
  const leave = new AbortController()
  const all = [post(leave.signal), post(leave.signal)]
  await sleep(1)
  leave.abort()
  expect(await Promise.all(all)).toEqual(['taken', 'the worker is stopping'])
  expect(backend.began.length).toBe(1)
})
