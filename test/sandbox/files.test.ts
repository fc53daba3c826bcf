import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CollectedFile, TierName } from '../../src/outcome.js'
import type { InputFile } from '../../src/sandbox/inputs.js'
import { cancelAfter, openRoom, type Ran, type Room } from './support/room.js'

const MIB = 1024 * 1024
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const TIERS: readonly TierName[] = ['namespaces', 'landlock']

const input = (path: string, content: string | Buffer | null): InputFile => ({
  path,
  read: async () => (content === null ? null : Buffer.from(content)),
})

/** path → its content as text, or why there is none. */
function contents({ collected }: Ran): Record<string, string | null> {
  const shown = ({ content, why }: CollectedFile) => (content === null ? why : content.toString())
  return Object.fromEntries((collected?.files ?? []).map(file => [file.path, shown(file)]))
}

describe.each(TIERS)('files in the %s tier', tier => {
  let room: Room
  beforeAll(async () => {
    room = await openRoom({ tier, memoryBytes: 320 * MIB, workspaceBytes: 160 * MIB, fileBytes: 64 * MIB })
  })
  afterAll(async () => {
    expect(await room.close()).toEqual({ processes: [], files: [] })
  })
  const all = (...inputs: InputFile[]) => ({ files: { inputs, contents: 'kept' as const } })

  it('that the code made come with their contents', async () => {
    const report = await room.run(
      'import os\nos.makedirs("a/b")\nopen("a/b/c.csv", "w").write("x,y\\n")\nopen("empty", "w").close()\nopen("z.bin", "wb").write(bytes(range(256)) * 4000)',
      all(),
    )
    expect(contents(report)).toMatchObject({ 'a/b/c.csv': 'x,y\n', empty: '' })
    const whole = report.collected?.files.find(({ path }) => path === 'z.bin')?.content
    expect(whole?.equals(Buffer.alloc(1_024_000, Buffer.from([...Array(256).keys()])))).toBe(true)
  })

  it('that are images come alone where nobody keeps the others', async () => {
    const report = await room.run('open("a.PNG", "w").write("p")\nopen("b.txt", "w").write("t")', {
      files: { inputs: [], contents: 'images' },
    })
    expect(contents(report)).toEqual({ 'a.PNG': 'p', 'b.txt': null })
    expect(report.files).toHaveLength(2)
  })

  it('that are images become parts of the result, and what only looks like one is named', async () => {
    const report = await room.run(
      `import base64
png = base64.b64decode("${PIXEL}")
for name in ("b.png", "a.png", "copy.png"): open(name, "wb").write(png + (b"" if name == "copy.png" else name.encode()))
open("copy of copy.png", "wb").write(png)
open("no.png", "w").write("text")`,
      { files: { inputs: [], contents: 'images' } },
    )
    expect(report.shown.parts.map(part => part.m_type)).toEqual(['image/png', 'image/png', 'image/png'])
    expect(report.shown.parts.map(part => Buffer.from(part.m_content, 'base64').subarray(-5).toString())).toEqual([
      'a.png',
      'b.png',
      expect.anything(),
    ])
    expect(report.shown.leftOut).toMatchObject([{ name: 'no.png' }])
  })

  it('of earlier calls are there before the code, and are not listed when it leaves them as they are', async () => {
    const report = await room.run(
      'print(open("made/before.csv").read(), end="")\nimport os\nprint(os.getuid() == os.stat("made/before.csv").st_uid)',
      all(input('made/before.csv', 'a,b\n1,2\n'), input('big', Buffer.alloc(3 * MIB, 'b'))),
    )
    expect(report.stdout.text).toBe('a,b\n1,2\nTrue\n')
    expect(report).toMatchObject({ status: 'completed', files: [], notes: [] })
    expect(report.collected).toMatchObject({ files: [], gone: [] })
  })

  it('of earlier calls are listed when they were changed, also to the same size, and told when they were removed', async () => {
    const report = await room.run(
      `import os
open("same", "r+").write("SAME")
os.utime("same", ns=(0, 0)) if hasattr(os, "utime") else None
open("more", "a").write("!")
os.remove("removed")
os.rename("renamed", "under another name")
os.remove("linked")
os.symlink("same", "linked")`,
      all(
        input('linked', 'l'),
        input('same', 'same'),
        input('more', 'more'),
        input('removed', 'x'),
        input('renamed', 'y'),
        input('left', 'z'),
      ),
    )
    expect(report.stderr.text).toBe('')
    expect(contents(report)).toEqual({ same: 'SAME', more: 'more!', 'under another name': 'y' })
    expect(report.collected).toMatchObject({ gone: ['removed', 'renamed'], unlisted: ['linked'] })
  })

  it('of earlier calls that can not be had are left out, and those that can not be placed are named', async () => {
    const report = await room.run(
      'import os\nprint(sorted(os.listdir()))',
      all(input('a', 'file'), input('a/b', 'below a file'), input('lost', null)),
    )
    expect(report.stdout.text).toBe("['a']\n")
    expect(report.notes).toEqual(['not put in place: a/b: File exists'])
  })

  it('too large for what a sandbox may hold are named and removed, and the code runs', async () => {
    const report = await room.run(
      'import os\nprint(sorted(os.listdir()))',
      all(input('huge', Buffer.alloc(65 * MIB)), input('small', 'x')),
    )
    expect(report.stdout.text).toBe("['small']\n")
    expect(report.notes).toEqual(['not put in place: huge: File too large'])
  })

  it('over the limits of one call are named with the limit, and the small ones come', async () => {
    const report = await room.run(
      `for n in range(3): open(f"{n}.bin", "wb").truncate(15 << 20)
open("large.bin", "wb").truncate(17 << 20)
open("small.txt", "w").write("s")`,
      all(),
    )
    const { '0.bin': first, '1.bin': second, ...rest } = contents(report)
    expect([first?.length, second?.length]).toEqual([15 * MIB, 15 * MIB])
    expect(rest).toEqual({
      '2.bin': 'more than 32 MiB in one call',
      'large.bin': 'larger than 16 MiB',
      'small.txt': 's',
    })
    report.collected?.release()
  })

  it('that are to be saved come up to 128 MiB, and it is known whether there are others', async () => {
    const code = 'for n in range(3): open(f"{n}.bin", "wb").truncate(45 << 20)\nopen("small.txt", "w").write("s")'
    const report = await room.run(code, { files: { inputs: [], contents: 'saved' } })
    const why = report.collected?.files.map(file => file.content?.length ?? file.why)
    expect(why).toEqual([45 * MIB, 45 * MIB, 'more than 128 MiB in one call', 1])
    expect(report.collected?.isAll).toBe(true)
    report.collected?.release()
    for (const other of ['for n in range(201): open(f"{n}", "w").close()', 'open("a", "w")\nos.link("a", "b")']) {
      const { collected } = await room.run(`import os\n${other}`, { files: { inputs: [], contents: 'saved' } })
      expect(collected?.isAll).toBe(false)
    }
  })

  it('more than 100 are named', async () => {
    const report = await room.run('for n in range(150): open(f"{n:03}", "w").write("x")', all())
    const why = Object.values(contents(report))
    expect(why.filter(one => one === 'x')).toHaveLength(100)
    expect(why.filter(one => one === 'more than 100 files in one call')).toHaveLength(50)
  })

  it('are kept when time is up, and when the code crashes', async () => {
    const code = 'open("x", "w").write("kept")\nimport os, time\n'
    expect(contents(await room.run(`${code}time.sleep(60)`, { ...all(), wallMs: 400 }))).toEqual({ x: 'kept' })
    expect(contents(await room.run(`${code}os.abort()`, all()))).toEqual({ x: 'kept' })
  })

  it('of earlier calls do not keep a call from being cancelled', async () => {
    const report = await cancelAfter(
      (code, options) => room.run(code, { ...options, ...all(input('a', 'a')) }),
      'import time\nprint("now", flush=True)\ntime.sleep(60)',
      'now',
      'stopped',
    )
    expect(report).toMatchObject({ status: 'cancelled', reason: 'stopped' })
  })

  it('of earlier calls that come only after the call was cancelled do not start its code', async () => {
    const controller = new AbortController()
    const late: InputFile = {
      path: 'a',
      read: async () => {
        controller.abort('stopped')
        return Buffer.from('a')
      },
    }
    const report = await room.run('print("ran")', { ...all(late), signal: controller.signal })
    expect(report).toMatchObject({ status: 'cancelled', reason: 'stopped', started: false, streamed: '' })
  })

  it('of earlier calls that break the sandbox end the call, which has not started', async () => {
    const report = await room.run('print("ran")', all(input('no name\0', 'x')))
    expect(report).toMatchObject({ status: 'interrupted', started: false, streamed: '' })
  })

  it('and the tools of the code do not come in each other’s way', async () => {
    const report = await room.run('print(open("a").read())', {
      ...all(input('a', 'there')),
      calls: { options: { catalog: [] }, request: async () => {}, end: () => {} },
    })
    expect(report.stdout.text).toContain('there')
  })
})
