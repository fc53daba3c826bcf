"""Starts a zygote as a program of its own, not as a fork of the template: with a hash seed and an address layout of its own.

What it has of the template crosses the exec in open descriptors and, marshalled for the same interpreter, in a pipe: the files
of this package need not be in the root any more.
"""

import errno
import fcntl
import marshal
import os
import signal
import socket
import sys

from . import linux, lockdown

_START = "import marshal, sys; _given = marshal.load(open(int(sys.argv[1]), 'rb')); exec(_given['boot'])"
_F_SETPIPE_SZ = 1031
_DESCRIPTORS = ("socket_dir", "outer_proc", "own_pid_ns")


def start(world, command, links):
    """In a fork of the template. Returns only where it can't be done, with the OSError; all is as before then."""
    state = {**vars(world), "filters": world.filters.programs, "modules": None}
    given = {
        "boot": world.program,
        "sources": world.modules.sources,
        "world": state,
        "command": command,
        "links": links.fileno(),
    }
    data = marshal.dumps(given)
    near, far = os.pipe()
    try:
        # It holds all of it at once, so that nobody has to feed it: a file would need a place, or a memfd, which may be refused.
        fcntl.fcntl(far, _F_SETPIPE_SZ, len(data))
        os.set_blocking(far, False)
        if os.write(far, data) < len(data):
            raise OSError(errno.ENOSPC, "the pipe takes too little")
        os.close(far)
        _set_inheritable(world, links.fileno(), True)
        os.set_inheritable(near, True)
        linux.keep_capabilities_over_exec()
        options = ("-s", "-B", "-X", "utf8", "-c", _START)
        os.execve(sys.executable, [sys.executable, *options, str(near)], {})
    except OSError as error:
        linux.raise_capabilities()  # not to be inherited any more
        _set_inheritable(world, links.fileno(), False)
        for fd in (near, far):
            try:
                os.close(fd)
            except OSError:
                pass
        return error


def take_over(given, modules):
    """In the new program. Does not return."""
    from . import density, workspace, world, zygote  # here, since the program that was forked needs nothing of them

    ours = world.World.__new__(world.World)
    vars(ours).update(given["world"])
    ours.filters = lockdown.Filters(ours.filters)
    ours.modules = modules
    linux.forget_arguments(ours.outer_proc)
    _set_inheritable(ours, given["links"], False)
    linux.raise_capabilities()  # and with that, not to be inherited any more
    if not ours.own_pids:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    density.hand_down_files(workspace.read_all(ours.outer_proc, "self/maps"))
    command, links = given["command"], socket.socket(fileno=given["links"])
    given.clear()
    zygote.main(ours, command, links)


def _set_inheritable(world, links, inheritable):
    for fd in (links, *(getattr(world, name) for name in _DESCRIPTORS)):
        if fd >= 0:
            os.set_inheritable(fd, inheritable)
