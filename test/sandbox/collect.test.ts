import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readablePython } from './support/pythons.js'

const UNSHARE = '/usr/bin/unshare'
const COLLECT = fileURLToPath(new URL('../../src/sandbox/python/core/collect.py', import.meta.url))
const PRELUDE = `import importlib.util, json, os, sys, threading, time
spec = importlib.util.spec_from_file_location("collect", ${JSON.stringify(COLLECT)})
collect = importlib.util.module_from_spec(spec)
spec.loader.exec_module(collect)
ALL = {"all": True, "files": 100, "file_bytes": 1 << 24, "bytes": 1 << 25}
sent = {}
def send(index, data):
    sent[index] = sent.get(index, 0) + len(data)
    return True
def run(send=send, known={}, one_device=True, seconds=5, most=1000):
    place = collect.Workspace(".", one_device, time.monotonic() + seconds)
    found = collect.collect(place, ALL, known, most, send)
    place.close()
    return found
def tell(found): print(json.dumps({**found, "fds": len(os.listdir("/proc/self/fd")) - before}))
before = len(os.listdir("/proc/self/fd"))
`

/** What the collection says of a folder that `code` has made; nothing of a sandbox is around it. */
function collected(code: string, through: readonly string[] = []): Record<string, unknown> {
  const folder = mkdtempSync(path.join(tmpdir(), 'collect-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [command = '', ...args] = [...through, readablePython(), '-B', '-c', PRELUDE + code]
  const { stdout, stderr } = spawnSync(command, args, { cwd: folder, encoding: 'utf8', timeout: 20_000 })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout) as Record<string, unknown>
}

describe('a collection with somebody who is still alive', () => {
  it('reads no more of a file than was there, and drops one that grows', () => {
    const found = collected(`open("log", "wb").write(b"x" * (1 << 20))
def grow(index, data):
    open("log", "ab").write(b"y" * (1 << 20))
    return send(index, data)
found = run(grow)
assert sum(sent.values()) == 1 << 20, sent
tell(found)`)
    expect(found['files']).toEqual([{ path: 'log', bytes: 1 << 20, why: 'changed' }])
  })

  it('drops a file that gets shorter, one that is replaced, and one that gets a second name', () => {
    const found = collected(`for name in ("a", "b", "c"): open(name, "wb").write(b"x" * (1 << 19))
def change(index, data):
    if index == 0: os.truncate("a", 1)
    if index == 1 and not os.path.exists("b2"): os.link("b", "b2")
    return send(index, data)
real = collect.Workspace.read
def read(self, names, status, hand_over):
    if names == ("c",):
        os.unlink("c"); os.symlink("/etc/passwd", "c")
    return real(self, names, status, hand_over)
collect.Workspace.read = read
tell(run(change))`)
    expect(found['files']).toEqual(
      [
        ['a', 'changed'],
        ['b', 'changed'],
        ['c', 'unreadable'],
      ].map(([name, why]) => ({ path: name, bytes: 1 << 19, why })),
    )
  })

  it('follows no folder that becomes a link, and opens no pipe that a file becomes', () => {
    const found = collected(`os.mkdir("d"); open("d/hostname", "w").write("mine"); open("p", "w").write("file")
real = collect.Workspace.read
def read(self, names, status, hand_over):
    if names == ("d", "hostname"): os.rename("d", "e"); os.symlink("/etc", "d")
    if names == ("p",): os.unlink("p"); os.mkfifo("p")
    return real(self, names, status, hand_over)
collect.Workspace.read = read
tell(run())`)
    expect(found['files']).toEqual([
      { path: 'd/hostname', bytes: 4, why: 'unreadable' },
      { path: 'p', bytes: 4, why: 'unreadable' },
    ])
  })

  it('lists files from before first, and names those that are neither as they were nor listed', () => {
    const found = collected(`known = {}
for name in ("same", "z", "linked", "named twice", "gone"):
    open(name, "w").write("before")
    known[name] = collect.state(os.stat(name))
for n in range(200): open(f"{n:03}", "w").close()
open("z", "a").write("!")
os.remove("gone"); os.remove("linked"); os.symlink("z", "linked"); os.link("named twice", "second")
tell(run(known=known))`)
    expect((found['files'] as { path: string }[]).map(({ path: name }) => name)).toEqual([
      ...Array.from({ length: 199 }, (_, n) => String(n).padStart(3, '0')),
      'z',
    ])
    expect(found).toMatchObject({ files_more: 1, files_gone: ['gone'], files_unlisted: ['linked', 'named twice'] })
  })

  it('ends in time where nobody takes what it reads, and where there is no end of entries', () => {
    const late = collected(`for n in range(3): open(str(n), "w").write("x")
def slow(index, data): time.sleep(0.3); return True
tell(run(slow, seconds=0.2))`)
    expect(late['files']).toMatchObject([{ index: 0 }, { why: 'late' }, { why: 'late' }])
    const many = collected('for n in range(50): open(str(n), "w").close()\ntell(run(most=20))')
    expect(many).toMatchObject({ files_partial: 'entries' })
    expect(many['files']).toHaveLength(20)
  })

  it('leaves no descriptor open, whatever it met', () => {
    const { fds } =
      collected(`for n in range(30): os.makedirs(f"{n}/a/b"); os.symlink("/", f"{n}/l"); os.mkfifo(f"{n}/p")
run(); run(seconds=-1); run(most=5)
tell(run())`)
    expect(fds).toBe(0)
  })

  it('does not enter what is mounted on a folder of the workspace', context => {
    const through = [UNSHARE, '--mount', '--map-root-user']
    if (spawnSync(UNSHARE, ['--mount', '--map-root-user', 'mount', '-t', 'tmpfs', 'x', '/mnt']).status !== 0) {
      context.skip('nothing can be mounted here')
    }
    const found = collected(
      `import subprocess
os.mkdir("d"); open("own", "w").write("x")
subprocess.run(["mount", "-t", "tmpfs", "x", "d"], check=True)
open("d/foreign", "w").write("bait")
tell(run(one_device=False))`,
      through,
    )
    expect(found).toMatchObject({ files: [{ path: 'own', index: 0 }], files_partial: 'unreadable' })
  })
})
