"""What the code finds around it: environment, streams, print(), and calls that tell the warden of a refusal."""

import _posixsubprocess
import builtins
import functools
import io
import os
import subprocess
import sys
import threading

from . import linux, reporter


def prepare(binaries):
    """In the zygote, after its imports: all that is the same for every guest. What is done here is not done for each."""
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
            reporter.limit_at_start(error)
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
        sys.stdout = sys.__stdout__ = text_stream(1, "<stdout>")
        sys.stderr = sys.__stderr__ = text_stream(2, "<stderr>")
    finally:
        for target, fd in enumerate(kept):
            os.dup2(fd, target)
        for fd in (*kept, far, near, null):
            os.close(fd)


def text_stream(fd, name):
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
