import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { askPerson, post, type Subscriber, subscribe } from './embedded-client.js'

const LIMIT_MS = 5000

let backend: EmbeddedBackend
let open: Subscriber[]

beforeEach(async () => {
  backend = await startEmbeddedBackend()
  open = []
})

afterEach(async () => {
  for (const subscriber of open) await subscriber.close()
  await backend.close()
})

async function subscribed(to = backend): Promise<Subscriber> {
  const before = to.subscribers
  const subscriber = subscribe(to)
  open.push(subscriber)
  await to.waitFor(() => to.subscribers === before + 1, LIMIT_MS)
  return subscriber
}

async function gone(subscriber: Subscriber, from = backend): Promise<void> {
  await subscriber.close()
  await from.waitFor(() => from.subscribers === 0, LIMIT_MS)
}

const ids = (subscriber: Subscriber): string[] => subscriber.calls.map(call => call.fcall_id)

describe('delivery', () => {
  test('calls that were pushed while nobody was there come in their order', async () => {
    const pushed = [1, 2, 3].map(n => backend.pushCode(`print(${n})`).fcall_id)
    const subscriber = await subscribed()
    await backend.waitFor(() => subscriber.calls.length === 3, LIMIT_MS)
    expect(ids(subscriber)).toEqual(pushed)
  })

  test('a call arrives with every field as it was pushed', async () => {
    const subscriber = await subscribed()
    const call = backend.pushCall({ connected_persona_id: 'persona_1', fcall_arguments: 'garbage' })
    await backend.waitFor(() => subscriber.calls.length === 1, LIMIT_MS)
    expect(subscriber.calls[0]).toEqual(call)
  })

  test('a call for another tool is not delivered', async () => {
    const subscriber = await subscribed()
    backend.pushCall({ fcall_name: 'other_tool' })
    const ours = backend.pushCode('print(1)')
    await backend.waitFor(() => subscriber.calls.length === 1, LIMIT_MS)
    expect(ids(subscriber)).toEqual([ours.fcall_id])
  })

  test('two subscribers take turns and no call goes to both', async () => {
    const first = await subscribed()
    const second = await subscribed()
    const pushed = Array.from({ length: 10 }, () => backend.pushCode('print(1)').fcall_id)
    await backend.waitFor(() => first.calls.length + second.calls.length === 10, LIMIT_MS)
    expect([...ids(first), ...ids(second)].sort()).toEqual(pushed.sort())
    expect(first.calls.length).toBe(5)
  })

  test('a subscription that the client completes is counted off at once, with no call waiting to wake it', async () => {
    const subscriber = await subscribed()
    await gone(subscriber)
    expect(backend.subscribers).toBe(0)
  })
})

describe('redelivery', () => {
  test('an unanswered call comes again to a new subscription, before newer ones', async () => {
    const first = await subscribed()
    const call = backend.pushCode('print(1)')
    await backend.waitFor(() => first.calls.length === 1, LIMIT_MS)
    await gone(first)
    const newer = backend.pushCode('print(2)')
    const second = await subscribed()
    await backend.waitFor(() => second.calls.length === 2, LIMIT_MS)
    expect(ids(second)).toEqual([call.fcall_id, newer.fcall_id])
    expect(backend.deliveries(call.fcall_id)).toBe(2)
  })

  test('an answered call does not come again', async () => {
    const first = await subscribed()
    const answered = backend.pushCode('print(1)')
    await backend.waitFor(() => first.calls.length === 1, LIMIT_MS)
    await post(backend, answered, 'done')
    await gone(first)
    const marker = backend.pushCode('print(2)')
    const second = await subscribed()
    await backend.waitFor(() => second.calls.length === 1, LIMIT_MS)
    expect(ids(second)).toEqual([marker.fcall_id])
  })

  test('with `never` a delivered call is lost with its subscription', async () => {
    const once = await startEmbeddedBackend({ redeliver: 'never' })
    try {
      const first = await subscribed(once)
      once.pushCode('print(1)')
      await once.waitFor(() => first.calls.length === 1, LIMIT_MS)
      await gone(first, once)
      const marker = once.pushCode('print(2)')
      const second = await subscribed(once)
      await once.waitFor(() => second.calls.length === 1, LIMIT_MS)
      expect(ids(second)).toEqual([marker.fcall_id])
    } finally {
      for (const subscriber of open) await subscriber.close()
      await once.close()
    }
  })

  test('with `orphaned` a call stays with its subscription while that lives', async () => {
    const kind = await startEmbeddedBackend({ redeliver: 'orphaned' })
    try {
      const first = await subscribed(kind)
      const call = kind.pushCode('print(1)')
      await kind.waitFor(() => first.calls.length === 1, LIMIT_MS)
      const second = await subscribed(kind)
      const marker = kind.pushCode('print(2)')
      await kind.waitFor(() => first.calls.length + second.calls.length === 2, LIMIT_MS)
      expect([...ids(first), ...ids(second)].sort()).toEqual([call.fcall_id, marker.fcall_id].sort())
    } finally {
      for (const subscriber of open) await subscriber.close()
      await kind.close()
    }
  })

  test.each([true, false])(
    'after a confirmation the same call comes again with confirmed_by_human %s',
    async approved => {
      const subscriber = await subscribed()
      const call = backend.pushCode('print(1)')
      await backend.waitFor(() => subscriber.calls.length === 1, LIMIT_MS)
      expect(await askPerson(backend, call)).toEqual({ data: { cloudtool_confirmation_request: true } })
      backend.confirm(call.fcall_id, approved)
      await backend.waitFor(() => subscriber.calls.length === 2, LIMIT_MS)
      expect(subscriber.calls[1]).toEqual({ ...call, confirmed_by_human: approved })
    },
  )
})

describe('restart', () => {
  test('stop kills every socket and start serves the kept calls on the same port', async () => {
    const first = await subscribed()
    const call = backend.pushCode('print(1)')
    await backend.waitFor(() => first.calls.length === 1, LIMIT_MS)
    await backend.stop()
    expect(await first.ended).toMatchObject({ code: 1006 })
    expect(backend.connections('graphql')).toBe(0)
    await expect(fetch(backend.url)).rejects.toThrow()
    backend.pushCode('print(2)')
    await backend.start()
    const second = await subscribed()
    await backend.waitFor(() => second.calls.length === 2, LIMIT_MS)
    expect(ids(second)[0]).toBe(call.fcall_id)
    await post(backend, call, 'done')
    expect((await backend.waitForAnswer(call.fcall_id)).content).toBe('done')
  })

  test('a second stop and a second start do nothing', async () => {
    await backend.stop()
    await backend.stop()
    await backend.start()
    await backend.start()
    expect((await fetch(backend.url)).status).toBe(404)
  })
})

describe('waiting', () => {
  test('an answer that does not come is said with what was seen of the call', async () => {
    const call = backend.pushCode('print(1)')
    await expect(backend.waitForAnswer(call.fcall_id, 50)).rejects.toThrow(
      /no answer to .* \(delivered 0 times, 0 deltas\)/,
    )
  })
})
