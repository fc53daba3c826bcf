import { expect, it } from 'vitest'
import type { TierName } from '../../../src/outcome.js'
import { sandboxConfig } from './config.js'
import { cancelAfter, type Run } from './room.js'

const LIMITS = sandboxConfig()
const MIB = 1024 * 1024

/** How runs end, and how each end is named. `run` is asked for when a test runs, not when it is declared. */
export function endings(tier: TierName, room: () => { readonly run: Run }): void {
  const run: Run = (code, options) => room().run(code, options)
  const namespaces = tier === 'namespaces'

  it.each([
    ['pass', 0],
    ['raise SystemExit', 0],
    ['import sys; sys.exit(0)', 0],
    ['import sys; sys.exit(3)', 3],
    ['import sys; sys.exit(257)', 1],
    ['import sys; sys.exit(-1)', 255],
    ['import sys; sys.exit("why")', 1],
    ['import os; os._exit(7)', 7],
    ['1/0', 1],
    ['this is no Python', 1],
    ['import threading; threading.Thread(target=lambda: 1/0).start()', 0],
    ['import atexit; atexit.register(lambda: 1/0)', 0],
  ])('%j ends with code %i', async (code, exitCode) => {
    const report = await run(code)
    expect(report).toMatchObject({
      status: exitCode === 0 ? 'completed' : 'failed',
      exitCode,
      signal: null,
      limit: null,
      reason: null,
      started: true,
    })
  })

  it.each([
    ['os.kill(os.getpid(), signal.SIGSEGV)', 'SIGSEGV'],
    ['os.kill(os.getpid(), signal.SIGTERM)', 'SIGTERM'],
    ['os.kill(os.getpid(), signal.SIGKILL)', 'SIGKILL'],
    ['os.abort()', 'SIGABRT'],
    ['raise KeyboardInterrupt', 'SIGINT'],
    ['ctypes.string_at(0)', 'SIGSEGV'],
  ])('%s crashes with %s, and what was printed before is kept', async (code, signal) => {
    const report = await run(`import os, signal, ctypes\nprint("before")\n${code}`)
    expect(report).toMatchObject({ status: 'crashed', exitCode: null, signal, limit: null })
    expect(report.stdout.text).toBe('before\n')
  })

  it('ends code that sleeps past the wall limit, keeps its output and says how long it ran', async () => {
    const report = await run('print("before", end="")\nimport time\ntime.sleep(60)', { wallMs: 300 })
    expect(report).toMatchObject({ status: 'timed_out', exitCode: null, signal: null, stdout: { text: 'before' } })
    expect(report.limit).toMatchObject({ name: 'wall', value: 300, unit: 'ms' })
    expect(report.limit?.peak).toBeGreaterThanOrEqual(300)
    expect(report.limit?.peak).toBeLessThan(2_000)
  })

  it('ends code that handles every signal and every exception at the wall limit', async () => {
    const report = await run(
      `import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
while True:
    try:
        while True: pass
    except BaseException:
        pass`,
      { wallMs: 300 },
    )
    expect(report.status).toBe('timed_out')
  })

  it('ends code that waits first and takes too much memory then', async () => {
    const { status, limit } = await run('import time\ntime.sleep(0.3)\nx = b"x" * (1 << 30)\ntime.sleep(20)')
    expect({ status, name: limit?.name }).toEqual({ status: 'out_of_memory', name: 'memory' })
  })

  it('ends code over the memory limit and names the peak', async () => {
    const report = await run('print("before")\nx = b"x" * (1 << 30)')
    expect(report).toMatchObject({ status: 'out_of_memory', stdout: { text: 'before\n' } })
    expect(report.limit).toMatchObject({ name: 'memory', value: LIMITS.memoryBytes, unit: 'bytes' })
    expect(report.limit?.peak).toBeGreaterThan(LIMITS.memoryBytes)
  })

  it('leaves code below the memory limit alone and says what it used', async () => {
    const report = await run(`x = b"x" * (100 << 20)\nimport time\ntime.sleep(0.1)`)
    expect(report.status).toBe('completed')
    expect(report.usage.max_rss_bytes).toBeGreaterThan(99 * MIB)
    expect(report.usage.max_rss_bytes).toBeLessThan(140 * MIB)
  })

  it('ends code over the CPU limit', async () => {
    const report = await run('while True: pass')
    expect(report.status).toBe('limit_exceeded')
    expect(report.limit).toMatchObject({ name: 'cpu', value: LIMITS.cpuMs, unit: 'ms' })
    expect(report.limit?.peak).toBeGreaterThanOrEqual(LIMITS.cpuMs ?? 0)
    expect(report.usage.cpu_ms).toBeGreaterThan(1_500)
  })

  it('holds threads to the limit of processes, whether it ends the code or raises in it', async () => {
    const report = await run(`import threading, time
for n in range(40):
    threading.Thread(target=time.sleep, args=(0.3,), daemon=True).start()
time.sleep(0.3)
print("got through")`)
    expect(report.stdout.text).not.toContain('got through')
    if (report.status === 'failed') expect(report.stderr.text).toContain("can't start new thread")
    else expect(report).toMatchObject({ status: 'limit_exceeded', limit: { name: 'processes', unit: 'processes' } })
  })

  it('holds the workspace to its bytes', async () => {
    const report = await run(`import time
for n in range(60):
    with open(f"{n}.bin", "wb") as file:
        file.write(b"x" * (1 << 20))
    time.sleep(0.01)
print("got through")`)
    expect(report).toMatchObject({ status: namespaces ? 'failed' : 'limit_exceeded', stdout: { text: '' } })
    expect(report.limit).toMatchObject({ name: 'workspace_bytes', value: LIMITS.workspaceBytes, unit: 'bytes' })
    expect(report.limit?.peak).toBeGreaterThan(LIMITS.workspaceBytes * 0.9)
    if (namespaces) expect(report.stderr.text).toContain('[Errno 28]')
  })

  it('holds the workspace to its number of files', async () => {
    const report = await run(`import time
for n in range(800):
    open(str(n), "w").close()
    if n % 40 == 0: time.sleep(0.02)
time.sleep(0.5)
print("got through")`)
    expect(report).toMatchObject({ status: namespaces ? 'failed' : 'limit_exceeded', stdout: { text: '' } })
    expect(report.limit).toMatchObject({ name: 'workspace_files', value: LIMITS.workspaceFiles, unit: 'files' })
    if (namespaces) expect(report.stderr.text).toContain('[Errno 28]')
  })

  it('holds a file to its size without ending the code', async () => {
    const report = await run(`try:
    with open("big", "wb") as file:
        for _ in range(10): file.write(b"x" * (1 << 20))
except OSError as error:
    print(error.errno)`)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: '27\n' } })
  })

  it.each([
    ['a pipe with nothing in it', 'import os\nr, w = os.pipe()\nos.set_blocking(r, False)\nos.read(r, 1)'],
    [
      'a lock that is taken',
      'import fcntl\na, b = open("lock", "w"), open("lock", "w")\nfcntl.flock(a, 2)\nfcntl.flock(b, 2 | fcntl.LOCK_NB)',
    ],
    ['the device that is always full', 'with open("/dev/full", "w") as file: file.write("x")'],
    ['an errno that is no number', 'raise OSError([28], "why")'],
  ])('names no limit for an error about %s', async (_, code) => {
    const report = await run(code)
    expect(report).toMatchObject({ status: 'failed', limit: null })
    expect(report.stderr.text).toMatch(/Error: \[Errno/)
  })

  it('names no limit for a file that is just as long as one may be', async () => {
    const report = await run(`with open("big", "wb") as file: file.write(bytes(${LIMITS.fileBytes}))`)
    expect(report).toMatchObject({ status: 'completed', limit: null })
  })

  it('still names the limit of processes where the code lives with it', async () => {
    const code =
      'import threading, time\ntry:\n    for _ in range(40): threading.Thread(target=time.sleep, args=(0.3,)).start()\nexcept RuntimeError: print("caught")'
    const report = await run(code)
    expect(report.limit?.name).toBe('processes')
  })

  it('shows the end of a chain of a thousand exceptions', async () => {
    const report = await run(
      'def f():\n    try: f()\n    except Exception as error: raise ValueError("why") from error\nf()',
    )
    expect(report).toMatchObject({ status: 'failed', exitCode: 1 })
    expect(report.stderr.text).toMatch(/ValueError: why\n$/)
    expect(report.stderr.text).not.toContain('<sandbox>')
  })

  it('shows an exception whose attributes raise', async () => {
    const report = await run(
      'class Odd(OSError):\n    errno = exceptions = property(lambda self: 1 / 0)\nraise Odd("why")',
    )
    expect(report).toMatchObject({ status: 'failed', limit: null })
    expect(report.stderr.text).toMatch(/Odd: why\n$/)
  })

  it('counts a file with several names once', async () => {
    const report = await run(`import os, time
with open("a", "wb") as file:
    for _ in range(6): file.write(bytes(1 << 20))
for n in range(4): os.link("a", f"b{n}")
time.sleep(0.4)
print("all there")`)
    expect(report).toMatchObject({ status: 'completed', limit: null, stdout: { text: 'all there\n' } })
  })

  it('holds open files to their number without ending the code', async () => {
    const report = await run(`held = []
try:
    for _ in range(100): held.append(open("/dev/null"))
except OSError as error:
    print(error.errno, len(held) < 64)`)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: '24 True\n' } })
  })

  it('cancels with KeyboardInterrupt, keeps the output and gives the reason', async () => {
    const report = await cancelAfter(
      run,
      'import time\ntry:\n    print("waiting")\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print("tidied up")',
      'waiting',
      'the user pressed stop',
    )
    expect(report).toMatchObject({
      status: 'cancelled',
      reason: 'the user pressed stop',
      started: true,
      limit: null,
      stdout: { text: 'waiting\ntidied up\n' },
    })
  })

  it('kills code that does not hear the cancel half a second later', async () => {
    const before = performance.now()
    const report = await cancelAfter(
      run,
      'import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint("deaf")\ntime.sleep(60)',
      'deaf',
      'stop',
    )
    expect(report).toMatchObject({ status: 'cancelled', reason: 'stop', stdout: { text: 'deaf\n' } })
    expect(performance.now() - before).toBeGreaterThan(450)
    expect(performance.now() - before).toBeLessThan(5_000)
  })

  it('runs nothing of a call that was cancelled before', async () => {
    const report = await run('print("ran")', { signal: AbortSignal.abort('no longer wanted') })
    expect(report).toMatchObject({
      status: 'cancelled',
      reason: 'no longer wanted',
      started: false,
      stdout: { text: '', bytes_total: 0 },
    })
  })

  it('starts parked code at once and measures what it used', async () => {
    await run('pass')
    const report = await run('import time\ntime.sleep(0.2)\nsum(range(3_000_000))')
    expect(report.usage.start_ms).toBeLessThan(1_000)
    expect(report.usage.run_ms).toBeGreaterThanOrEqual(200)
    expect(report.usage.cpu_ms).toBeGreaterThan(10)
    expect(report.usage.cpu_ms).toBeLessThan(report.usage.run_ms)
  })
}
