import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { fairLimit } from '../../src/toolbox/fair-limit.js'

/** Work that ends when it is told to, and the order in which it was begun. */
function bench(most: number) {
  const limit = fairLimit(most)
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const run = (signal: AbortSignal, name: string) =>
    limit(
      signal,
      () =>
        new Promise<string>(resolve => {
          begun.push(name)
          ends.set(name, () => resolve(name))
        }),
    )
  return { begun, run, end: (name: string) => ends.get(name)?.() }
}

const runs = () => new AbortController()

it('a run that asks for much leaves a place, and takes turns with others', async () => {
  const { begun, run, end } = bench(3)
  const [a, b] = [runs().signal, runs().signal]
  const all = ['a1', 'a2', 'a3', 'a4'].map(name => run(a, name))
  await sleep(5)
  expect(begun).toEqual(['a1', 'a2'])
  all.push(run(b, 'b1'), run(b, 'b2'))
  await sleep(5)
  expect(begun).toEqual(['a1', 'a2', 'b1'])
  for (const name of ['a1', 'a2', 'b1', 'a3', 'b2', 'a4']) {
    end(name)
    await sleep(5)
  }
  expect(await Promise.all(all)).toHaveLength(6)
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4'])
})

it('a single place goes round, and work that fails gives it back', async () => {
  const limit = fairLimit(1)
  const { signal } = runs()
  await expect(limit(signal, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await Promise.all([1, 2, 3].map(n => limit(signal, async () => n)))).toEqual([1, 2, 3])
})

it('a run that is over does not wait, and takes no place', async () => {
  const { begun, run, end } = bench(1)
  const [first, over, last] = [runs(), runs(), runs()]
  const held = run(first.signal, 'held')
  const given = run(over.signal, 'given up')
  const next = run(last.signal, 'next')
  over.abort()
  await sleep(5)
  expect(begun).toEqual(['held', 'given up'])
  end('given up')
  expect(await given).toBe('given up')
  expect(begun).toEqual(['held', 'given up'])
  end('held')
  await held
  await sleep(5)
  end('next')
  expect(await next).toBe('next')
})
