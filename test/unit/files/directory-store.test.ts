import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DirectoryStore, type DirectoryStoreOptions } from '../../../src/files/directory-store.js'
import { Disk } from '../../../src/files/disk.js'
import { sha256, threadName } from '../../../src/files/names.js'
import type { FileStore, ThreadKey } from '../../../src/files/store.js'

const MIB = 1024 * 1024
const HOUR = 3_600_000
const CHAT: ThreadKey = { group: 'g', thread: 't' }
const OTHER: ThreadKey = { group: 'g', thread: 'u' }
const signal = new AbortController().signal

function place(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'store-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return path.join(folder, 'files')
}

function open(folder: string, changes: Partial<DirectoryStoreOptions> = {}): DirectoryStore {
  const store = new DirectoryStore({
    folder,
    threadBytes: 4 * MIB,
    totalBytes: 8 * MIB,
    expireMs: 10 * HOUR,
    ...changes,
  })
  onTestFinished(() => store.close())
  return store
}

const file = (name: string, content: string | Buffer = name) => ({
  path: name,
  mime: 'text/plain',
  content: Buffer.from(content),
})

/** path → content of all that a store has of a thread. */
async function contents(store: FileStore, thread = CHAT): Promise<Record<string, string | undefined>> {
  const { files } = await store.list(thread, signal)
  const found = await Promise.all(
    files.map(async one => [one.path, (await store.get(thread, one, signal))?.toString()] as const),
  )
  return Object.fromEntries(found)
}

/** After so many turns of the event loop. */
async function later(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise(resolve => setImmediate(resolve))
}

