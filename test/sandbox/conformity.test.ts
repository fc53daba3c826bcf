import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readablePython } from './support/pythons.js'
import type { Ran } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'

/** Scripts whose output, errors and end must be those of the interpreter itself. */
const SCRIPTS: Readonly<Record<string, string>> = {
  'an error below several frames': 'def a():\n    b()\ndef b():\n    raise ValueError("é\\n€")\na()',
  'an error with a cause': 'try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise RuntimeError("outer") from e',
  'an error with its context hidden':
    'try:\n    1/0\nexcept ZeroDivisionError:\n    raise RuntimeError("outer") from None',
  'an error while another is handled': 'try:\n    {}["k"]\nexcept KeyError:\n    int("x")',
  'an error in a library': 'import json\njson.loads("{")',
  'an error raised by exec of code of its own': 'exec("1/0")',
  'an error with notes': 'e = ValueError("x")\ne.__notes__ = ["a note"]\nraise e',
  'an error whose text can not be made': 'class E(Exception):\n    def __str__(self): raise ValueError\nraise E',
  'an error with half a surrogate': 'raise ValueError("\\ud800")',
  'a syntax error': 'print("never")\nif x\n    pass',
  'an indentation error': 'if True:\nx = 1',
  'a mixture of tabs and blanks': 'if True:\n\tx = 1\n        y = 2',
  'an unfinished string': 'x = "abc',
  'an unfinished bracket': 'x = (1,\n',
  'return at the top': 'return 1',
  'a syntax error in code of its own': 'compile("if", "<mine>", "exec")',
  'a name that was nearly right': 'import math\nmath.sqr(2)',
  'sys.exit in a function': 'import sys\ndef f(): sys.exit(4)\nf()',
  'sys.exit with text': 'import sys\nsys.exit("bad é")',
  'sys.exit with an object': 'import sys\nsys.exit([1, 2])',
  'sys.exit with a large number': 'import sys\nsys.exit(1 << 40)',
  'sys.exit with None': 'import sys\nsys.exit(None)',
  'sys.exit in a thread':
    'import sys, threading\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start(); t.join()\nprint("on")',
  'sys.exit in atexit': 'import atexit, sys\ndef f():\n    sys.exit(3)\natexit.register(f)\nprint("main")',
  'an error in atexit': 'import atexit\ndef f(): 1/0\natexit.register(f)\natexit.register(print, "first")',
  'atexit after an error': 'import atexit\natexit.register(print, "tidy")\n1/0',
  'an exit hook of its own': 'import sys\nsys.excepthook = lambda k, e, t: print("hook", k.__name__, e)\n1/0',
  'a broken hook': 'import sys\ndef hook(*a): raise RuntimeError("hook")\nsys.excepthook = hook\n1/0',
  'no stderr': 'import sys\nsys.stderr = None\n1/0',
  'no stdout': 'import sys\nsys.stdout = None\nprint("nowhere")',
  'a closed stdout': 'import sys\nsys.stdout.close()',
  'print to a closed stdout': 'import sys\nsys.stdout.close()\nprint("x")',
  'print with wrong arguments': 'print("x", sep=1)',
  'print with an object that fails': 'class A:\n    def __str__(self): raise ValueError("no")\nprint(A())',
  'print to a file of its own':
    'import io\nf = io.StringIO()\nprint("x", 1, file=f, end="")\nprint(repr(f.getvalue()))',
  'print of a surrogate, escaped': 'print(ascii("\\ud800"))',
  'write without a newline': 'import sys\nsys.stdout.write("abc")\nsys.stderr.write("def")',
  'lines to both': 'import sys\nfor n in range(3):\n    print(n)\n    print(n, file=sys.stderr)',
  'a warning': 'import warnings\nwarnings.warn("careful")',
  'a warning of the compiler': 'x = 1\nif x is 1: print("same")',
  'a deprecated escape': 'print("\\d")',
  'an error in a thread': 'import threading\nt = threading.Thread(target=lambda: 1/0, name="T")\nt.start(); t.join()',
  'an error in a destructor': 'class A:\n    def __del__(self): 1/0\na = A()\ndel a',
  'an error in a task': 'import asyncio\nasync def f(): 1/0\nasyncio.run(f())',
  'a coroutine that nobody awaits': 'async def f(): pass\nf()\nprint("end")',
  'the dunders of a script':
    'print(__name__, __doc__, __package__, __spec__, type(__loader__).__name__, __builtins__.__name__, __annotations__ if False else "")',
  'names of the module': 'print(sorted(n for n in globals() if n != "__annotations__"))',
  annotations: 'x: int = 1\nprint(__annotations__)',
  'doc of the module': '"""The doc."""\nprint(__doc__)',
  'flags of sys':
    'import sys\nprint(sys.flags.utf8_mode or 1, sys.stdin.encoding, sys.stdout.encoding, sys.stderr.errors, len(sys.argv))',
  'classes of the streams':
    'import sys\nprint(type(sys.stdin).__name__, type(sys.stdout).__name__, sys.stdout.name, sys.stdout.fileno(), sys.stdout.isatty())',
  'typing and dataclasses':
    'from dataclasses import dataclass, field\nfrom typing import get_type_hints\n@dataclass\nclass A:\n    x: "int" = 1\n    y: list = field(default_factory=list)\nprint(A(), get_type_hints(A))',
  'a pickled class of its own':
    'import pickle\nclass A:\n    def __reduce__(self): return (A, ())\nprint(type(pickle.loads(pickle.dumps(A()))) is A)',
  'traceback.print_exc': 'import traceback\ntry:\n    1/0\nexcept ZeroDivisionError:\n    traceback.print_exc()',
  'logging to stderr': 'import logging\nlogging.warning("x %s", 1)',
  'unittest.main':
    'import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertTrue(True)\nunittest.main(argv=["x"], exit=False, verbosity=0, testRunner=unittest.TextTestRunner(stream=open("/dev/null", "w")))\nprint("ran")',
  doctest: 'import doctest\ndef f():\n    """\n    >>> f()\n    1\n    """\n    return 1\nprint(doctest.testmod())',
  argparse:
    'import argparse\np = argparse.ArgumentParser(prog="p")\np.add_argument("--x", default=1)\nprint(p.parse_args())',
  'an argument that is missing':
    'import argparse\np = argparse.ArgumentParser(prog="p")\np.add_argument("x")\np.parse_args()',
  'end of file on input': 'input("name: ")',
  'stdin is empty': 'import sys\nprint(repr(sys.stdin.read()))',
  'signals with their usual handlers':
    'import signal\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGCHLD))',
  'no alarm and no wakeup': 'import signal\nprint(signal.getitimer(signal.ITIMER_REAL), signal.set_wakeup_fd(-1))',
  'dying of SIGTERM': 'import os, signal\nprint("x", flush=True)\nos.kill(os.getpid(), signal.SIGTERM)',
  'threads at the start':
    'import threading\nprint(threading.enumerate(), threading.current_thread() is threading.main_thread())',
  'the collector is on': 'import gc\nprint(gc.isenabled(), gc.get_threshold())',
  'descriptors of a fresh process': 'import os\nprint([fd for fd in range(3) if os.fstat(fd)])',
  'a name deleted that is used later': 'del __builtins__\nprint(len("abc"))',
  'main replaced': 'import sys\nsys.modules["__main__"] = None\nprint("x")',
  'an endless generator left open':
    'def g():\n    try:\n        yield 1\n    finally:\n        print("closed")\nit = g()\nnext(it)',
  'destructors of names in order':
    'class A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print("del", self.n)\na = A(1)\nb = A(2)\n_c = A(3)',
  'a destructor that uses a module': 'import os\nclass A:\n    def __del__(self): print(os.getcwd() != "")\na = A()',
  'a cycle with a destructor': 'class A:\n    def __del__(self): print("del")\na = A()\na.a = a',
  'weakref.finalize': 'import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, "finalized")',
  'a pool of threads that is not shut down':
    'from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(2)\np.submit(print, "worked")',
  'tempfile that is not closed':
    'import tempfile\nf = tempfile.NamedTemporaryFile()\nd = tempfile.TemporaryDirectory()\nprint("x")',
}

