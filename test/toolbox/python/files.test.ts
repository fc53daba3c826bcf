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
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { printed, runCode } from './support/run-code.js'

let work = ''
const put = (name: string, content: string | Buffer) => {
  mkdirSync(path.dirname(path.join(work, name)), { recursive: true })
  writeFileSync(path.join(work, name), content)
}
const get = (name: string) => readFileSync(path.join(work, name), 'utf8')

/** What each expression gives: its value as JSON, or the message of its ToolError. */
async function results(...expressions: string[]): Promise<unknown[]> {
  const lines = expressions.map(one => `attempt(lambda: ${one})`).join('\n')
  const code = `
import json
from tools import ToolError
f, sh = tools.files, tools.shell
def attempt(run):
    try: print(json.dumps(run()))
    except ToolError as error: print(json.dumps("! " + str(error)))
${lines}`
  return (await printed(code, { work }))
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

beforeEach(() => {
  work = mkdtempSync(path.join(tmpdir(), 'toolbox-files-'))
})
afterEach(() => rmSync(work, { recursive: true, force: true }))

describe('files.read_file', () => {
  it('reads lines from 1 on, exactly', async () => {
    put('a.txt', 'one\r\ntwo\u2028still two\n\nfour')
    put('bom.txt', '\ufeffx\n')
    put('empty.txt', '')
    expect(
      await results(
        'f.read_file("a.txt")["content"]',
        'f.read_file("a.txt", 2, 2)',
        'f.read_file("a.txt", offset=2, line_numbers=True)["content"]',
        'f.read_file("a.txt", offset=9)',
        'f.read_file("bom.txt")["content"]',
        'f.read_file("empty.txt", line_numbers=True)',
        `f.read_file("${work}/a.txt", limit=1)["hint"]`,
      ),
    ).toEqual([
      'one\r\ntwo\u2028still two\n\nfour',
      {
        content: 'two\u2028still two\n\n',
        total_lines: 4,
        file_size: 26,
        truncated: true,
        is_binary: false,
        is_image: false,
        hint: 'lines 2 to 3 of 4; go on with offset=4',
      },
      '2|two\u2028still two\n3|\n4|four',
      expect.objectContaining({
        content: '',
        total_lines: 4,
        hint: 'the file has 4 lines; offset=9 is beyond its end',
      }),
      'x\n',
      expect.objectContaining({ content: '', total_lines: 0, truncated: false }),
      'lines 1 to 1 of 4; go on with offset=2',
    ])
  })

  it('answers with words what it can not read', async () => {
    put('notes.txt', 'x')
    put('p.png', Buffer.from('89504e470d0a1a0a0000', 'hex'))
    put('u16.txt', Buffer.from('\ufeffhello', 'utf16le'))
    put('latin.txt', Buffer.from('caf\xe9 au lait', 'latin1'))
    put('cut.txt', `${'a'.repeat(8191)}é`)
    mkdirSync(path.join(work, 'folder'))
    expect(
      await results(
        'f.read_file("note.txt")',
        'f.read_file("folder")',
        'f.read_file("p.png")',
        'f.read_file("u16.txt")',
        'f.read_file("latin.txt")',
        'len(f.read_file("cut.txt")["content"])',
        'f.read_file("")',
        'f.read_file("a\\0b")',
        '[open("huge", "wb").truncate(300 << 20), f.read_file("huge")]',
        '[open("wide", "w").write("x" * (9 << 20)), f.read_file("wide")]',
        '[__import__("os").mkfifo("pipe"), f.read_file("pipe")]',
      ),
    ).toEqual([
      '! File not found: note.txt; did you mean notes.txt?',
      `! folder is a folder; search("*", target="files", path='folder') lists its files`,
      "! p.png is a PNG image (10 bytes), not text in UTF-8; use open(path, 'rb') or a library for it in the code",
      "! u16.txt is text in UTF-16 (12 bytes), not text in UTF-8; use open(path, encoding='utf-16') in the code",
      "! latin.txt is binary data (12 bytes), not text in UTF-8; use open(path, 'rb') or a library for it in the code",
      8192,
      "! path must be text that is not empty, not ''",
      '! path has a null character',
      '! huge is too large to be read by lines (300.0 MiB): go through it with open() in the code',
      '! these lines of wide are over 8.0 MiB: pass a smaller limit, or use open() in the code',
      '! pipe is not a regular file but a pipe, socket or device',
    ])
  })

  it('names files that are like one that is missing, in a large folder in bounded time', async () => {
    put('zeta.csv', 'x')
    put('.env.local', 'x')
    const code = `
import time
for n in range(4000): open("report" * 30 + str(n), "w").close()
started = time.process_time()
for name in ("zetta.csv", "zeta.json", "Zeta.csv", ".env", "report" * 30 + "x"):
    try: tools.files.read_file(name)
    except tools.ToolError as error: print(error.details["similar_files"][0][:12])
assert time.process_time() - started < 4, time.process_time() - started`
    const found = ['zeta.csv', 'zeta.csv', 'zeta.csv', '.env.local', 'reportreport']
    expect((await printed(code, { work })).trim().split('\n')).toEqual(found)
  })

  it('stays in the workspace, links included', async () => {
    put('sub/in.txt', 'inside')
    symlinkSync('sub/in.txt', path.join(work, 'good'))
    symlinkSync('/etc/passwd', path.join(work, 'bad'))
    symlinkSync('/etc', path.join(work, 'etc'))
    expect(
      await results(
        'f.read_file("good")["content"]',
        'f.read_file("sub/../sub/in.txt")["content"]',
        'f.read_file("bad")',
        'f.read_file("etc/passwd")',
        'f.read_file("../x")',
        'f.write_file("/etc/x", "y")',
        'f.write_file("bad", "y")',
        'f.search("root", path="/etc")',
        '[__import__("os").chdir("sub"), f.read_file("in.txt")["content"], f.write_file("../up.txt", "u")["path"]]',
      ),
    ).toEqual([
      'inside',
      'inside',
      '! bad is, or goes through, a link that leads out of the workspace, to /etc/passwd',
      '! etc/passwd is, or goes through, a link that leads out of the workspace, to /etc/passwd',
      `! ../x is outside of the workspace ${work}, in which these tools work; elsewhere use open()`,
      `! /etc/x is outside of the workspace ${work}, in which these tools work; elsewhere use open()`,
      '! bad is, or goes through, a link that leads out of the workspace, to /etc/passwd',
      `! /etc is outside of the workspace ${work}, in which these tools work; elsewhere use open()`,
      [null, 'inside', path.join(work, 'up.txt')],
    ])
  })
})

describe('files.write_file', () => {
  it('writes exactly what it is given, makes folders, and tells the ledger', async () => {
    const ended = await runCode(
      `print(tools.files.write_file("a/b/c.txt", "é\\r\\n\\u2028"), tools.files.write_file("a/b/c.txt", ""))
tools.files.write_file("a/b/c.txt", "é\\r\\n")
try: tools.files.write_file("a", "x")
except tools.ToolError as error: print(error)`,
      { work },
    )
    expect(ended.stdout).toBe(
      "{'status': 'ok', 'path': 'a/b/c.txt', 'bytes_written': 7, 'dirs_created': True} {'status': 'ok', 'path': 'a/b/c.txt', 'bytes_written': 0, 'dirs_created': False}\na is a folder\n",
    )
    expect(get('a/b/c.txt')).toBe('é\r\n')
    const done = ended.requests.filter(one => one.op === 'done')
    expect(done.map(one => [one['of'], one['ok'], one['error']])).toEqual([
      [ended.calls[0]?.id, true, null],
      [ended.calls[1]?.id, true, null],
      [ended.calls[2]?.id, true, null],
      [ended.calls[3]?.id, false, 'a is a folder'],
    ])
    expect(done[0]?.['bytes']).toBe(
      Buffer.byteLength('{"status": "ok", "path": "a/b/c.txt", "bytes_written": 7, "dirs_created": true}'),
    )
  })

  it('keeps the mode of a file and, where it can not be written, the file', async () => {
    put('run.sh', 'old')
    put('thing', 'old')
    chmodSync(path.join(work, 'run.sh'), 0o775)
    const code = `
import os, resource
from concurrent.futures import ThreadPoolExecutor
os.mkfifo("pipe")
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
print(tools.files.write_file("run.sh", "new")["bytes_written"])
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda n: tools.files.write_file(f"many/deep/{n}", "x"), range(20)))
for name in ("thing", "sub/thing", "thing/x", "pipe"):
    try: tools.files.write_file(name, "x" * 200)
    except tools.ToolError as error: print(error)`
    expect((await printed(code, { work })).trim().split('\n')).toEqual([
      '3',
      "thing can't be written: File too large; nothing was changed",
      "sub/thing can't be written: File too large; nothing was changed",
      "thing/x can't be written: thing is no folder; nothing was changed",
      'pipe is not a regular file but a pipe, socket or device',
    ])
    expect([get('run.sh'), get('thing'), statSync(path.join(work, 'run.sh')).mode & 0o777]).toEqual([
      'new',
      'old',
      0o775,
    ])
    expect(readdirSync(work).sort()).toEqual(['many', 'pipe', 'run.sh', 'thing'])
    expect(readdirSync(path.join(work, 'many/deep'))).toHaveLength(20)
  })
})

describe('files.search', () => {
  beforeEach(() => {
    put('a.py', 'import os\ndef one():\n    return 1\n')
    put('lib/b.py', 'def two():\r\n    pass\r\ndef three(): pass')
    put('lib/c.ts', 'function two() {}\n')
    put('.git/d.py', 'def four')
    put('image.bin', Buffer.from([0, 1, 2]))
  })

  it('finds lines with their places, in pages, with context', async () => {
    expect(
      await results(
        'f.search(r"def \\w+")',
        'f.search(r"def \\w+", limit=1, offset=1)',
        'f.search("two", file_glob="*.{ts,js}")["matches"]',
        'f.search("def two", path="lib/b.py", context=1)["matches"]',
        'f.search("def", output_mode="files_only")["files"]',
        'f.search("def", output_mode="count")["counts"]',
        'f.search("nowhere")',
        'f.search("(")',
        'f.search("x", path="nope")',
        'f.search("x", target="y")',
      ),
    ).toEqual([
      {
        total_count: 3,
        skipped_files: 1,
        matches: [
          { path: 'a.py', line: 2, content: 'def one():' },
          { path: 'lib/b.py', line: 1, content: 'def two():' },
          { path: 'lib/b.py', line: 3, content: 'def three(): pass' },
        ],
      },
      {
        total_count: 3,
        skipped_files: 1,
        matches: [{ path: 'lib/b.py', line: 1, content: 'def two():' }],
        truncated: true,
        hint: 'go on with offset=2',
      },
      [{ path: 'lib/c.ts', line: 1, content: 'function two() {}' }],
      [{ path: 'lib/b.py', line: 1, content: 'def two():', before: [], after: ['    pass'] }],
      ['a.py', 'lib/b.py'],
      { 'a.py': 1, 'lib/b.py': 2 },
      { total_count: 0, skipped_files: 1, matches: [] },
      expect.stringMatching(/^! pattern is no regular expression: .*; re\.escape\(\) makes one of plain text$/),
      '! Path not found: nope',
      '! target must be "content" or "files", not \'y\'',
    ])
  })

  it('takes alternatives in braces, of names and of paths', async () => {
    put('Dockerfile', 'def')
    put('Makefile', 'def')
    put('src/deep/x.tsx', 'def')
    put('src/y.ts', 'def')
    const globs = [
      'src/**/*.{ts,tsx}',
      '**/*.{ts,js}',
      '{Dockerfile,Makefile}',
      '{lib/{b,z}.py,Docker{file,}}',
      '*.{ts}',
    ]
    const found = await results(
      ...globs.map(glob => `f.search("def|two", file_glob="${glob}", output_mode="files_only")["files"]`),
      ...globs.map(glob => `f.search("${glob}", target="files")["files"]`),
      'f.search("def", file_glob="{,nothing}")["total_count"]',
      'f.search("{a,b}" * 40, target="files")',
    )
    const expected = [
      ['src/y.ts', 'src/deep/x.tsx'],
      ['lib/c.ts', 'src/y.ts'],
      ['Dockerfile', 'Makefile'],
      ['Dockerfile', 'lib/b.py'],
      ['lib/c.ts', 'src/y.ts'],
    ]
    const many = `! the braces of ${'{a,b}'.repeat(16)} stand for more than 100 globs: give fewer alternatives`
    expect(found).toEqual([...expected, ...expected, 0, many])
  })

  it('finds files by name', async () => {
    expect(
      await results(
        'f.search("*.py", target="files")',
        'f.search("b", target="files")["files"]',
        'f.search("lib/*.py", target="files")["files"]',
        'f.search("**/*.ts", target="files")["files"]',
        'f.search("*", target="files", limit=1)',
        '[f.write_file("new.py", ""), f.search("*.py", target="files", order="modified")["files"][0]][1]',
      ),
    ).toEqual([
      { total_count: 2, files: ['a.py', 'lib/b.py'] },
      ['image.bin', 'lib/b.py'],
      ['lib/b.py'],
      ['lib/c.ts'],
      { total_count: 4, files: ['a.py'], truncated: true, hint: 'go on with offset=1' },
      'new.py',
    ])
  })
})

describe('shell.terminal', () => {
  it('gives output and exit code, in a folder of the workspace', async () => {
    mkdirSync(path.join(work, 'sub'))
    const got = await results(
      'sh.terminal("echo out; echo err >&2; exit 3")',
      'sh.terminal("pwd", workdir="sub")["output"]',
      'sh.terminal("cat; kill -9 $$")',
      'sh.terminal("")',
      'sh.terminal("true", workdir="/etc")',
      'sh.terminal("true", timeout=-1)',
      'sh.terminal("printf \'\\\\377\'")["output"]',
      'sh.terminal("sleep 3 & echo started", timeout=50)',
    )
    expect(got).toEqual([
      { output: 'out\nerr\n', exit_code: 3, error: null },
      `${path.join(work, 'sub')}\n`,
      { output: '', exit_code: 137, error: null },
      '! command must be text that is not empty',
      `! /etc is outside of the workspace ${work}, in which these tools work; elsewhere use open()`,
      '! timeout must be more than 0 seconds, not -1',
      '\ufffd',
      { output: 'started\n', exit_code: 0, error: null },
    ])
  })

  it('ends the command and all that it started after the timeout', async () => {
    const [got, left] = await results(
      'sh.terminal("echo begun; sleep 61.5 & sleep 61.5", timeout=0.5)',
      'sh.terminal("sleep 0.2; ps -eo args | grep -c \'^sleep 61.5\'")["output"].strip()',
    )
    const words = 'the command timed out after 0.5 s and was ended, with all that it had started'
    expect(got).toEqual({ output: `begun\n\n[${words}]`, exit_code: 124, error: words })
    expect(left).toBe('0')
  })

  it('bounds output, with a note on what is left out', async () => {
    const [head, tail, size] = (await results(
      `(lambda text: [text[:5], text[-6:], len(text), text[430_000:][:0]])(sh.terminal("echo begin; head -c 5000000 /dev/zero | tr '\\\\\\\\0' x; echo; echo done!")["output"])`,
    ).then(rows => rows[0])) as [string, string, number]
    expect([head, tail]).toEqual(['begin', 'done!\n'])
    expect(size).toBeGreaterThan(1 << 20)
    expect(size).toBeLessThan((1 << 20) + 200)
  })
})
