import { afterAll, describe, expect, it } from 'vitest'
import type { ToolCall } from '../../src/backend/protocol.js'
import { endPrograms, logLines } from '../e2e/support/worker-process.js'
import { countedCode, expectEnding, findingsOf, runCell } from './support/cell.js'
import { atOnce, type ProgramBench, startProgramBench } from './support/program.js'
import { makeSmallDisk, type SmallDisk } from './support/small-disk.js'
import { cellsOf, tallyOf } from './support/tally.js'

const REFUSES = 'the journal can not be written: calls are kept in memory only, and kill -9 would lose them'
const WORKS_AGAIN = 'the journal can be written again'
/** It tries again every 5 s. */
const NOTICED_MS = 60_000
/** What is kept in memory alone before the worker takes no more. */
const UNSAVED_MOST = 200

interface DiskFault {
  readonly name: string
  strike(disk: SmallDisk): void
  mend(disk: SmallDisk): void
}

const FAULTS: readonly DiskFault[] = [
  { name: 'disk full', strike: disk => disk.fill(), mend: disk => disk.free() },
  { name: 'disk read-only', strike: disk => disk.setReadOnly(true), mend: disk => disk.setReadOnly(false) },
]

/** A full disk may take a record of one more block, or not. */
const BOTH = ['ran', 'neverStarted'] as const

const said = ({ program }: ProgramBench, message: string) => logLines(program).filter(line => line['msg'] === message)

const tally = tallyOf('disk')
afterAll(endPrograms)

describe.concurrent('a worker that can not write to its STATE_DIR any more', () => {
  it.each(cellsOf(FAULTS))('answers once: %s', { timeout: 300_000 }, async (_title, { phase, fault }) => {
    await atOnce(async () => {
      const disk = await makeSmallDisk()
      const bench = await startProgramBench({ MAX_CONCURRENT_CALLS: phase === 'waiting' ? '1' : '4' }, disk)
      try {
        const strike = async () => fault.strike(disk)
        // A call that waits is on disk as one that has not started: where that can't be put right, it does not start.
        const isStuck = phase === 'waiting' && fault.name === 'disk read-only'
        const endings = isStuck ? (['neverStarted'] as const) : phase === 'waiting' ? BOTH : (['ran'] as const)
        await runCell({ phase, stage: bench, strike, endings, tally, recoveryMs: 20_000 })
        // What is removed makes room for a little, so a full disk may come and go; a read-only one does not.
        expect(said(bench, REFUSES).length).toBeGreaterThan(0)
        if (fault.name === 'disk read-only') expect(said(bench, REFUSES)).toHaveLength(1)
        fault.mend(disk)
        const isWell = () => said(bench, WORKS_AGAIN).length === said(bench, REFUSES).length
        await bench.backend.waitFor(isWell, NOTICED_MS)
      } finally {
        await bench.close()
        await disk.close()
      }
    })
  })
})

it('a worker that has 200 calls in memory alone takes no more, answers them, and takes calls again when the disk does', {
  timeout: 300_000,
}, async () => {
  const disk = await makeSmallDisk()
  const bench = await startProgramBench({ MAX_CONCURRENT_CALLS: '6' }, disk)
  const { backend } = bench
  const calls: ToolCall[] = []
  const states = () => said(bench, 'worker state changed').map(line => line['to'])
  const push = () => calls.push(backend.pushCode(countedCode(0)))
  try {
    disk.setReadOnly(true)
    const clear = backend.misbehave({ kind: 'http_status', status: 503 }, { operation: 'cloudtool_post_result' })
    for (let n = 0; n < UNSAVED_MOST + 20; n++) push()
    await backend.waitFor(() => states().includes('impaired'), 60_000)
    await backend.waitFor(() => backend.subscribers === 0, 30_000)
    clear()
    disk.setReadOnly(false)
    await backend.waitFor(() => states().at(-1) === 'serving' && backend.subscribers === 1, 60_000)
    push()
    for (const call of calls) await backend.waitForAnswer(call.fcall_id, 60_000)
    // One that had to wait for a slot may be on disk as not started, see above.
    for (const call of calls) expectEnding(findingsOf(backend, call), BOTH)
  } finally {
    tally.count(
      1,
      calls.map(call => findingsOf(backend, call)),
    )
    await bench.close()
    await disk.close()
  }
})