const HERE = mkdtempSync('/tmp/conform-')

/** What python3 itself makes of the script, from a file of the same name. */
function reference(code: string) {
  const file = join(HERE, 'main.py')
  writeFileSync(file, code)
  const ended = spawnSync(readablePython(), ['-s', '-B', file], {
    cwd: HERE,
    encoding: 'utf8',
    input: '',
    env: { PATH: '/usr/bin:/bin', HOME: HERE, LANG: 'C.UTF-8', PYTHONUTF8: '1', PYTHONUNBUFFERED: '1' },
  })
  return { stdout: plain(ended.stdout), stderr: plain(ended.stderr), code: ended.status, signal: ended.signal }
}

const ours = (report: Ran) => ({
  stdout: plain(report.stdout.text),
  stderr: plain(report.stderr.text),
  code: report.exitCode,
  signal: report.signal,
  // Of a run that was ended from outside, what ended it.
  ...(report.reason === null || report.reason === undefined ? {} : { reason: report.reason }),
})

/** Without what differs from one process to another: folders and addresses. */
const plain = (text: string): string =>
  text
    .replaceAll(/"[^"\n]*\/main\.py"/g, '"main.py"')
    .replaceAll(/0x[0-9a-f]{6,}/g, '0x…')
    .replaceAll(/\b\d{9,}\b/g, '…')
    .replaceAll(/[^\s"']*\/main\.py/g, 'main.py')

describe('code that runs as the interpreter itself would run it', () => {
  const room = sharedRoom({ tier: 'namespaces' })

  it.each(Object.keys(SCRIPTS))('%s', async name => {
    const code = `${SCRIPTS[name]}\nNone` // no value to show
    expect(ours(await room().run(code))).toEqual(reference(code))
  })

  it('has left nothing beside the script', () => rmSync(HERE, { recursive: true, force: true }))
})
