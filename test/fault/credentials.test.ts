import { randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Toolset } from '../../src/commands/setup.js'
import { type Bench, openSharedTools, startBench } from './support/bench.js'
import { countedCode, expectEnding, findingsOf } from './support/cell.js'
import { FULL, tallyOf } from './support/tally.js'

/** When the new ticket is there. Later than the first retry, it is noticed with the next one, a minute after that. */
const RENEWALS: readonly {
  readonly when: 'before the old one is refused' | 'a while after'
  readonly backMs: number
}[] = [
  { when: 'before the old one is refused', backMs: 10_000 },
  ...(FULL ? [{ when: 'a while after', backMs: 75_000 } as const] : []),
]

const tally = tallyOf('credentials')
let tools: Toolset
beforeAll(async () => {
  tools = await openSharedTools(4)
})
afterAll(() => tools.pool.close())

/** A worker with a ticket from a file of its own, and a call that runs. */
async function withTicket(
  use: (bench: Bench, renew: (ticket: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  const service = `fault_${randomBytes(6).toString('hex')}`
  const file = `/tmp/${service}_flexus_ticket`
  await writeFile(file, 'first\n', { mode: 0o600 })
  const env = { SERVICE_NAME: service, FLEXUS_WS_TICKET: 'older-than-the-file' }
  const bench = await startBench(tools, { accepted: { ticket: 'first' }, env })
  try {
    await use(bench, ticket => writeFile(file, `${ticket}\n`))
  } finally {
    await bench.close()
    await rm(file, { force: true })
  }
}

describe.concurrent('a ticket that has expired', () => {
  it.each(RENEWALS)(
    'and is renewed $when: what runs is answered, and the worker is back by itself',
    {
      timeout: 120_000,
    },
    async ({ when, backMs }) => {
      await withTicket(async (bench, renew) => {
        const { backend, worker } = bench
        const call = backend.pushCode(countedCode(2))
        await backend.waitFor(() => backend.deltas(call.fcall_id).length > 0, 20_000)
        if (when === 'before the old one is refused') await renew('second')
        backend.accept({ ticket: 'second' })
        backend.dropConnections(4403, '403: this ticket has expired')
        await backend.waitFor(() => worker.state === 'impaired', 5_000)
        if (when === 'a while after') {
          await backend.waitFor(
            () => bench.lines.some(line => line['msg'] === 'delivery failed, will be retried'),
            20_000,
          )
          expect(backend.subscribers).toBe(0)
          await renew('second')
        }
        await backend.waitForAnswer(call.fcall_id, 40_000)
        await backend.waitFor(() => worker.state === 'serving' && backend.subscribers === 1, backMs)
        const next = backend.pushCode(countedCode(0))
        await backend.waitForAnswer(next.fcall_id)
        for (const one of [call, next]) expectEnding(findingsOf(backend, one), ['ran'])
        tally.count(
          1,
          [call, next].map(one => findingsOf(backend, one)),
        )
      })
    },
  )

  it('makes the worker impaired, which answers no call and says so once', async () => {
    await withTicket(async bench => {
      const { backend, worker } = bench
      backend.accept({ ticket: 'second' })
      backend.dropConnections(4403, '403: this ticket has expired')
      await backend.waitFor(() => worker.state === 'impaired', 5_000)
      const refusals = () =>
        bench.lines.filter(line => line['msg'] === 'the backend refuses our credentials, trying again each minute')
      await backend.waitFor(() => refusals().length > 0, 5_000)
      const before = bench.proxy.attempts.length
      await new Promise(resolve => setTimeout(resolve, 5_000))
      expect(bench.proxy.attempts.length - before).toBeLessThanOrEqual(2)
      expect(refusals()).toHaveLength(1)
      expect(worker.state).toBe('impaired')
    })
  })
})
