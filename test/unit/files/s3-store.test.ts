import { describe, expect, it, onTestFinished } from 'vitest'
import { threadName } from '../../../src/files/names.js'
import { S3Store, type S3StoreOptions } from '../../../src/files/s3-store.js'
import type { ThreadKey } from '../../../src/files/store.js'
import { refuse, type S3Server, startS3Server } from './support/s3-server.js'

const MIB = 1024 * 1024
const HOUR = 3_600_000
const CHAT: ThreadKey = { group: 'g', thread: 't' }
const SECRET = 'secret-key-of-the-test'
const signal = new AbortController().signal

async function open(changes: Partial<S3StoreOptions> = {}): Promise<{ server: S3Server; store: S3Store }> {
  const server = await startS3Server('bucket-1')
  const store = new S3Store({
    bucket: 'bucket-1',
    endpoint: server.url,
    region: 'eu-test-1',
    prefix: 'team/files/',
    pathStyle: true,
    threadBytes: MIB,
    expireMs: HOUR,
    credentials: { accessKeyId: 'AKIATEST', secretAccessKey: SECRET },
    ...changes,
  })
  onTestFinished(() => store.close())
  return { server, store }
}

const file = (path: string, content: string | Buffer = path) => ({
  path,
  mime: 'text/csv',
  content: Buffer.from(content),
})

