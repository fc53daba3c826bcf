"""Runs the code as a real __main__ from a real file, and ends the process as an interpreter would."""

import _posixsubprocess
import ast
import asyncio
import atexit
import builtins
import errno
import functools
import gc
import io
import os
import signal
import subprocess
import sys
import threading
import traceback
import types
import weakref
from importlib.machinery import SourceFileLoader

from . import frames, linux

_BOM = b"\xef\xbb\xbf"
VALUE_CHARS = 50_000
_LIMITS = {errno.EFBIG: "file_size", errno.EMFILE: "open_files"}
# The code may replace what it finds in os.
_exit, _getpid, _fstat, _write, _statvfs = os._exit, os.getpid, os.fstat, os.write, os.statvfs
# Always out of room: an error of code that names it says nothing of the workspace, unless that is full at this moment.
_FULL_DEVICE = b"/dev/full"
LONG_CHAIN = 100  # of exceptions: the interpreter, which prints them by recursion, would be lost in one of a thousand
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = 0
for _name in __import__("__future__").all_feature_names:
    _FUTURES |= getattr(__import__("__future__"), _name).compiler_flag


_last_of_zygote = ""
_main_path = ""
_reporter = None


def prepare(binaries):
    """In the zygote, after its imports: all that is the same for every guest. What is done here is not done for each."""
    global _last_of_zygote
    os.environ.clear()
    os.environ.update(
        {
            "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
            "USER": "sandbox",
            "LOGNAME": "sandbox",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "PYTHONUTF8": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "MPLBACKEND": "Agg",
            # Calls run side by side: each with as many threads as there are CPUs would only make them wait for one another.
            **{f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "BLIS", "NUMEXPR")},
        }
    )
    sys.modules["tempfile"].tempdir = None
    _make_streams()
    builtins.print = _make_print()
    linux.unbuffer_c_streams()
    for module, name in _STARTERS:
        if hasattr(module, name):
            setattr(module, name, _telling(getattr(module, name)))
    # Our own modules can no longer be imported, and what comes after this name is the guest's.
    for name in [name for name in sys.modules if name.partition(".")[0] == "_sandbox"]:
        del sys.modules[name]
    _last_of_zygote = next(reversed(sys.modules))


# What starts processes and threads, under the names of the Python versions.
_STARTERS = (
    (os, "fork"),
    (os, "forkpty"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
    (_posixsubprocess, "fork_exec"),
    (subprocess, "_fork_exec"),
    (threading, "_start_new_thread"),
    (threading, "_start_joinable_thread"),
)


def _telling(start):
    """A refusal for want of processes is told to the warden, also when the code catches it."""

    @functools.wraps(start)
    def call(*args, **named):
        try:
            return start(*args, **named)
        except (OSError, RuntimeError) as error:
            if _reporter is not None:
                _reporter.limit(error, starting=True)
            raise

    return call


def settle(places):
    """Its folders: in the zygote where all guests have the same, else in the guest, before it is parked."""
    os.environ["HOME"] = places.home
    os.environ["TMPDIR"] = places.tmp
    sys.path.insert(0, places.work)
    sys.argv[:] = [f"{places.code}/main.py"]


def _make_streams():
    """On descriptors of the kind that a guest has, since each stream asks once what it is on: 0 is no terminal, 1 and 2 are
    pipes. They are put in their place for that long."""
    sys.stdout.flush()  # of what an import has printed
    sys.stderr.flush()
    kept = [os.dup(fd) for fd in (0, 1, 2)]
    far, near = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    try:
        for target, fd in enumerate((null, near, near)):
            os.dup2(fd, target)
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
        sys.stdout = sys.__stdout__ = _text_stream(1, "<stdout>")
        sys.stderr = sys.__stderr__ = _text_stream(2, "<stderr>")
    finally:
        for target, fd in enumerate(kept):
            os.dup2(fd, target)
        for fd in (*kept, far, near, null):
            os.close(fd)


def _text_stream(fd, name):
    """A raw file under a write-through text layer: nothing waits in a buffer of Python's. Half surrogates are escaped."""
    raw = io.FileIO(fd, "w", closefd=False)
    raw.name = name
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def _make_print():
    """print() that joins its arguments into one write, so that a line is not cut in two by another thread or process."""
    original = builtins.print
    text_layer = io.TextIOWrapper

    def print(*args, sep=" ", end="\n", file=None, flush=False):
        stream = sys.stdout if file is None else file
        if type(stream) is not text_layer or not stream.write_through:
            return original(*args, sep=sep, end=end, file=file, flush=flush)
        sep = " " if sep is None else sep
        end = "\n" if end is None else end
        if type(sep) is not str or type(end) is not str:
            return original(*args, sep=sep, end=end, file=file, flush=flush)  # says what is wrong with them
        stream.write(sep.join(map(str, args)) + end)
        if flush:
            stream.flush()

    print.__doc__ = original.__doc__
    print.__module__ = "builtins"
    print.__qualname__ = "print"
    return print


class Reporter:
    """The way of the last value to the warden. It is data that the code could forge; only the code's own value is at stake."""

    def __init__(self, fd, box, source):
        """fd: the pipe to the warden. box: a path on the file system whose size is the workspace's limit, or None where that
        is the machine's own. source: the code."""
        self._box = box
        self._knows_full_device = _FULL_DEVICE in source
        self._fd = fd
        self._pid = _getpid()
        self._identity = self._look()

    def _look(self):
        status = _fstat(self._fd)
        return status.st_dev, status.st_ino

    def limit(self, error, starting=False):
        """Says which limit it was that raised, in any process of the run; the code could say so as well, and would only
        mislabel itself. starting: in a call that starts a process or a thread; EAGAIN of others is about something else.
        """
        try:
            name = self._name(error, starting)
        except Exception:
            return  # an error of the code's own making, whose attributes may be anything
        if name is not None:
            self._send(frames.LIMIT, name.encode())

    def _name(self, error, starting):
        if isinstance(error, RuntimeError) and "start new thread" in str(error):
            return "processes"
        number = error.errno if isinstance(error, OSError) else None
        if type(number) is not int:
            return None
        if number == errno.EAGAIN:
            return "processes" if starting else None
        return self._full(error) if number == errno.ENOSPC else _LIMITS.get(number)

    def _full(self, error):
        """What there was no more of in the workspace. By now it may have been given back: then the error itself tells, since
        a tmpfs that is out of room still makes files, and only what makes one names it. (shutil names those that it copies.)
        """
        if self._box is None:
            return None
        free = _statvfs(self._box)
        if free.f_bfree > 0 and free.f_ffree > 0 and self._knows_full_device:
            return None
        step = error.__traceback__
        if step is None:
            return None
        while step.tb_next is not None:
            step = step.tb_next
        names_what_it_made = error.filename is not None and step.tb_frame.f_globals.get("__name__") != "shutil"
        is_files = free.f_bfree > 0 and (free.f_ffree == 0 or names_what_it_made)
        return "workspace_files" if is_files else "workspace_bytes"

    def value(self, text):
        if _getpid() != self._pid:
            return  # a forked child that fell off the end of the script
        if len(text) > VALUE_CHARS:
            head = VALUE_CHARS * 2 // 5
            left_out = len(text) - VALUE_CHARS
            text = f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - VALUE_CHARS + head:]}"
        self._send(frames.VALUE, text.encode("utf-8", "backslashreplace"))

    def _send(self, kind, payload):
        data = frames.pack(kind, payload)
        try:
            if self._look() == self._identity:
                while data:
                    data = data[_write(self._fd, data) :]
        except OSError:
            pass


