import { describe, expect, it } from 'vitest'
import type { FileStore, StoredFile } from '../../../src/files/store.js'
import { StoreError } from '../../../src/files/store.js'
import { FilesOfThreads } from '../../../src/files/thread-files.js'
import type { CollectedFile, CollectedFiles } from '../../../src/outcome.js'
import { captureLog } from '../../backend/support/fixtures.js'

const MIB = 1024 * 1024
const KEY = { group: 'g', thread: 't' }
const signal = new AbortController().signal

const stored = (path: string, bytes: number, at = 1): StoredFile => ({ path, bytes, at, version: path })
const made = (path: string, content: string | null = 'x', why: string | null = null): CollectedFile => ({
  path,
  bytes: 1,
  mime: 'text/plain',
  content: content === null ? null : Buffer.from(content),
  why,
})
const collected = (files: CollectedFile[], gone: string[] = [], unlisted: string[] = []): CollectedFiles => ({
  files,
  isAll: true,
  gone,
  unlisted,
  release: () => {},
})

/** A store that has `files`, with what a test changes of it. */
function store(files: StoredFile[], changes: Partial<FileStore> = {}): FileStore & { removed: string[] } {
  const removed: string[] = []
  return {
    removed,
    list: async () => ({ files, gone: [] }),
    get: async (_, { path }) => Buffer.from(path),
    keep: async (_, all) => ({
      stored: new Map(all.map(({ path }) => [path, `files:${path}`])),
      refused: new Map(),
      evicted: [],
    }),
    remove: async (_, all) => {
      removed.push(...all.map(({ path }) => path))
    },
    close: () => {},
    ...changes,
  }
}

function open(behind: FileStore) {
  const { log, lines } = captureLog()
  const bounds = { bytes: 10 * MIB, fileBytes: 6 * MIB, files: 3 }
  const all = new FilesOfThreads({ store: behind, bounds, log, within: { list: 2_000, read: 2_000, keep: 2_000 } })
  return { all, lines, thread: () => all.of(KEY) ?? expect.fail('the call has a thread') }
}

