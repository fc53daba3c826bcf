import { expect, it } from 'vitest'
import type { Run } from './room.js'

/** What people expect of Python: the value of the last expression, a real __main__, and an end as an interpreter's. */
export function language(room: () => { readonly run: Run }): void {
  const run: Run = (code, options) => room().run(code, options)

  it.each([
    ['1 + 1', '2'],
    ['1 + 1;', null],
    ['1 + 1 ;  # quiet', null],
    ['1 + 1  # a comment; with a semicolon', '2'],
    ['1 + 1\n# the end;', '2'],
    ['1 + 1;\n\n# the end', null],
    ['x = 1; x', '1'],
    ['"a;b"', "'a;b'"],
    ['"a#b";', null],
    ['"a;b" # ;', "'a;b'"],
    ['"""a;\n# b;\n"""', "'a;\\n# b;\\n'"],
    ['f"{1};"', "'1;'"],
    ['(1,\n 2,  # ;\n)', '(1, 2)'],
    ['"é€😀;"; 2', '2'],
    ['"é€😀"', "'é€😀'"],
    ['"é€😀";', null],
    ['(y := 5)', '5'],
    ['5 if True else 6', '5'],
    ['lambda: 1;', null],
    ['(n * n for n in range(3))', expect.stringMatching(/^<generator object <genexpr>/)],
    ['[n * n for n in range(3)]', '[0, 1, 4]'],
    ['print("x")', null],
    ['None', null],
    ['x = 1', null],
    ['def f():\n    return 1', null],
    ['def twice(f): return lambda: 2 * f()\n@twice\ndef f(): return 21\nf()', '42'],
    ['class A:\n    "doc"', null],
    ['if True:\n    1', null],
    ['"the only statement"', "'the only statement'"],
    ['"doc"\n__doc__', "'doc'"],
    ['', null],
    ['\n\n# nothing\n', null],
    ['\ufeff1 + 1', '2'],
    ['1 + 1\r\n', '2'],
    ['# -*- coding: latin-1 -*-\n"é"', "'é'"],
    ['from __future__ import annotations\ndef f(a: nowhere): pass\nf.__annotations__', "{'a': 'nowhere'}"],
    ['x = "\\ud800"; x', "'\\ud800'"],
    ['chr(0)', "'\\x00'"],
    ['type("T", (), {"__repr__": lambda s: chr(0) + chr(0xd800)})()', '␀\\ud800'],
    ['import asyncio\nawait asyncio.sleep(0, "done")', "'done'"],
    ['import asyncio\nawait asyncio.sleep(0, "done");', null],
    ['async def g():\n    yield 1\n    yield 2\n[i async for i in g()]', '[1, 2]'],
    ['async def f(): return 3\nx = await f()\nx + 1', '4'],
    ['import asyncio\nasync def f(): return 3\nasyncio.run(f())', '3'],
  ])('%j has the value %j', async (code, value) => {
    const report = await run(code)
    expect(report.stderr.text).toBe('')
    expect(report).toMatchObject({ status: 'completed', value })
  })

  it('says so when the value has no repr, and completes', async () => {
    const report = await run('class A:\n    def __repr__(self): raise ValueError("no repr")\nA()')
    expect(report).toMatchObject({ status: 'completed', exitCode: 0, value: null, stderr: { text: '' } })
    expect(report.shown.leftOut).toEqual([
      { name: 'the last value', reason: 'could not be shown: ValueError: no repr' },
    ])
  })

  it('keeps both ends of a value that is too long', async () => {
    const { value } = await run('"a" * 100_000 + "z"')
    expect(value?.length).toBeLessThan(51_000)
    expect(value?.startsWith("'aaa")).toBe(true)
    expect(value?.endsWith("aaaz'")).toBe(true)
  })

  it('shows an error with the frames and the lines of the code alone', async () => {
    const report = await run('def inner():\n    return 1 / 0  # here\n\ninner()')
    expect(report.stderr.text).toMatch(
      /^Traceback \(most recent call last\):\n {2}File "[^"]*main\.py", line 4, in <module>/,
    )
    expect(report.stderr.text).toContain('return 1 / 0  # here')
    expect(report.stderr.text.match(/File "/g)).toHaveLength(2)
    expect(report.stderr.text).toMatch(/ZeroDivisionError: division by zero\n$/)
  })

  it('shows a syntax error with its line and nothing of ours', async () => {
    const report = await run('x = 1\nif x\n    pass')
    expect(report.stderr.text).toMatch(
      /^ {2}File "[^"]*main\.py", line 2\n {4}if x\n[\s\S]*SyntaxError: expected ':'\n$/,
    )
  })

  it('shows both errors of a chain, without our frames', async () => {
    const report = await run('try:\n    {}["k"]\nexcept KeyError:\n    int("x")')
    expect(report.stderr.text).toContain('During handling of the above exception')
    expect(report.stderr.text.match(/File "/g)).toHaveLength(2)
  })

  it('is a real __main__ from a real file', async () => {
    const report = await run(`import dataclasses, inspect, pickle, sys, os
@dataclasses.dataclass
class Point:
    x: int
def f():
    return "source"
print(__name__, os.path.exists(__file__), sys.argv == [__file__], "__annotations__" in globals() or True)
print(pickle.loads(pickle.dumps(Point(3))), pickle.loads(pickle.dumps(f)) is f)
print(inspect.getsource(f).strip().splitlines()[1].strip())
print(inspect.getmodule(f) is sys.modules["__main__"])`)
    expect(report.stderr.text).toBe('')
    expect(report.stdout.text).toBe('__main__ True True True\nPoint(x=3) True\nreturn "source"\nTrue\n')
  })

  it('ends as an interpreter: threads first, then atexit last in first out, then destructors', async () => {
    const report = await run(`import atexit, threading, time
class Loud:
    def __del__(self): print("destructor")
loud = Loud()
atexit.register(print, "registered first")
atexit.register(print, "registered last")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
print("main")`)
    expect(report.stdout.text).toBe('main\nthread\nregistered last\nregistered first\ndestructor\n')
  })

  it('does not wait for daemon threads', async () => {
    const report = await run(
      'import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint("end")',
    )
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'end\n' } })
    expect(report.usage.run_ms).toBeLessThan(5_000)
  })

  it.each(['f', 'f = [f]; f.append(f)', 'def g(f=f): return g', 'import sys; sys.kept = f'])(
    'writes out a file that nobody closed: %s',
    async keep => {
      const report = await run(`f = open("out.txt", "w")\nf.write("kept")\n${keep}\nNone`)
      expect(report.files).toEqual([{ path: 'out.txt', bytes: 4, mime: 'text/plain' }])
    },
  )

  it('gives input() an end of file at once', async () => {
    const report = await run('try:\n    input("name? ")\nexcept EOFError:\n    print("no one")')
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'name? no one\n' } })
  })

  it('has other random numbers in every run', async () => {
    const code = 'import random, uuid, os\nprint(random.random(), uuid.uuid4(), os.urandom(4).hex(), hash("x") != 0)'
    const lines = await Promise.all([run(code), run(code), run(code)])
    expect(new Set(lines.map(report => report.stdout.text)).size).toBe(3)
  })

  it('shares nothing between two runs', async () => {
    const look = `import json, os, tempfile
print(hasattr(json, "leak"), os.listdir("."), os.listdir(os.path.expanduser("~")), os.listdir(tempfile.gettempdir()))`
    const before = await run(look)
    await run('import json, tempfile\njson.leak = 1\nopen("left.txt", "w").write("x")\ntempfile.mkstemp()')
    const after = await run(look)
    expect(after.stdout.text).toMatch(/^False \[\] \[\] /)
    expect(after.stdout.text).toBe(before.stdout.text)
  })

  it('sees nothing of the environment of the worker', async () => {
    process.env['A_SECRET_OF_THE_WORKER'] = 'hidden'
    const report = await run('import os\nprint(sorted(os.environ))\nprint("hidden" in str(os.environ))')
    delete process.env['A_SECRET_OF_THE_WORKER']
    expect(report.stdout.text).toContain('False')
    expect(report.stdout.text).toContain("'HOME'")
  })

  it('has no module of ours and a clean sys.path', async () => {
    const report = await run(
      'import sys\nprint([m for m in sys.modules if "_sandbox" in m], sys.path[0] == __import__("os").getcwd())',
    )
    expect(report.stdout.text).toBe('[] True\n')
  })

  it('imports a module that the code has just written', async () => {
    const report = await run('open("made.py", "w").write("x = 41")\nimport made\nmade.x + 1')
    expect(report.value).toBe('42')
  })
}

