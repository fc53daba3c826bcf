import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { DiskJournal } from '../../../src/journal/disk-journal.js'
import type { ClaimedCall } from '../../../src/journal/journal.js'
import { RecordStore } from '../../../src/journal/record-store.js'
import { captureLog } from '../../backend/support/fixtures.js'

const CALL: ClaimedCall = {
  fcall_id: 'c',
  fcall_untrusted_key: 'k',
  connected_persona_id: null,
  confirmed_by_human: null,
}
const EIO = Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' })
const realSave = RecordStore.prototype.save

afterEach(() => {
  vi.restoreAllMocks()
})

async function open(): Promise<{ journal: DiskJournal; statesOnDisk: () => unknown[] }> {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'journal-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const options = { stateDir: dir, log: captureLog().log, onHealth: () => {}, withinMs: 300 }
  const journal = await DiskJournal.open(options)
  onTestFinished(async () => void (await journal.close()))
  const calls = path.join(dir, 'calls')
  const stateOf = (name: string): unknown => JSON.parse(readFileSync(path.join(calls, name), 'utf8')).state
  const statesOnDisk = () =>
    readdirSync(calls)
      .filter(name => name.endsWith('.json'))
      .map(stateOf)
  return { journal, statesOnDisk }
}

describe('code of which the disk may say that it has not started', () => {
  it('does not start where the record has its name and the folder could not be synced', async () => {
    const { journal, statesOnDisk } = await open()
    const save = vi.spyOn(RecordStore.prototype, 'save')
    save.mockImplementationOnce(async function (this: RecordStore, record, onNamed) {
      await realSave.call(this, record, onNamed)
      throw EIO
    })
    save.mockRejectedValue(EIO)
    journal.claim('c', CALL)
    await sleep(100)
    expect(statesOnDisk()).toEqual(['claimed'])
    expect(await journal.started('c')).toBe(false)
    save.mockImplementation(realSave)
    expect(await journal.started('c')).toBe(true)
    expect(statesOnDisk()).toEqual(['started'])
  })

  it('does not start while the write that says so hangs, and may land at any time', async () => {
    const { journal, statesOnDisk } = await open()
    let land = () => {}
    const landing = new Promise<void>(resolve => {
      land = resolve
    })
    const save = vi.spyOn(RecordStore.prototype, 'save').mockImplementation(async function (
      this: RecordStore,
      record,
      onNamed,
    ) {
      if (record.state !== 'claimed') throw EIO
      await landing
      await realSave.call(this, record, onNamed)
    })
    journal.claim('c', CALL)
    await sleep(50)
    expect(await journal.started('c')).toBe(false)
    land()
    await expect.poll(statesOnDisk).toEqual(['claimed'])
    save.mockRestore()
    expect(await journal.started('c')).toBe(true)
  })

  it('is removed from a disk that may know of it when it is over', async () => {
    const { journal, statesOnDisk } = await open()
    const save = vi.spyOn(RecordStore.prototype, 'save').mockImplementation(async function (
      this: RecordStore,
      record,
      onNamed,
    ) {
      await realSave.call(this, record, onNamed)
      throw EIO
    })
    journal.claim('c', CALL)
    await sleep(100)
    journal.left('c')
    save.mockRestore()
    expect(await journal.close()).toBe(true)
    expect(statesOnDisk()).toEqual([])
  })
})