describe('the files of a thread', () => {
  it('are nobody’s where a call has no thread or no group', () => {
    const { all } = open(store([]))
    expect([null, { group: '', thread: 't' }, { group: 'g', thread: '' }].map(key => all.of(key))).toEqual([
      null,
      null,
      null,
    ])
  })

  it('come the newest first as far as there is room, and what is left out is named', async () => {
    const files = [
      stored('older', 5 * MIB, 1),
      stored('new', 6 * MIB, 3),
      stored('large', 7 * MIB, 9),
      stored('small', 1, 2),
    ]
    const { inputs, notes } = await open(store(files)).thread().restore(signal)
    expect(inputs.map(({ path }) => path)).toEqual(['new', 'small'])
    expect((await inputs[0]?.read())?.toString()).toBe('new')
    expect(notes()).toEqual([
      'files of earlier calls that are not in the workspace: large (larger than 6 MiB), older (more than 10 MiB together)',
    ])
  })

  it('that have gone since are told', async () => {
    const gone = [{ path: 'a', why: 'not used for 72 h' }]
    const { notes } = await open(store([], { list: async () => ({ files: [], gone }) }))
      .thread()
      .restore(signal)
    expect(notes()).toEqual(['not kept any longer: a (not used for 72 h)'])
  })

  it('that can not be read are named, and the others come', async () => {
    const get: FileStore['get'] = async (_, { path }) => {
      if (path === 'b') throw new StoreError('the store refused (x)')
      if (path === 'c') return await new Promise(() => {})
      return path === 'a' ? null : Buffer.from(path)
    }
    const files = ['a', 'b', 'c'].map(path => stored(path, 1))
    const { inputs, notes } = await open(store(files, { get })).thread().restore(signal)
    expect(await Promise.all(inputs.map(input => input.read()))).toEqual([null, null, null])
    expect(notes()).toEqual([
      'files of earlier calls that could not be read: a (it is not there any more), b (the store refused (x)), ' +
        'c (the store gave no answer within 2 s)',
    ])
  })

  it('that have odd names, or did not come, are not kept, and the reasons are told', async () => {
    const { stored: kept, notes } = await open(store([]))
      .thread()
      .keep(
        collected([made('fine'), made('a\nb'), made('big', null, 'larger than 16 MiB'), made('../x')]),
        true,
        signal,
      )
    expect([...kept.keys()]).toEqual(['fine'])
    expect(notes).toEqual([
      'not kept for later calls: a\nb (its name has control characters), big (larger than 16 MiB), ../x (its path is not plain)',
    ])
  })

  it('that the code has removed are forgotten, unless it was ended from outside', async () => {
    const behind = store([stored('a', 1), stored('b', 1)])
    const thread = open(behind).thread()
    await thread.restore(signal)
    await thread.keep(collected([], ['a', 'never there']), false, signal)
    expect(behind.removed).toEqual([])
    await thread.keep(collected([], ['a', 'never there']), true, signal)
    expect(behind.removed).toEqual(['a'])
  })

  it('come back as they were where a change of them is not kept, which is said', async () => {
    const before = ['big', 'link', 'lost', 'no room', 'pushed out', 'removed'].map(path => stored(path, 1))
    const keep: FileStore['keep'] = async () => ({
      stored: new Map(),
      refused: new Map([['no room', 'the disk is full']]),
      evicted: ['pushed out'],
    })
    const { thread } = open(store(before, { keep }))
    const late = made('pushed out', null, 'there was no time')
    const changed = [made('big', null, 'larger than 16 MiB'), made('no room'), made('new', null, 'too many'), late]
    const one = thread()
    await one.restore(signal)
    expect((await one.keep(collected(changed, ['removed'], ['link']), false, signal)).notes).toEqual([
      'not kept for later calls: link (it is not listed), big (larger than 16 MiB), new (too many), ' +
        'pushed out (there was no time), no room (the disk is full)',
      'no longer kept, to make room: pushed out',
      'later calls find the older version of: link, big, removed',
      'later calls may find the older version of: no room',
    ])
  })

  it('may come back as they were where the store fails, which is said', async () => {
    const failing = async () => {
      throw new StoreError('the store refused (x)')
    }
    const { thread } = open(store([stored('a', 1), stored('b', 1), stored('c', 1)], { keep: failing, remove: failing }))
    const one = thread()
    await one.restore(signal)
    expect((await one.keep(collected([made('a'), made('new')], ['b']), true, signal)).notes).toEqual([
      'not kept for later calls: a (the store refused (x)), new (the store refused (x))',
      'later calls may find the older version of: a, b',
    ])
    expect((await one.keep(collected([], ['b']), true, signal)).notes).toEqual([
      'later calls may find the older version of: b',
    ])
  })

  it('cost no call when the store fails: one line tells it, and one when it works again', async () => {
    const behind = store([])
    const failing = async () => {
      throw Object.assign(new Error('ENOSPC: no space left on device, open /secret/place'), { code: 'ENOSPC' })
    }
    const broken = { ...behind, list: failing, keep: failing }
    const { lines, thread } = open(broken)
    expect((await thread().restore(signal)).notes()).toEqual([
      'files of earlier calls are not in the workspace this time: the store can not be used (ENOSPC)',
    ])
    const { notes } = await thread().keep(collected([made('a')]), true, signal)
    expect(notes).toEqual(['not kept for later calls: a (the store can not be used (ENOSPC))'])
    Object.assign(broken, { list: behind.list, keep: behind.keep })
    await thread().restore(signal)
    await thread().restore(signal)
    expect(lines.map(({ level, msg, reason }) => [level, msg, reason])).toEqual([
      [50, 'files of chats can not be kept', 'the store can not be used (ENOSPC)'],
      [30, 'files of chats are kept again', undefined],
    ])
  })

  it('are not waited for again where the store has not answered of late', async () => {
    let asked = 0
    const list = async () => {
      asked++
      return await new Promise<never>(() => {})
    }
    const { thread } = open(store([], { list }))
    await thread().restore(signal)
    const { notes } = await thread().restore(signal)
    expect(asked).toBe(1)
    expect(notes()).toEqual([
      'files of earlier calls are not in the workspace this time: the store did not answer of late',
    ])
  })

  it('are let go of when the call is ended', async () => {
    const controller = new AbortController()
    const { lines, thread } = open(store([], { keep: async () => await new Promise(() => {}) }))
    setTimeout(() => controller.abort('cancelled'), 20)
    const { notes } = await thread().keep(collected([made('a')]), true, controller.signal)
    expect(notes).toEqual(['not kept for later calls: a (the call was ended)'])
    expect(lines).toEqual([])
  })
})