describe('a directory of files', () => {
  it('gives back what was kept, to this thread and no other, also in another life', async () => {
    const folder = place()
    const store = open(folder)
    const { stored, refused, evicted } = await store.keep(CHAT, [
      file('a/b.csv', 'x\ny\n'),
      file('ü\\ %2f', Buffer.alloc(0)),
    ])
    expect([...stored.keys()]).toEqual(['a/b.csv', 'ü\\ %2f'])
    expect(stored.get('a/b.csv')).toBe(`files:${threadName(CHAT)}/a/b.csv`)
    expect([refused.size, evicted]).toEqual([0, []])
    for (const one of [store, open(folder)]) {
      expect(await contents(one)).toEqual({ 'a/b.csv': 'x\ny\n', 'ü\\ %2f': '' })
      for (const thread of [OTHER, { group: 'h', thread: 't' }]) expect(await contents(one, thread)).toEqual({})
    }
  })

  it('can be read by nobody else, and has no name of the code in its own names', async () => {
    const folder = place()
    await open(folder).keep(CHAT, [file('secret-plan.txt')])
    const [thread = ''] = readdirSync(folder)
    const names = readdirSync(path.join(folder, thread))
    expect(names).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)])
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    expect(statSync(path.join(folder, thread)).mode & 0o777).toBe(0o700)
    expect(statSync(path.join(folder, thread, names[0] ?? '')).mode & 0o777).toBe(0o600)
  })

  it('replaces a file of the same name, and forgets those that are removed, unless they were stored anew', async () => {
    const store = open(place())
    await store.keep(CHAT, [file('a', '1'), file('b', '1')])
    const { files } = await store.list(CHAT)
    await store.keep(CHAT, [file('a', '2')])
    await store.remove(CHAT, files)
    expect(await contents(store)).toEqual({ a: '2' })
  })

  it('keeps within the room of a thread: the oldest go, those of the same call never', async () => {
    let now = 1_000
    const store = open(place(), { wallClock: () => now++ })
    for (const name of ['1', '2', '3']) await store.keep(CHAT, [file(name, Buffer.alloc(1.2 * MIB))])
    const { evicted, refused } = await store.keep(CHAT, [
      file('4', Buffer.alloc(1.2 * MIB)),
      file('5', Buffer.alloc(1.2 * MIB)),
      file('huge', Buffer.alloc(3 * MIB)),
    ])
    expect(evicted).toEqual(['2', '1'])
    expect([...refused]).toEqual([['huge', 'more than the 4 MiB that one chat may keep']])
    expect(Object.keys(await contents(store)).sort()).toEqual(['3', '4', '5'])
  })

  it('keeps within the room of all threads: the oldest files of others go, and these threads are told once', async () => {
    const folder = place()
    let now = Date.now()
    const store = open(folder, { wallClock: () => now++, totalBytes: 4 * MIB })
    await store.keep(CHAT, [file('old', Buffer.alloc(2 * MIB))])
    await store.keep(CHAT, [file('newer', Buffer.alloc(MIB))])
    await store.keep(OTHER, [file('x', Buffer.alloc(3 * MIB))])
    const later = open(folder, { wallClock: () => now++ })
    const { files, gone } = await later.list(CHAT)
    expect(files.map(one => one.path)).toEqual(['newer'])
    expect(gone).toEqual([{ path: 'old', why: 'other chats needed the room' }])
    expect((await later.list(CHAT)).gone).toEqual([])
    expect((await open(folder).list(CHAT)).gone).toEqual([])
  })

  it('forgets what was not used for long, says so once, and then leaves nothing of the thread', async () => {
    const folder = place()
    let now = Date.now()
    const store = open(folder, { wallClock: () => now })
    await store.keep(CHAT, [file('a')])
    now += 9 * HOUR
    expect((await store.list(CHAT)).files).toHaveLength(1)
    now += 9 * HOUR
    expect((await store.list(CHAT)).files).toHaveLength(1)
    now += 11 * HOUR
    await store.sweep()
    const later = open(folder, { wallClock: () => now })
    expect(await later.list(CHAT)).toEqual({ files: [], gone: [{ path: 'a', why: 'not used for 10 h' }] })
    now += 11 * HOUR
    await later.sweep()
    expect(readdirSync(folder)).toEqual([])
  })

  it('forgets what has expired also where the files of another chat can not be removed', async () => {
    const folder = place()
    let now = Date.now()
    const store = open(folder, { wallClock: () => now })
    for (const thread of [CHAT, OTHER]) await store.keep(thread, [file('a')])
    const stuck = path.join(folder, threadName(CHAT), sha256('a'))
    rmSync(stuck)
    mkdirSync(stuck)
    now += 11 * HOUR
    await expect(store.sweep()).rejects.toThrow()
    expect(readdirSync(path.join(folder, threadName(OTHER)))).toEqual(['gone.json'])
  })

  it('takes calls of one thread at once', async () => {
    const folder = place()
    const store = open(folder)
    await Promise.all(
      [...Array(20).keys()].map(n => store.keep(CHAT, [file('same', String(n)), file(`own-${n}`, String(n))])),
    )
    const found = await contents(store)
    expect(Object.keys(found)).toHaveLength(21)
    expect(await contents(open(folder))).toEqual(found)
  })

  it('loses nothing that is kept while other chats make room, or while what has expired goes', async () => {
    for (const rounds of Array(24).keys()) {
      const folder = place()
      let now = Date.now()
      const store = open(folder, { wallClock: () => now, threadBytes: 4_000, totalBytes: 4_000 })
      await store.keep(CHAT, [file('a', Buffer.alloc(2_000))])
      now += 1
      const other = store.keep(OTHER, [file('x', Buffer.alloc(3_000))])
      await later(rounds)
      await Promise.all([other, store.keep(CHAT, [file('a', 'new')])])
      expect(await contents(store)).toEqual({ a: 'new' })
      now += 11 * HOUR
      await store.sweep()
      now += 11 * HOUR
      const sweeping = store.sweep()
      await later(rounds)
      await Promise.all([sweeping, store.keep(CHAT, [file('b')]), store.keep(CHAT, [file('c')])])
      expect(await contents(store)).toEqual({ b: 'b', c: 'c' })
      expect(await contents(open(folder, { wallClock: () => now }))).toEqual({ b: 'b', c: 'c' })
    }
  })

  it('believes nothing that was cut, changed, linked or put there by others', async () => {
    const folder = place()
    await open(folder).keep(CHAT, [file('cut', 'x'.repeat(100)), file('changed'), file('linked'), file('good')])
    const thread = path.join(folder, threadName(CHAT))
    for (const name of readdirSync(thread)) {
      const whole = readFileSync(path.join(thread, name), 'utf8')
      const target = path.join(thread, name)
      if (whole.includes('"cut"')) writeFileSync(target, whole.slice(0, -1))
      if (whole.includes('"changed"')) writeFileSync(target, whole.replace(/changed$/, 'CHANGED'))
      if (whole.includes('"linked"')) {
        writeFileSync(path.join(folder, 'elsewhere'), whole)
        rmSync(target)
        symlinkSync(path.join(folder, 'elsewhere'), target)
      }
    }
    writeFileSync(path.join(thread, `${'0'.repeat(64)}.1.tmp`), 'half')
    writeFileSync(path.join(thread, 'f'.repeat(64)), 'no header')
    writeFileSync(path.join(folder, 'README'), 'not ours')
    const store = open(folder)
    expect(await contents(store)).toEqual({ good: 'good', changed: undefined })
    expect(await contents(store)).toEqual({ good: 'good' })
    expect(readFileSync(path.join(folder, 'README'), 'utf8')).toBe('not ours')
  })

  it('tells when it can not be used, and works again when it can', async () => {
    const folder = place()
    writeFileSync(folder, 'a file')
    const store = open(folder)
    await expect(store.list(CHAT)).rejects.toThrow()
    await expect(store.keep(CHAT, [file('a')])).rejects.toThrow()
    rmSync(folder)
    await store.keep(CHAT, [file('a')])
    expect(await contents(store)).toEqual({ a: 'a' })
    chmodSync(folder, 0o700)
  })

  it('has one operation on its disk at a time, whatever is done, so that one that hangs has one thread', async () => {
    const folder = place()
    let now = Date.now()
    let most = 0
    let isOver = false
    const watch = () => {
      most = Math.max(most, process.getActiveResourcesInfo().filter(name => name === 'FSReqPromise').length)
      if (!isOver) setImmediate(watch)
    }
    watch()
    const chats = Array.from({ length: 20 }, (_, n) => ({ group: 'g', thread: String(n) }))
    const store = open(folder, { wallClock: () => now, totalBytes: 16 * 1024 })
    await Promise.all(
      chats.map(chat =>
        store.keep(
          chat,
          ['a', 'b', 'c'].map(name => file(name, Buffer.alloc(1_024))),
        ),
      ),
    )
    await Promise.all(chats.map(chat => contents(store, chat)))
    const next = open(folder, { wallClock: () => now })
    await next.open()
    for (const _ of ['their files', 'their folders']) {
      now += 11 * HOUR
      await next.sweep()
    }
    isOver = true
    expect(readdirSync(folder)).toEqual([])
    expect(most).toBe(1)
  })

  it('refuses at once what would wait for a disk that hangs, and goes on when it answers', async () => {
    const disk = new Disk(20)
    const store = open(place(), { disk })
    await store.keep(CHAT, [file('a')])
    let answer = () => {}
    const hanging = disk.run(() => new Promise<void>(resolve => (answer = resolve)))
    await expect.poll(() => disk.hangs).toBe(true)
    const one = { path: 'a', bytes: 1, at: 0, version: sha256(Buffer.from('a')) }
    const refused = { name: 'StoreError', message: 'the disk of the worker does not answer' }
    await expect(store.list(CHAT)).rejects.toMatchObject(refused)
    await expect(store.get(CHAT, one)).rejects.toMatchObject(refused)
    await expect(store.keep(OTHER, [file('b')])).rejects.toMatchObject(refused)
    await expect(store.remove(CHAT, [one])).rejects.toMatchObject(refused)
    answer()
    await hanging
    expect(await contents(store)).toEqual({ a: 'a' })
  })
})