def _new_main(path):
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = builtins
    module.__loader__ = SourceFileLoader("__main__", path)
    module.__annotations__ = {}
    module.__cached__ = None
    return module


def run(source, places, words):
    """Does not return."""
    path = f"{places.code}/main.py"  # written by the warden
    global _main_path, _reporter
    _main_path = path
    reporter = _reporter = Reporter(words, places.work if places.own_tree else None, source)
    module = sys.modules["__main__"] = _new_main(path)
    sys.orig_argv[:] = [sys.executable, path]
    code = 1
    interrupted = False
    try:
        value = _execute(source, path, module.__dict__)
        if value is not None:
            reporter.value(repr(value))
        del value
        code = 0
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        reporter.limit(error)
        _show_exception()
    held = [module]
    del module
    _leave(held, places)
    if interrupted:
        # As an interpreter does, so that whoever looks at the end sees an interruption and not a failure.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    _exit(code)


def rehearse(places):
    """The way of a small run, without what would change this process."""
    stream = _text_stream(2, "<stderr>")
    stream.write("")
    del stream
    module = _new_main(f"{places.code}/main.py")
    _execute(b"import sys\nsum([1])\n1 + 1", module.__file__, module.__dict__)
    alive = [weakref.ref(module)]
    del module
    _own_modules(places)
    _flush_files()
    _collect()
    return [one() for one in alive]


def _exit_code(error):
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    _write_error(f"{error.code}\n")
    return 1


def _write_error(text):
    try:
        sys.stderr.write(text)
    except Exception:
        pass  # the code closed or replaced it


