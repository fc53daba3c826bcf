import { expect, it } from 'vitest'
import { FilesOfThreads } from '../../../src/files/thread-files.js'
import type { SandboxReport } from '../../../src/outcome.js'
import { keepFiles } from '../../../src/tool/keep-files.js'
import { captureLog } from '../../backend/support/fixtures.js'

it('lets go of the memory of files only when a store that hangs holds them no more', async () => {
  let letGo = () => {}
  const hanging = new Promise<void>(resolve => {
    letGo = resolve
  })
  const all = new FilesOfThreads({
    store: {
      list: async () => ({ files: [], gone: [] }),
      get: async () => null,
      keep: async () => {
        await hanging
        return { stored: new Map(), refused: new Map(), evicted: [] }
      },
      remove: async () => {},
      close: () => {},
    },
    bounds: { bytes: 10, fileBytes: 10, files: 10 },
    log: captureLog().log,
    within: { keep: 20 },
  })
  let isReleased = false
  const file = { path: 'a.txt', bytes: 1, mime: 'text/plain' }
  const report = {
    status: 'completed',
    files: [file],
    collected: {
      files: [{ ...file, content: Buffer.from('a'), why: null }],
      isAll: true,
      gone: [],
      unlisted: [],
      release: () => {
        isReleased = true
      },
    },
  } as unknown as SandboxReport
  const signal = new AbortController().signal
  const { notes } = await keepFiles(all.of({ group: 'g', thread: 't' }), report, signal)
  expect(notes).toEqual([expect.stringMatching(/^not kept for later calls: a\.txt \(the store gave no answer/)])
  await new Promise(resolve => setImmediate(resolve))
  expect(isReleased).toBe(false)
  letGo()
  await expect.poll(() => isReleased).toBe(true)
})
