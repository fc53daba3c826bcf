"""Runs the code as a real __main__ from a real file, and ends the process as an interpreter would."""

import ast
import asyncio
import atexit
import builtins
import gc
import io
import linecache
import os
import signal
import sys
import threading
import traceback
import types
from importlib.machinery import SourceFileLoader

from . import frames, linux

VALUE_CHARS = 50_000
_FOLDER = os.path.dirname(__file__) + "/"
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = 0
for _name in __import__("__future__").all_feature_names:
    _FUTURES |= getattr(__import__("__future__"), _name).compiler_flag


_last_of_zygote = ""


def hide():
    """In the zygote, after its imports: our own modules can no longer be imported, and what comes next is the guest's."""
    global _last_of_zygote
    for name in [name for name in sys.modules if name.partition(".")[0] == "_sandbox"]:
        del sys.modules[name]
    _last_of_zygote = next(reversed(sys.modules))


def prepare(places):
    """Before the sandbox is parked: environment, streams, paths."""
    binaries = os.path.dirname(sys.executable)
    environment = {
        "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
        "HOME": places.home,
        "TMPDIR": places.tmp,
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
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = _text_stream(1, "<stdout>")
    sys.stderr = sys.__stderr__ = _text_stream(2, "<stderr>")
    builtins.print = _make_print()
    linux.unbuffer_c_streams()
    sys.path.insert(0, places.work)
    sys.argv[:] = [f"{places.code}/main.py"]
    sys.modules["tempfile"].tempdir = None


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

    def __init__(self, channel):
        # A number out of the way, so that code which closes or reuses 3 does not get our frame into a file of its own.
        self._fd = os.dup(channel.socket.detach())
        os.close(3)
        self._pid = os.getpid()
        self._identity = self._look()

    def _look(self):
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino

    def value(self, text):
        if os.getpid() != self._pid:
            return  # a forked child that fell off the end of the script
        if len(text) > VALUE_CHARS:
            head = VALUE_CHARS * 2 // 5
            left_out = len(text) - VALUE_CHARS
            text = f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - VALUE_CHARS + head:]}"
        data = frames.pack(frames.VALUE, text.encode("utf-8", "backslashreplace"))
        try:
            if self._look() == self._identity:
                while data:
                    data = data[os.write(self._fd, data) :]
        except OSError:
            pass


def run(source, places, channel):
    """Does not return."""
    path = f"{places.code}/main.py"
    with open(path, "wb") as file:
        file.write(source)
    reporter = Reporter(channel)
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = builtins
    module.__loader__ = SourceFileLoader("__main__", path)
    module.__annotations__ = {}
    sys.modules["__main__"] = module
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
        _show_exception(path)
    _leave(module, places)
    if interrupted:
        # As an interpreter does, so that whoever looks at the end sees an interruption and not a failure.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


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
    text = source.decode("utf-8-sig")  # as text: a coding cookie that a model left in does not turn UTF-8 into something else
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
    lines = source.removeprefix(b"\xef\xbb\xbf").splitlines()
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


def _show_exception(path):
    """Prints the exception as the interpreter would, with the code's own frames only."""
    kind, error, trace = sys.exc_info()
    own = trace
    while own is not None and own.tb_frame.f_code.co_filename != path:
        own = own.tb_next
    if own is not None:
        error.__traceback__ = trace = own
    hook = sys.excepthook
    if hook is not sys.__excepthook__:
        try:
            hook(kind, error, trace)
            return
        except BaseException:
            pass  # a broken hook must not hide what it was called for
    linecache.checkcache(path)
    shown = traceback.TracebackException(kind, error, trace)
    _hide_machinery(shown, set())
    _write_error("".join(shown.format()))


def _hide_machinery(shown, seen):
    """Drops the frames of this folder, here and in the exceptions behind, beside and within this one."""
    if shown is None or id(shown) in seen:
        return
    seen.add(id(shown))
    frames_of_code = [frame for frame in shown.stack if not frame.filename.startswith(_FOLDER)]
    shown.stack[:] = frames_of_code
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        _hide_machinery(other, seen)


def _leave(module, places):
    """What Py_Finalize does that code can notice, without the price of taking down every imported library."""
    for action in (threading._shutdown, atexit._run_exitfuncs):
        try:
            action()
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)
            _write_error("".join(traceback.format_exception(error)))
    for other in [module, *_own_modules(places)]:
        _empty(other)
    try:
        gc.collect()  # files in reference cycles are closed, and so written
    except BaseException:
        pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass


def _own_modules(places):
    """Modules of the run's own files. Only those imported since the fork are looked at: to touch one that the zygote
    imported is to copy its page."""
    found = []
    for name in reversed(sys.modules):
        if name == _last_of_zygote:
            break
        other = sys.modules[name]
        file = getattr(other, "__file__", None)
        if isinstance(file, str) and file.startswith(places.work + "/"):
            found.append(other)
    return found


def _empty(module):
    """Lets go of a module's names one after the other, as the interpreter's end does, so that destructors run."""
    names = module.__dict__
    for name in [n for n in names if n.startswith("_") and n != "__builtins__"] + [n for n in names if n != "__builtins__"]:
        try:
            names[name] = None
        except BaseException:
            pass