/** What needs processes of its own, so the namespaces tier alone. */
export function children(room: () => { readonly run: Run }): void {
  const run: Run = (code, options) => room().run(code, options)

  it.each(['fork', 'spawn'])('runs multiprocessing with %s', async method => {
    const report = await run(`import multiprocessing as mp
def double(n): return 2 * n
if __name__ == "__main__":
    with mp.get_context("${method}").Pool(2) as pool:
        print(pool.map(double, [1, 2, 3]))`)
    expect(report.stderr.text).toBe('')
    expect(report.stdout.text).toBe('[2, 4, 6]\n')
  })

  it('keeps the order of lines between the code, its children and C', async () => {
    const report = await run(`import os, subprocess, ctypes
print("one")
subprocess.run(["sh", "-c", "echo two; echo oops >&2"])
ctypes.CDLL(None).puts(b"three")
os.system("echo four")
print("five")`)
    expect(report.stdout.text).toBe('one\ntwo\nthree\nfour\nfive\n')
    expect(report.stderr.text).toBe('oops\n')
  })

  it('ends well whatever the code has put among the modules', async () => {
    const report = await run(`import sys
class Lazy:
    def __getattr__(self, name):
        import wave
        raise ImportError(name)
for n in range(3): sys.modules[f"lazy{n}"] = Lazy()
print("done")`)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'done\n' }, stderr: { text: '' } })
  })

  it('takes the value and the end from the parent when a forked child runs off the end too', async () => {
    const report = await run('import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint("end")\n"value"')
    expect(report).toMatchObject({ status: 'completed', value: "'value'", stdout: { text: 'end\nend\n' } })
  })

  it('ends what the code left running, without waiting for it, and keeps what it wrote', async () => {
    const report = await run(`import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "print('child', flush=True); import time; time.sleep(60)"], start_new_session=True)
time.sleep(0.7)
print("main ends")`)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'child\nmain ends\n' } })
    expect(report.usage.run_ms).toBeLessThan(5_000)
  })

  it('counts the memory of a child for which its parent only waits', async () => {
    const report = await run(`import os, time
if os.fork() == 0:
    time.sleep(0.4)
    x = b"x" * (1 << 30)
    time.sleep(20)
os.wait()`)
    expect(report).toMatchObject({ status: 'out_of_memory', limit: { name: 'memory' } })
  })

  it('counts the memory of all processes together', async () => {
    const report = await run(`import os, time
for _ in range(4):
    if os.fork() == 0:
        x = b"x" * (60 << 20)
        time.sleep(60)
time.sleep(60)`)
    expect(report).toMatchObject({ status: 'out_of_memory', limit: { name: 'memory' } })
  })

  it('counts what processes share since their fork once, however long it takes to tell', async () => {
    // Many small mappings, so that telling takes longer than a look.
    const report = await run(`import mmap, os, time
block = bytearray(70 << 20)
for n in range(0, len(block), 4096): block[n] = 1
pieces = mmap.mmap(-1, 14000 << 12, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for n in range(0, 14000, 2): pieces.madvise(mmap.MADV_DONTDUMP, n << 12, 4096)
for _ in range(14):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
time.sleep(1.3)
print("shared")`)
    expect(report).toMatchObject({ status: 'completed', limit: null, stdout: { text: 'shared\n' } })
  })

  it('counts the CPU of all processes together', async () => {
    const report = await run('import os\nos.fork()\nos.fork()\nwhile True: pass')
    expect(report).toMatchObject({ status: 'limit_exceeded', limit: { name: 'cpu' } })
  })

  it('survives a fork bomb', async () => {
    const report = await run('import os\nwhile True:\n    try: os.fork()\n    except OSError: pass', { wallMs: 500 })
    expect(['timed_out', 'limit_exceeded']).toContain(report.status)
    expect((await run('1 + 1')).value).toBe('2')
  })
}
