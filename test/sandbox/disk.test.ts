import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readablePython } from './support/pythons.js'

const CORE = fileURLToPath(new URL('../../src/sandbox/python/core', import.meta.url))
const UNREADABLE = 2 ** 60

let folder = ''

beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'disk-'))
})

afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

/** Runs Python with `disk`, a Disk of the folder that counts up to 2 000 entries, in a process of at most 32 open files. */
function python(code: string): string {
  const script = `import json, os, resource, sys
sys.path.insert(0, ${JSON.stringify(CORE)})
import disk as module
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
os.chdir(${JSON.stringify(folder)})
disk = module.Disk(os.open(".", os.O_RDONLY), 2000, 1 << 20)
${code}`
  const result = spawnSync(readablePython(), ['-I', '-B', '-c', script], { encoding: 'utf8' })
  expect(result.stderr).toBe('')
  return result.stdout
}

describe('the look at a sandbox’s folder', () => {
  it('counts bytes on disk and entries below it', () => {
    mkdirSync(path.join(folder, 'a/b'), { recursive: true })
    writeFileSync(path.join(folder, 'a/b/file'), 'x'.repeat(100_000))
    const [bytes, entries] = JSON.parse(python('print(json.dumps(disk.usage()))'))
    expect(entries).toBe(3)
    expect(bytes).toBeGreaterThanOrEqual(100_000)
    expect(bytes).toBeLessThan(200_000)
  })

  it('needs few descriptors for many folders side by side, and for many one in the other', () => {
    const out = python(`for n in range(400): os.mkdir(f"wide{n}")
for n in range(400):
    os.mkdir("deep"); os.chdir("deep")
print(json.dumps(disk.usage()))`)
    const [bytes, entries] = JSON.parse(out)
    expect(entries).toBe(800)
    expect(bytes).toBeLessThan(UNREADABLE)
  })

  it('counts a file with several names once, and each of its names as an entry', () => {
    const out = python(`open("a", "wb").write(bytes(100_000))
os.mkdir("inner")
os.link("a", "b"); os.link("a", "inner/c")
print(json.dumps(disk.usage()))`)
    const [bytes, entries] = JSON.parse(out)
    expect(entries).toBe(4)
    expect(bytes).toBeLessThan(200_000)
  })

  it('stops where there are more entries than may be', () => {
    const out = python('for n in range(2100): open(str(n), "w").close()\nprint(disk.usage()[1])')
    expect(Number(out)).toBe(2001)
  })

  if (process.getuid?.() !== 0)
    // to root every folder is readable
    it('counts a folder that can not be read as more than any limit', () => {
      mkdirSync(path.join(folder, 'locked'))
      chmodSync(path.join(folder, 'locked'), 0)
      expect(Number(python('print(disk.usage()[0])'))).toBeGreaterThanOrEqual(UNREADABLE)
      chmodSync(path.join(folder, 'locked'), 0o700)
    })

  it('finds a folder again that is renamed before it is entered, and lives with one that is deleted', () => {
    const out = python(`os.mkdir("a"); os.mkdir("gone")
open("a/file", "wb").write(bytes(100_000))
real, turn = os.open, iter(range(3))
def open_late(path, *args, **named):
    if path in ("a", "a0", "a1") and next(turn, None) is not None:
        os.rename(path, {"a": "a0", "a0": "a1", "a1": "a2"}[path])
    elif path == "gone": os.rmdir(path)
    return real(path, *args, **named)
module.os = type("os", (), {**vars(os), "open": staticmethod(open_late)})
print(json.dumps([disk.usage() for _ in range(4)]))`)
    const looks: [number, number][] = JSON.parse(out)
    for (const [bytes] of looks) {
      expect(bytes).toBeGreaterThanOrEqual(100_000)
      expect(bytes).toBeLessThan(UNREADABLE)
    }
  })

  it('sees all the rest of a folder in which a name vanishes', () => {
    const out = python(`for n in range(40): open(str(n), "wb").write(bytes(4096))
real = os.stat
def stat_late(path, **named):
    if int(path) % 2 == 0 and os.path.exists(path): os.unlink(path)
    return real(path, **named)
module.os = type("os", (), {**vars(os), "stat": staticmethod(stat_late)})
print(json.dumps([disk.usage(), disk.usage()]))`)
    for (const [bytes, entries] of JSON.parse(out)) {
      expect(entries).toBe(20)
      expect(bytes).toBeGreaterThanOrEqual(20 * 4096)
      expect(bytes).toBeLessThan(UNREADABLE)
    }
  })

  it('counts as more than any limit when names vanish before each look, three times in a row', () => {
    const out = python(`open("0", "w").close()
real, n = os.stat, 0
def stat_late(path, **named):
    global n
    os.rename(str(n), str(n + 1))
    n += 1
    return real(path, **named)
module.os = type("os", (), {**vars(os), "stat": staticmethod(stat_late)})
print(json.dumps([disk.usage()[0] >= 1 << 60 for _ in range(4)]))`)
    expect(JSON.parse(out)).toEqual([false, false, true, true])
  })

  it('counts a mapped file without a name with all that a file can hold, unless it is open', () => {
    const out = python(`import ctypes
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
proc = os.open("/proc", os.O_RDONLY)
ask = lambda: disk.unlinked(proc, os.getpid(), os.getcwdb())
found = [ask()]
for name in (b"\\xff", b"a\\rb"):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, bytes(8192))
    libc.mmap(None, 4096, 1, 1, fd, 0)
    found.append(ask())
    os.unlink(name)
    found.append(ask())
    os.close(fd)
    found.append(ask())
print(json.dumps(found))`)
    const mebibyte = 2 ** 20
    expect(JSON.parse(out)).toEqual([0, 0, 8192, mebibyte, mebibyte, mebibyte + 8192, 2 * mebibyte])
  })
})
