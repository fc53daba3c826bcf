import { expect, it } from 'vitest'
import type { TierName } from '../../../src/outcome.js'
import type { Run } from './room.js'

/** Code that breaks what our own code in its process uses: it gets its own end, in time, and hurts no other run. */
export function robustness(tier: TierName, room: () => { readonly run: Run }): void {
  const run: Run = (code, options) => room().run(code, options)

  it.each([
    ['takes os._exit away', 'import os\nos._exit = lambda code: None'],
    ['breaks os.write and os.getpid', 'import os\nos.write = os.getpid = os.fstat = None'],
    ['empties sys.modules', 'import sys\nsys.modules.clear()'],
    ['breaks the collector', 'import gc\ngc.collect = None'],
    ['closes every descriptor', 'import os\nos.closerange(0, 256)'],
    ['makes names that can not be taken away', 'class D(dict): pass\nglobals()["x"] = D()\n__builtins__ = {}'],
    ['traces and profiles', 'import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)'],
    ['replaces its streams by something else', 'import sys\nsys.stdout = sys.stderr = object()'],
    ['raises in a destructor at the end', 'class A:\n    def __del__(self): raise SystemExit(9)\na = A()'],
    [
      'starts a thread at the end',
      'import atexit, threading\natexit.register(lambda: threading.Thread(target=print).start())',
    ],
  ])('completes when it %s', async (_, code) => {
    const report = await run(`${code}\nNone`, { wallMs: 5_000 })
    expect(report).toMatchObject({ status: 'completed', exitCode: 0 })
    expect(report.stderr.text).not.toContain('_sandbox')
    expect(report.stderr.text).not.toContain('/sandbox/python/')
  })

  it.each([
    ['a thread that is never over', 'import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()'],
    ['atexit without end', 'import atexit, time\natexit.register(time.sleep, 60)'],
    ['a destructor without end', 'import time\nclass A:\n    def __del__(self): time.sleep(60)\na = A()'],
    ['a repr without end', 'class A:\n    def __repr__(self):\n        while True: pass\nA()'],
    ['stopping itself', 'import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)'],
    ['a C call that holds the lock', 'import ctypes\nctypes.PyDLL(None).sleep(60)'],
    ['a regular expression that explodes', 'import re\nre.match(r"(a+)+$", "a" * 60 + "b")'],
  ])('is ended at the wall limit with %s', async (_, code) => {
    const report = await run(`print("begun")\n${code}`, { wallMs: 400 })
    expect(report).toMatchObject({ status: 'timed_out', stdout: { text: 'begun\n' } })
  })

  it('keeps the lines of threads whole', async () => {
    const report = await run(`import threading
def work(n):
    for i in range(50): print("thread", n, "line", i)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()`)
    const lines = report.stdout.text.trimEnd().split('\n')
    expect(lines).toHaveLength(400)
    expect(lines.filter(line => !/^thread \d line \d+$/.test(line))).toEqual([])
  })

  it('runs code of a mebibyte', async () => {
    expect((await run(`${'# padding of a long comment\n'.repeat(38_000)}1 + 1`)).value).toBe('2')
  })

  it('shows a traceback of a source with wide characters', async () => {
    const report = await run('s = "é€😀"; t = s + 1')
    expect(report.stderr.text).toContain('s = "é€😀"; t = s + 1')
  })

  it('signals nobody outside', async () => {
    const report = await run(`import os, signal
def attempt(pid):
    try: os.kill(pid, signal.SIGKILL)
    except OSError as error: return type(error).__name__
for pid in (1, os.getppid(), ${process.pid}, ${process.ppid}):
    if pid > 0: attempt(pid)
print("alive")`)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'alive\n' } })
  })

  it('can not raise its limits again', async () => {
    const report = await run(`import resource
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
    try: resource.setrlimit(kind, (1 << 30, 1 << 30)); print("raised")
    except (OSError, ValueError): print("held")`)
    expect(report.stdout.text).toBe('held\nheld\n')
  })

  if (tier === 'landlock') {
    it('says that there are no processes in a way that the code can handle', async () => {
      const report = await run(`import os, subprocess
for start in (os.fork, lambda: subprocess.run(["true"]), lambda: os.system("true")):
    try: print(start())
    except OSError as error: print(type(error).__name__)`)
      expect(report.status).toBe('completed')
      expect(report.stdout.text.split('\n').slice(0, 2)).toEqual(['PermissionError', 'PermissionError'])
    })
  }
}
