import { expect, it } from 'vitest'
import type { TierName } from '../../../src/outcome.js'
import { sharesFor } from '../../../src/sandbox/capture.js'
import { sandboxConfig } from './config.js'
import { type Run, STREAM_MAX_BYTES } from './room.js'

const LIMITS = sandboxConfig()
/** One read of a pipe may go out beyond what is asked for. */
const STREAMED_MOST = sharesFor(LIMITS.stdoutKeptBytes, STREAM_MAX_BYTES).firstBytes + 65_536

/** What arrives of what is printed, which files are listed, and what forged frames do. */
export function output(tier: TierName, room: () => { readonly run: Run }): void {
  const run: Run = (code, options) => room().run(code, options)

  it('streams what is printed when it is printed, and exactly what the result has', async () => {
    const arrivals: number[] = []
    const report = await run('import time\nfor n in range(3):\n    print(n, "é😀", chr(0))\n    time.sleep(0.3)', {
      onStdout: () => arrivals.push(performance.now()),
    })
    expect(report.streamed).toBe(report.stdout.text)
    expect(report.stdout.text).toBe('0 é😀 ␀\n1 é😀 ␀\n2 é😀 ␀\n')
    expect(arrivals).toHaveLength(3)
    expect((arrivals[2] ?? 0) - (arrivals[0] ?? 0)).toBeGreaterThan(450)
  })

  it('makes one piece of one print', async () => {
    const pieces: string[] = []
    await run('print("a", 1, None, sep=", ", end="!\\n")', { onStdout: text => pieces.push(text) })
    expect(pieces).toEqual(['a, 1, None!\n'])
  })

  it('never breaks a character that was written in two parts', async () => {
    const report = await run(
      'import os, time\nfor byte in "é€😀".encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.01)',
    )
    expect(report.streamed).toBe('é€😀')
    expect(report.stdout.text).toBe('é€😀')
  })

  it('shows bytes that are no text, and counts them as they were written', async () => {
    const report = await run('import os\nos.write(1, b"a\\xff\\xfe\\x00b\\xc3")')
    expect(report.stdout).toEqual({ text: 'a\ufffd\ufffd␀b\ufffd', bytes_total: 6, bytes_kept: 6, truncated: false })
    expect(report.streamed).toBe(report.stdout.text)
  })

  it('draws over in both streams, and what is streamed is what is kept', async () => {
    const report = await run(
      [
        'import sys, time',
        'for stream in (sys.stdout, sys.stderr):',
        '    for n in range(2000): stream.write(f"\\r{n / 20:.0f}%|{\'█\' * 40}| {n}/2000")',
        'time.sleep(1.6)',
        'print("\\r100%\\nended")',
      ].join('\n'),
    )
    const state = `100%|${'█'.repeat(40)}| 1999/2000`
    expect(report.stdout).toMatchObject({ text: `${state}\n100%\nended\n`, truncated: false })
    expect(report.streamed).toBe(report.stdout.text)
    expect(report.stderr).toMatchObject({ text: state, truncated: false })
  })

  it.each([
    ['stdout', 1, LIMITS.stdoutKeptBytes],
    ['stderr', 2, LIMITS.stderrKeptBytes],
  ] as const)('holds a flood of %s to what is kept, and counts all of it', async (name, fd, kept) => {
    const before = process.memoryUsage().rss
    const report = await run(
      `import os\nos.write(${fd}, b"begin")\nblock = b"x" * 65536\nfor _ in range(3000): os.write(${fd}, block)\nos.write(${fd}, "€nd".encode())`,
    )
    const captured = report[name]
    expect(report.status).toBe('completed')
    expect(captured).toMatchObject({ bytes_total: 3000 * 65_536 + 10, truncated: true })
    expect(captured.bytes_kept).toBeLessThanOrEqual(kept)
    expect(captured.text.startsWith('beginxxx')).toBe(true)
    expect(captured.text.endsWith('xxx€nd')).toBe(true)
    expect(captured.text.length).toBeLessThan(kept + 100)
    expect(report.streamed.length).toBeLessThan(STREAMED_MOST)
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 1024 * 1024)
  })

  it('keeps the last output of code that floods until its time is over', async () => {
    const report = await run('while True: print("x" * 5000)', { wallMs: 300 })
    expect(report).toMatchObject({ status: 'timed_out', stdout: { truncated: true } })
  })

  it('lets code close, replace and reopen its streams', async () => {
    const report = await run(`import contextlib, io, os, sys
with contextlib.redirect_stdout(io.StringIO()) as held: print("held")
print("got", held.getvalue().strip())
with open("/dev/stdout", "w") as again: again.write("reopened\\n")
sys.stdout.buffer.write(b"raw\\n")
sys.stderr.close()
sys.stdout.close()
os.write(1, b"fd\\n")`)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'got held\nreopened\nraw\nfd\n' } })
  })

  it('lists regular files by path and size, whatever their names, and no links, pipes or folders', async () => {
    const report = await run(`import os
os.makedirs("a/b")
open("a/b/data.csv", "w").write("1,2\\n")
open("odd \\n;name.txt", "w").close()
open(b"\\xff.bin", "w").write("x")
open(".hidden", "w").close()
open("ünï.png", "w").close()
os.symlink("/etc/passwd", "link")
os.symlink("a", "folder-link")
os.mkfifo("pipe")
open("in-tmp", "w").close(); os.unlink("in-tmp")`)
    expect(report.stderr.text).toBe('')
    expect(report.files).toEqual([
      { path: '.hidden', bytes: 0, mime: 'application/octet-stream' },
      { path: '\\xff.bin', bytes: 1, mime: 'application/octet-stream' },
      { path: 'a/b/data.csv', bytes: 4, mime: 'text/csv' },
      { path: 'odd \n;name.txt', bytes: 0, mime: 'text/plain' },
      { path: 'ünï.png', bytes: 0, mime: 'image/png' },
    ])
  })

  it('lists 200 of many files and says how many more there are', async () => {
    const report = await run('for n in range(300): open(f"{n:03}", "w").close()')
    expect(report.files).toHaveLength(200)
    expect(report.files.at(-1)?.path).toBe('199')
    expect(report.notes).toEqual(['files: 100 more not listed'])
  })

  it('survives folders that are deeper than a path may be, and leaves nothing of them', async () => {
    const report = await run(`import os
open("top.txt", "w").close()
for n in range(100):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("deep.txt", "w").close()`)
    expect(report).toMatchObject({ status: 'completed', files: [{ path: 'top.txt' }] })
  })

  it('lists what is left of a workspace whose modes were taken away', async () => {
    const report = await run(
      'import os\nos.mkdir("d")\nopen("d/x", "w").close()\nopen("y", "w").close()\nos.chmod("d", 0)',
    )
    expect(report.files.map(file => file.path)).toContain('y')
  })

  it('can not be told a lie about how it ended through any descriptor', async () => {
    const report = await run(`import json, os, struct
def frame(kind, payload): return struct.pack("<Ib", len(payload), ord(kind)) + payload
end = json.dumps({"event": "end", "cause": None, "figure": None, "run_ms": 1, "files": []}).encode()
exited = json.dumps({"event": "exit", "sandbox": 1, "code": 0, "signal": None, "cpu_ms": 0, "max_rss_bytes": 0}).encode()
for fd in range(3, 64):
    for data in (frame("J", end), frame("J", exited), frame("O", b"forged"), frame("e", b"forged")):
        try: os.write(fd, data)
        except OSError: pass
os._exit(5)`)
    expect(report).toMatchObject({
      status: 'failed',
      exitCode: 5,
      stdout: { text: '' },
      stderr: { text: '' },
      files: [],
    })
  })

  it.each([
    ['garbage', 'b"\\xff" * 65536'],
    ['a length without end', 'struct.pack("<Ib", 0xffffffff, ord("V")) + b"x" * 4096'],
    ['a frame that is never finished', 'struct.pack("<Ib", 1 << 20, ord("V"))'],
    ['values without end', '(struct.pack("<Ib", 1000, ord("V")) + b"v" * 1000) * 60'],
  ])('is not hurt by %s on every descriptor', async (_, data) => {
    const report = await run(
      `import os, struct, threading, time
data = ${data}
def flood(fd):
    try:
        while True: os.write(fd, data)
    except OSError: pass
for fd in range(3, 12): threading.Thread(target=flood, args=(fd,), daemon=True).start()
time.sleep(0.4)
os._exit(5)`,
      { wallMs: 10_000 },
    )
    expect(report).toMatchObject({ status: 'failed', exitCode: 5 })
    expect(report.value?.length ?? 0).toBeLessThan(1 << 20)
    expect((await run('1 + 1')).value).toBe('2')
  })

  it('says where it runs', async () => {
    const report = await run('import os\nprint(os.getcwd().endswith("/work"), os.getuid() != 0)')
    expect(report.stdout.text).toBe('True True\n')
    const one = await run('import os\nos.getppid() == 0')
    if (tier === 'namespaces') expect(one.value).toBe('True')
  })
}
