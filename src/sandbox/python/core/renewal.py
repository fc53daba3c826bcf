"""Starts a zygote as a program of its own, not as a fork of the template: with a hash seed and an address layout of its own.

What it has of the template crosses the exec in open descriptors and, marshalled for the same interpreter, in a file without
a name: the files of this package need not be in the root any more.
"""

import marshal
import os
import signal
import socket
import sys

from . import linux, lockdown

# sys.path[0] is the current folder here, which boot.py takes away as it does that of a script.
_START = "import marshal, sys; _given = marshal.load(open(int(sys.argv[2]), 'rb')); exec(_given['boot'])"
_DESCRIPTORS = ("socket_dir", "outer_proc", "own_pid_ns")


def start(world, command, links):
    """In a fork of the template. Does not return; raises OSError."""
    state = {**vars(world), "filters": world.filters.programs, "modules": None}
    given = {
        "boot": world.program,
        "sources": world.modules.sources,
        "world": state,
        "command": command,
        "links": links.fileno(),
    }
    file = os.memfd_create("zygote", 0)  # inherited, and closed by the one who reads it
    data = memoryview(marshal.dumps(given))
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    _set_inheritable(world, links.fileno(), True)
    linux.keep_capabilities_over_exec()
    options = ("-s", "-B", "-X", "utf8", "-c", _START)
    os.execve(sys.executable, [sys.executable, *options, sys.argv[0], str(file)], {})


def take_over(given, modules):
    """In the new program. Does not return."""
    from . import template, zygote  # here, since the program that was forked needs nothing of them

    world = template.World.__new__(template.World)
    vars(world).update(given["world"])
    world.filters = lockdown.Filters(world.filters)
    world.modules = modules
    _set_inheritable(world, given["links"], False)
    linux.raise_capabilities()  # and with that, not to be inherited any more
    if not world.own_pids:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    command, links = given["command"], socket.socket(fileno=given["links"])
    given.clear()
    zygote.main(world, command, links)


def _set_inheritable(world, links, inheritable):
    for fd in (links, *(getattr(world, name) for name in _DESCRIPTORS)):
        if fd >= 0:
            os.set_inheritable(fd, inheritable)