describe('a bucket of files', () => {
  it('gives back what was kept, under odd names too, and to no other thread', async () => {
    const { server, store } = await open()
    const names = ['a/b.csv', 'ü & "数据" <x>.txt', "it's (1)+2 %2F#?.csv"]
    const { stored } = await store.keep(
      CHAT,
      names.map(name => file(name)),
      signal,
    )
    expect([...stored.keys()].sort()).toEqual([...names].sort())
    expect(stored.get('a/b.csv')).toBe(`s3://bucket-1/team/files/${threadName(CHAT)}/a/b.csv`)
    expect([...server.objects.keys()].every(key => key.startsWith(`team/files/${threadName(CHAT)}/`))).toBe(true)
    expect(server.objects.get(`team/files/${threadName(CHAT)}/a/b.csv`)?.type).toBe('text/csv')
    const { files } = await store.list(CHAT, signal)
    expect(files.map(one => one.path).sort()).toEqual([...names].sort())
    for (const one of files) expect((await store.get(CHAT, one, signal))?.toString()).toBe(one.path)
    expect(await store.list({ group: 'g', thread: 'u' }, signal)).toEqual({ files: [], gone: [] })
    const methods = server.requests.map(({ method }) => method)
    expect(new Set(methods)).toEqual(new Set(['GET', 'PUT']))
  })

  it('makes room by deleting the oldest, and deletes what is removed', async () => {
    const { server, store } = await open()
    await store.keep(CHAT, [file('old & first', Buffer.alloc(MIB / 2))], signal)
    const { evicted } = await store.keep(CHAT, [file('new', Buffer.alloc((MIB * 3) / 4))], signal)
    expect(evicted).toEqual(['old & first'])
    expect(server.objects.size).toBe(1)
    await store.keep(CHAT, [file('gone')], signal)
    const { files } = await store.list(CHAT, signal)
    await store.remove(
      CHAT,
      files.filter(one => one.path === 'gone'),
      signal,
    )
    expect((await store.list(CHAT, signal)).files.map(one => one.path)).toEqual(['new'])
  })

  it('deletes what has expired, and tells it to the next call alone, whoever looked, kept or removed before', async () => {
    const { server, store } = await open()
    await store.keep(CHAT, [file('old'), file('older')], signal)
    const { files } = await store.list(CHAT, signal)
    for (const [key, one] of server.objects) server.objects.set(key, { ...one, at: one.at - 2 * HOUR })
    expect(await store.list(CHAT, signal, true)).toEqual({ files: [], gone: [] })
    await store.keep(CHAT, [file('new')], signal)
    await store.remove(CHAT, files, signal)
    expect(server.objects.size).toBe(3)
    const { files: left, gone } = await store.list(CHAT, signal)
    expect(left.map(({ path }) => path)).toEqual(['new'])
    expect(gone).toEqual(['old', 'older'].map(path => ({ path, why: 'stored more than 1 h ago' })))
    expect((await store.list(CHAT, signal)).gone).toEqual([])
    expect(server.objects.size).toBe(1)
  })

  it('refuses what is more than a chat may keep', async () => {
    const { store } = await open()
    const { refused, stored } = await store.keep(CHAT, [file('huge', Buffer.alloc(MIB + 1))], signal)
    expect([stored.size, [...refused]]).toEqual([0, [['huge', 'more than the 1 MiB that one chat may keep']]])
  })

  it('tells of an error its name and status, and nothing else', async () => {
    const { server, store } = await open()
    server.misbehave = (_, response) => {
      refuse(response, 403, 'AccessDenied')
      return true
    }
    await expect(store.list(CHAT, signal)).rejects.toThrow(/^the store refused \(AccessDenied, HTTP 403\)$/)
    server.misbehave = ({ method }, response) => {
      if (method !== 'PUT') return false
      refuse(response, 400, 'QuotaExceeded')
      return true
    }
    const { refused } = await store.keep(CHAT, [file('a'), file('b')], signal)
    expect([...refused.values()]).toEqual(Array(2).fill('the store refused (QuotaExceeded, HTTP 400)'))
  })

  it('tries again what may succeed the next time', async () => {
    const { server, store } = await open()
    let failures = 2
    server.misbehave = (_, response) => {
      if (failures-- <= 0) return false
      refuse(response, 503, 'SlowDown')
      return true
    }
    expect(await store.list(CHAT, signal)).toEqual({ files: [], gone: [] })
  })

  it('knows what has gone meanwhile, or is another one by now', async () => {
    const { server, store } = await open()
    await store.keep(CHAT, [file('a'), file('b')], signal)
    const { files } = await store.list(CHAT, signal)
    server.objects.delete(`team/files/${threadName(CHAT)}/a`)
    await store.keep(CHAT, [file('b', 'longer than before')], signal)
    for (const one of files) expect(await store.get(CHAT, one, signal)).toBeNull()
  })

  it('forgets nothing that another call has stored anew meanwhile', async () => {
    const { store } = await open()
    await store.keep(CHAT, [file('a', '1'), file('b', '1')], signal)
    const { files } = await store.list(CHAT, signal)
    await store.keep(CHAT, [file('a', '2')], signal)
    await store.remove(CHAT, files, signal)
    expect((await store.list(CHAT, signal)).files.map(one => one.path)).toEqual(['a'])
  })

  it('lets go of the connection of an object that is not the one it knew', async () => {
    const { server, store } = await open()
    await store.keep(CHAT, [file('a')], signal)
    const [known] = (await store.list(CHAT, signal)).files
    if (known === undefined) throw new Error('nothing is kept')
    await store.keep(CHAT, [file('a', Buffer.alloc(MIB))], signal)
    // More than the client has connections: an unread answer would hold one of them.
    for (let n = 0; n < 60; n++) expect(await store.get(CHAT, known, signal)).toBeNull()
    expect(server.requests.filter(({ path }) => path.endsWith('/a')).length).toBe(62)
  })

  it('says when the store refuses to delete single objects, and gives back none that has expired', async () => {
    let now = Date.now()
    const { server, store } = await open({ wallClock: () => now })
    await store.keep(CHAT, [file('a')], signal)
    const { files } = await store.list(CHAT, signal)
    server.misbehave = ({ query }, response) => {
      if (!query.has('delete')) return false
      response.writeHead(200).end('<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code></Error></DeleteResult>')
      return true
    }
    await expect(store.remove(CHAT, files, signal)).rejects.toThrow(/^the store refused to delete \(AccessDenied\)$/)
    now += 2 * HOUR
    expect((await store.list(CHAT, signal)).files).toEqual([])
    expect(server.objects.size).toBe(1)
  })

  it('is given up when the call is, and says when there is nobody', async () => {
    const { server, store } = await open()
    server.misbehave = () => true // never answers
    const controller = new AbortController()
    setTimeout(() => controller.abort('cancelled'), 50)
    await expect(store.list(CHAT, controller.signal)).rejects.toThrow('the store was given up')
    const nobody = new S3Store({
      bucket: 'bucket-1',
      endpoint: 'http://127.0.0.1:9/',
      region: 'eu-test-1',
      prefix: '',
      pathStyle: true,
      threadBytes: MIB,
      expireMs: HOUR,
      credentials: { accessKeyId: 'AKIATEST', secretAccessKey: SECRET },
    })
    onTestFinished(() => nobody.close())
    await expect(nobody.list(CHAT, signal)).rejects.toThrow('the store can not be reached (ECONNREFUSED)')
  })
})