def _compile(source, path):
    """(code of all but a last expression, code of that expression or None); hides the value after a semicolon."""
    # Not as "utf-8-sig": each guest would import that codec.
    text = source.removeprefix(_BOM).decode()  # as text: a coding cookie that a model left in does not turn UTF-8 into something else
    tree = compile(text, path, "exec", ast.PyCF_ONLY_AST | _AWAIT, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or _ends_with_semicolon(source, last):
        return compile(tree, path, "exec", _AWAIT, dont_inherit=True), None
    only_docstring = len(tree.body) == 1
    body = ast.Module(tree.body if only_docstring else tree.body[:-1], tree.type_ignores)
    if only_docstring and not isinstance(last.value, ast.Constant):
        body = ast.Module([], tree.type_ignores)
    first = compile(body, path, "exec", _AWAIT, dont_inherit=True)
    flags = first.co_flags & _FUTURES | _AWAIT
    return first, compile(ast.Expression(last.value), path, "eval", flags, dont_inherit=True)


def _ends_with_semicolon(source, last):
    """Whether a semicolon follows the last expression, comments aside. Columns of the tree are in bytes of UTF-8."""
    lines = source.removeprefix(_BOM).splitlines()
    rest = [lines[last.end_lineno - 1][last.end_col_offset :], *lines[last.end_lineno :]]
    return b";" in b"".join(line.partition(b"#")[0] for line in rest)


def _execute(source, path, names):
    first, last = _compile(source, path)
    coroutines = [code for code in (first, last) if code is not None and code.co_flags & 0x80]  # CO_COROUTINE
    if not coroutines:
        exec(first, names)
        return None if last is None else eval(last, names)

    async def main():
        value = None
        for code in (first, last):
            if code is not None:
                value = eval(code, names)
                if code in coroutines:
                    value = await value
        return value if last is not None else None

    return asyncio.run(main())


def _show_exception():
    """Prints the exception as the interpreter would, with the code's own frames only."""
    kind, error, _ = sys.exc_info()
    _hide_machinery(error)
    hook = sys.excepthook
    if hook is sys.__excepthook__:
        _write_error(_format(error))
        return
    try:
        hook(kind, error, error.__traceback__)
    except BaseException as broken:
        _hide_machinery(broken)
        broken.__context__ = None
        _write_error(f"Error in sys.excepthook:\n{_format(broken)}\nOriginal exception was:\n{_format(error)}")


def _format(error):
    """The interpreter's own words: only it knows the suggestions ("Did you mean"), before Python 3.12."""
    if len(_related(error)) > LONG_CHAIN:
        return "".join(traceback.format_exception(error))
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
        return sys.stderr.getvalue()
    finally:
        sys.stderr = stderr


def _hide_machinery(error):
    """Drops our own frames, here and in the exceptions behind and within this one."""
    for one in _related(error):
        try:
            one.__traceback__ = _of_the_code(one.__traceback__)
        except Exception:
            pass  # a class of the code's own, whose attributes may be anything


def _related(error):
    """An exception and those behind and within it, without recursion: code can make a chain of any length."""
    found = {}
    pending = [error]
    while pending:
        one = pending.pop()
        if not isinstance(one, BaseException) or id(one) in found:
            continue
        found[id(one)] = one
        try:
            pending += (one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ()))
        except Exception:
            pass  # as above
    return list(found.values())


def _of_the_code(trace):
    """A traceback without our own frames."""
    steps = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename[:10] != "<sandbox>/":
            steps.append(trace)
        trace = trace.tb_next
    # The first frames are those of the event loop when the code awaits at its top level.
    while steps and _is_loop(steps[0]) and any(step.tb_frame.f_code.co_filename == _main_path for step in steps):
        del steps[0]
    shown = None
    for step in reversed(steps):
        shown = types.TracebackType(shown, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return shown


def _is_loop(step):
    return step.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "asyncio"


def _leave(held, places):
    """What Py_Finalize does that code can notice, without the price of taking down every imported library.

    held: [the main module], the only reference to it besides sys.modules.
    """
    for action in (threading._shutdown, atexit._run_exitfuncs):
        try:
            action()
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)
            _write_error("".join(traceback.format_exception(error)))
    own = _own_modules(places)
    held += own.values()
    for name in ("__main__", *own):
        sys.modules[name] = None
    own.clear()
    alive = [weakref.ref(one) for one in held]
    held.clear()
    _flush_files()
    _collect()  # destructors run while the names that they use are still there
    left = [module for module in (one() for one in alive) if module is not None]
    if left:
        for module in left:
            _empty(module.__dict__)
        _collect()


def _collect():
    try:
        gc.collect()
    except BaseException:
        pass


def _flush_files():
    """What was written to a file that nobody closed: in a reference cycle its parts die in an order that loses it."""
    for one in gc.get_objects():
        if type(one) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
            try:
                one.flush()
            except BaseException:
                pass


def _own_modules(places):
    """Modules of the run's own files. Only those imported since the fork are looked at: to touch one that the zygote
    imported is to copy its page."""
    found = {}
    names = []
    try:
        for name in reversed(sys.modules):  # one by one: a list of all names would touch each of them
            if name == _last_of_zygote:
                break
            names.append(name)
    except Exception:  # a thread of the code's imports something meanwhile, or it is no dict any more
        names = list(reversed(list(sys.modules)))
    for name in names:
        other = sys.modules.get(name)
        # What is in there may be anything, and do anything when it is asked.
        file = other.__dict__.get("__file__") if type(other) is types.ModuleType else None
        if isinstance(file, str) and file.startswith(places.work + "/"):
            found[name] = other
    return found


def _empty(names):
    """Lets go of a module's names one after the other, as the interpreter's end does, so that destructors run."""
    for name in [n for n in names if n.startswith("_") and n != "__builtins__"] + [n for n in names if n != "__builtins__"]:
        try:
            names[name] = None
        except BaseException:
            pass
