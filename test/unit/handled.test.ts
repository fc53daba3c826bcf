import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Admission } from '../../src/admission.js'
import { BackendError } from '../../src/backend/errors.js'
import { type CallContext, rejectUnreadable } from '../../src/call.js'
import { DiskJournal } from '../../src/journal/disk-journal.js'
import type { ClaimedCall } from '../../src/journal/journal.js'
import { PostingPace } from '../../src/posting-pace.js'
import { PostingRoom } from '../../src/posting-room.js'
import { Recovery } from '../../src/recovery.js'
import type { HandledCall } from '../../src/telemetry/status.js'
import { broken, busy, notRun, rejected } from '../../src/tool/outcome-without-run.js'
import { captureLog } from '../backend/support/fixtures.js'
import { config, context as outcomes } from './tool/fixtures.js'

const ANSWER = { content: '"done"', provenance: '{"status":"completed"}', dollars: 0, asPlaceholder: false }

function callOf(id: string): ClaimedCall {
  return { fcall_id: id, fcall_untrusted_key: 'k', connected_persona_id: null, confirmed_by_human: null }
}

async function open(stateDir?: string) {
  const dir = stateDir ?? mkdtempSync(path.join(os.tmpdir(), 'journal-'))
  const { log, lines } = captureLog()
  const journal = await DiskJournal.open({ stateDir: dir, log, onHealth: () => {} })
  onTestFinished(async () => {
    await journal.close()
    rmSync(dir, { recursive: true, force: true })
  })
  const handled: HandledCall[] = []
  const failed: string[] = []
  const told = { lost: 0, posts: 0 }
  const answers: { error: BackendError | null } = { error: null }
  const context: CallContext = {
    config,
    tools: new Map(),
    journal,
    admission: new Admission({ slots: 1, queueMax: 1 }),
    api: {
      postResult: async () => {
        told.posts++
        if (answers.error !== null) throw answers.error
      },
      requestConfirmation: async () => 'asked',
    },
    room: new PostingRoom({ onRoom: () => {}, onFull: () => {} }),
    pace: new PostingPace({ log: log, onOpen: () => {}, random: () => 0 }),
    openDelta: () => {
      throw new Error('nothing is streamed here')
    },
    outcomes: {
      rejected: (message, called) => rejected(outcomes, message, called),
      busy: called => busy(outcomes, called),
      notRun: (status, reason, called) => notRun(outcomes, status, reason, called),
      broken: (reason, started, called) => broken(outcomes, reason, started, called),
    },
    log,
    stopPosting: new AbortController().signal,
    onForbidden: () => {},
    onHandled: call => handled.push(call),
    onPostFailed: why => failed.push(why),
    onLost: () => {
      told.lost++
    },
  }
  const events = () => lines.filter(line => line['msg'] === 'call handled')
  return { dir, journal, context, events, handled, failed, told, answers }
}

describe('one wide event, and one count, has', () => {
  it('a call that can not be read', async () => {
    const { context, events, handled } = await open()
    await rejectUnreadable(callOf('c'), 'fcall_name', context)
    await rejectUnreadable(callOf('c'), 'fcall_name', context)
    expect(events()).toMatchObject([{ fcall_id: 'c', reply: 'answer', status: 'rejected', delivered: true }])
    expect(handled).toMatchObject([{ status: 'rejected', delivered: true }])
  })

  it('each call of the life before, however often its answer is offered', async () => {
    const first = await open()
    for (const id of ['waited', 'ran', 'ended']) first.journal.claim(id, callOf(id))
    await first.journal.started('ran')
    await first.journal.settled('ended', ANSWER)
    await first.journal.close()
    const { context, events, handled, failed, answers, told } = await open(first.dir)
    const running = new Set<Promise<unknown>>()
    const recovery = new Recovery({
      context,
      track: (_, handle) => {
        const done = handle().finally(() => running.delete(done))
        running.add(done)
      },
    })
    onTestFinished(() => recovery.close())
    answers.error = new BackendError('retry', '503: not now', { status: 503 })
    for (let round = 0; round < 2; round++) {
      recovery.run()
      await Promise.all(running)
    }
    answers.error = null
    recovery.run()
    await Promise.all(running)
    expect(told.posts).toBe(9)
    expect(
      events()
        .map(line => [line['fcall_id'], line['reply'], line['status'], line['delivered']])
        .sort(),
    ).toEqual([
      ['ended', 'earlier', 'completed', false],
      ['ran', 'answer', 'interrupted', false],
      ['waited', 'answer', 'interrupted', false],
    ])
    expect(handled).toHaveLength(3)
    expect(failed).toEqual(Array(6).fill('gave_up'))
    expect(told.lost).toBe(0)
  })
})

it('an answer that is refused for good is counted as that, and one that can not be read any more as lost', async () => {
  const { context, failed, answers, told, journal } = await open()
  answers.error = new BackendError('final', '400: no', { status: 400 })
  await rejectUnreadable(callOf('c'), 'fcall_name', context)
  expect(failed).toEqual(['refused'])
  await journal.close()
  const next = await open()
  next.journal.claim('d', callOf('d'))
  await next.journal.settled('d', ANSWER)
  next.journal.delivered('d')
  await next.journal.close()
  rmSync(path.join(next.dir, 'calls'), { recursive: true })
  const last = await open(next.dir)
  rmSync(path.join(next.dir, 'answered'), { recursive: true })
  expect(await rejectUnreadable(callOf('d'), 'fcall_name', last.context)).toBe(true)
  expect([told.lost, last.told.lost, last.told.posts]).toEqual([0, 1, 1])
})
