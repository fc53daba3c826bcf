"""Runs the code as a real __main__ from a real file, and ends the process as an interpreter would."""

import ast
import asyncio
import atexit
import builtins
import gc
import io
import linecache
import os
import sys
import threading
import traceback
import types
from importlib.machinery import SourceFileLoader

from . import frames, linux

VALUE_CHARS = 50_000
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = 0
for _name in __import__("__future__").all_feature_names:
    _FUTURES |= getattr(__import__("__future__"), _name).compiler_flag


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
    for name in [name for name in sys.modules if name.partition(".")[0] == "_sandbox"]:
        del sys.modules[name]


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
    try:
        value = _execute(source, path, module.__dict__)
        if value is not None:
            reporter.value(repr(value))
        del value
        code = 0
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException:
        _show_exception(path)
    _leave(code, module, places)


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
    """Prints the exception as the interpreter would, without the frames of this file above the code's own."""
    kind, error, trace = sys.exc_info()
    here = __file__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    if trace is None and not isinstance(error, SyntaxError):
        trace = _without_ours(sys.exc_info()[2], here)
    error.__traceback__ = trace
    _hide_context(error, path)
    hook = sys.excepthook
    if hook is not sys.__excepthook__:
        try:
            hook(kind, error, trace)
            return
        except BaseException:
            pass
    linecache.checkcache(path)
    text = "".join(traceback.format_exception(kind, error, trace))
    _write_error(text)


def _without_ours(trace, here):
    while trace is not None and trace.tb_frame.f_code.co_filename == here:
        trace = trace.tb_next
    return trace


def _hide_context(error, path):
    """The same for the exceptions in whose handling this one was raised."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        error.__traceback__ = trace
        error = error.__cause__ or error.__context__


def _leave(code, module, places):
    """What Py_Finalize does that code can notice, without the price of taking down every imported library."""
    for action in (threading._shutdown, atexit._run_exitfuncs):
        try:
            action()
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)
            _write_error("".join(traceback.format_exception(error)))
    for name, other in list(sys.modules.items()):
        file = getattr(other, "__file__", None)
        if other is module or (isinstance(file, str) and file.startswith(places.work + "/")):
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
    os._exit(code)


def _empty(module):
    """Lets go of a module's names one after the other, as the interpreter's end does, so that destructors run."""
    names = module.__dict__
    for name in [n for n in names if n.startswith("_") and n != "__builtins__"] + [n for n in names if n != "__builtins__"]:
        try:
            names[name] = None
        except BaseException:
            pass
