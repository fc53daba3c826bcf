import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { BackendError } from '../../src/backend/errors.js'
import { DiskJournal } from '../../src/journal/disk-journal.js'
import { PostingPace } from '../../src/posting-pace.js'
import { PostingRoom } from '../../src/posting-room.js'
import { Recovery } from '../../src/recovery.js'
import { broken, busy, notRun, rejected } from '../../src/tool/outcome-without-run.js'
import { captureLog } from '../backend/support/fixtures.js'
import { context as outcomeContext } from './tool/fixtures.js'

const DAY_MS = 24 * 3_600_000

/** A worker's life that finds answers of these calls in its journal; the backend takes those of `takes`. */
async function lifeAfter(ids: readonly string[], takes: (id: string) => boolean, stepMs = 0) {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'recovery-'))
  onTestFinished(() => rmSync(stateDir, { recursive: true, force: true }))
  const { log, messages } = captureLog()
  const journal = await DiskJournal.open({ stateDir, log, onHealth: () => {} })
  for (const id of ids) {
    journal.claim(id, { fcall_id: id, fcall_untrusted_key: 'k', connected_persona_id: null, confirmed_by_human: null })
    await journal.settled(id, { content: '"done"', provenance: '{}', dollars: 0, asPlaceholder: false })
    journal.undelivered(id)
  }
  const posted: string[] = []
  const handling: Promise<boolean>[] = []
  const stop = new AbortController()
  const recovery = new Recovery({
    context: {
      config: { serviceName: 'python_execute', resultMaxBytes: 100_000 },
      journal,
      api: {
        async postResult({ fcall_id }) {
          posted.push(fcall_id)
          if (!takes(fcall_id)) throw new BackendError('retry', 'not now')
        },
        async requestConfirmation() {
          return 'asked'
        },
      },
      room: new PostingRoom({ onRoom: () => {}, onFull: () => {} }),
      pace: new PostingPace({ log: log, onOpen: () => {}, random: () => 0 }),
      stopPosting: stop.signal,
      onForbidden: () => {},
      outcomes: {
        rejected: (message, called) => rejected(outcomeContext, message, called),
        busy: called => busy(outcomeContext, called),
        notRun: (status, reason, called) => notRun(outcomeContext, status, reason, called),
        broken: (reason, started, called) => broken(outcomeContext, reason, started, called),
      },
      log,
      wallClock: () => Date.now() + stepMs,
    },
    track: (_id, handle) => void handling.push(handle()),
  })
  onTestFinished(async () => {
    recovery.close()
    stop.abort()
    await journal.close()
  })
  return {
    journal,
    posted,
    messages,
    rejectedFiles: () => readdirSync(stateDir).filter(name => name === 'rejected'),
    async round() {
      recovery.run()
      await Promise.all(handling.splice(0))
    },
  }
}

it('answers that are not taken have one attempt a round, and hold up no other', async () => {
  const bad = Array.from({ length: 20 }, (_, n) => `bad${n}`)
  const { journal, posted, round } = await lifeAfter([...bad, 'good'], id => id === 'good')
  await round()
  expect(posted.toSorted()).toEqual([...bad, 'good'].toSorted())
  expect(
    journal
      .leftovers()
      .map(({ key }) => key)
      .toSorted(),
  ).toEqual(bad.toSorted())
})

it('comes again by itself, soon while the backend may still take the answer', async () => {
  let takes = false
  const { journal, posted, round } = await lifeAfter(['c'], () => takes)
  await round()
  takes = true
  await expect.poll(() => posted.length, { timeout: 15_000 }).toBe(2)
  await expect.poll(() => journal.outbox().answers).toBe(0)
})

it.each([
  ['forward by three days', 3 * DAY_MS],
  ['back by three days', -3 * DAY_MS],
])('a clock that is set %s has no answer given up that was offered once', async (_, stepMs) => {
  const { journal, messages, rejectedFiles, round } = await lifeAfter(['c'], () => false, stepMs)
  await round()
  await round()
  expect(journal.leftovers().map(({ key }) => key)).toEqual(['c'])
  expect(messages()).not.toContain('nobody has taken an answer for a day, it is given up')
  expect(rejectedFiles()).toEqual([])
})
