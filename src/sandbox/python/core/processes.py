"""Processes of a sandbox as /proc shows them, by what no process can hold back: the kernel takes no lock of theirs for it."""

import os
from collections import namedtuple

TRIES = 3

# Of one process, in bytes. `resident` is anonymous, shared and file pages together; `pid` its number in its own namespace.
Sizes = namedtuple("Sizes", "mapped resident anonymous shared tables pid")
NOTHING = Sizes(0, 0, 0, 0, 0, 0)


def read(folder, path, size=1 << 14):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def listing(folder, path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    try:
        return os.listdir(fd)
    except OSError:
        return []
    finally:
        os.close(fd)


def with_threads(folder, pid, name):
    """Paths of a file of a process: its own, then those of its threads, which still show memory when the leader has ended."""
    yield f"{pid}/{name}"
    for thread in listing(folder, f"{pid}/task"):
        if thread != pid:
            yield f"{pid}/task/{thread}/{name}"


def field(text, name):
    """A field such as b"VmRSS:  123 kB" in bytes, or None. At the start of a line alone: names of threads are in the text too."""
    at = text.find(b"\n" + name)
    return None if at < 0 else int(text[at + 1 + len(name) :].split(None, 1)[0]) * 1024


def _parse(status):
    """Sizes, or None where a status shows no memory."""
    resident = field(status, b"VmRSS:")
    if resident is None:
        return None
    anonymous = field(status, b"RssAnon:")
    return Sizes(
        field(status, b"VmSize:") or 0,
        resident,
        resident if anonymous is None else anonymous,  # a kernel that does not tell them apart
        field(status, b"RssShmem:") or 0,
        field(status, b"VmPTE:") or 0,
        _own_pid(status),
    )


def _own_pid(status):
    line = status[status.find(b"\nNSpid:") + 1 :].partition(b"\n")[0]
    return int(line.split()[-1]) if line.startswith(b"NSpid:") else 0


def sizes(folder, pid, last):
    """Sizes of a process, or None when it has no memory any more. Where threads live that nothing can be read of, which is
    so for a moment while each makes the next and ends, `last` holds on."""
    for _ in range(TRIES):
        alive = False
        for path in with_threads(folder, pid, "status"):
            alive |= path.count("/") > 1
            try:
                found = _parse(read(folder, path))
            except OSError:
                continue
            if found is not None:
                return found
        if not alive:
            return None
    return last


class OwnProc:
    """Processes of a sandbox that has a pid namespace and a /proc of its own: all but its PID 1."""

    def __init__(self, folder):
        self.folder = folder

    def processes(self):
        return [name for name in os.listdir(self.folder) if name.isdigit() and name != "1"]


class OuterProc:
    """The same through the outside's /proc, where a sandbox has none: the descendants of the warden and of the guest."""

    def __init__(self, folder, parents):
        self.folder = folder
        self._parents = parents  # pids as the outside's /proc counts them: [guest] or [warden, guest]

    def processes(self):
        found = [str(self._parents[-1])]
        queue = [str(pid) for pid in self._parents]
        while queue:
            pid = queue.pop()
            try:
                for task in listing(self.folder, f"{pid}/task"):
                    children = read(self.folder, f"{pid}/task/{task}/children").decode().split()
                    queue += children
                    found += children
            except OSError:
                continue  # it went while we looked
        return list(dict.fromkeys(found))
