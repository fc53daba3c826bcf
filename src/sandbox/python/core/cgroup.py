"""The cgroup (v2) around a guest, where the worker could make a place for some: the kernel's own wall for memory and processes.

The template makes one for each sandbox, the guest enters it before anything else, and its children are born in it. The warden
stays outside: what ends all in the group must not end who reports it. The watch stays in force beside it.

    memory.max        the limit, from when it is parked on of what comes beyond: the watch counts from there as well
    memory.swap.max   0
    memory.oom.group  1: half a process tree is no use to anybody
    pids.max          processes and threads

A group is charged with what its processes touch first: pages that they change after the fork, page tables, files in the tmpfs,
what waits in pipes and sockets; also with files of the host that nobody else has read, which the kernel drops before it ends
anything. The zygote's pages stay the zygote's.
"""

import errno
import os
import time

from . import linux

_PROBE = "probe"
_PROBE_MEMORY = 64 << 20


class Refused(OSError):
    """What the kernel did not do. `step`: the file that it is about."""

    def __init__(self, step, error):
        super().__init__(error.errno or errno.EIO, f"{step}: {error.strerror}")
        self.step = step


def open_home(boot):
    """A descriptor of the folder in which groups may be made, or -1. The path is nothing to those who come later."""
    home = boot.pop("cgroup_dir", None)
    return -1 if home is None else os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _open(home, name, file, flags):
    try:
        return os.open(f"{name}/{file}", flags | os.O_CLOEXEC, dir_fd=home)
    except OSError as error:
        raise Refused(file, error) from error


def _write(fd, file, text):
    try:
        os.write(fd, text)
    except OSError as error:
        raise Refused(file, error) from error


def _set(home, name, file, value):
    fd = _open(home, name, file, os.O_WRONLY)
    try:
        _write(fd, file, b"%d" % value)
    finally:
        os.close(fd)


def make(home, name, memory_bytes, processes):
    """Makes a group with its limits, and nobody in it. Raises Refused; nothing is left of it then."""
    try:
        os.mkdir(name, 0o755, dir_fd=home)
    except OSError as error:
        raise Refused("mkdir", error) from error
    try:
        _set(home, name, "memory.max", memory_bytes)
        _set(home, name, "memory.oom.group", 1)
        _set(home, name, "pids.max", processes)
        try:
            _set(home, name, "memory.swap.max", 0)
        except Refused as error:
            if error.errno != errno.ENOENT:  # a kernel without swap
                raise
    except Refused:
        os.rmdir(name, dir_fd=home)
        raise


def enter(door, namespace):
    """Moves this process into the group whose `door` it was given. Raises OSError.

    The kernel asks whether the one who has opened the door could see both groups from its cgroup namespace: a zygote has one of
    its own, from which it could not. namespace: whether to make another, in which the group is the top and shows no name.
    """
    _write(door, "cgroup.procs", b"0")
    if namespace:
        linux.unshare(linux.CLONE_NEWCGROUP)


def remove(home, name):
    """Ends all that is in a group and removes it. False where the kernel still has something to do with it: to be tried again."""
    try:
        os.rmdir(name, dir_fd=home)
    except FileNotFoundError:
        return True
    except OSError:
        try:
            _set(home, name, "cgroup.kill", 1)
        except OSError:
            pass  # gone by now, or a kernel before 5.14
        return False
    return True


class Groups:
    """The template's side: makes and removes them."""

    def __init__(self, home):
        self._home = home
        self._going = set()

    def make(self, command):
        """The Group of a sandbox, or None where there are none. Raises Refused."""
        if self._home < 0:
            return None
        limits, name = command["limits"], str(command["sandbox"])
        make(self._home, name, limits["memory_bytes"], limits["processes"])
        return Group(self._home, name)

    def remove(self, sandbox):
        if self._home >= 0:
            self._going.add(str(sandbox))
            self._going = {name for name in self._going if not remove(self._home, name)}


class Group:
    """One sandbox's group as its warden has it: opened while that still may."""

    def __init__(self, home, name):
        self._folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=home)
        self._max = _open(home, name, "memory.max", os.O_WRONLY)
        self.door = _open(home, name, "cgroup.procs", os.O_WRONLY)  # for the guest
        self._baseline = 0

    def park(self, memory_bytes):
        """What the guest holds now, before it has any code, is nobody's use."""
        self._baseline = int(self._read("memory.current"))
        _write(self._max, "memory.max", b"%d" % (memory_bytes + self._baseline))

    def out_of_memory(self, memory_bytes):
        """The most that was in use, in bytes, where the kernel has ended the group for its own limit; else None.

        What it ended because the container or the machine was out of memory shows no `oom` of this group.
        """
        events = dict(line.split() for line in self._read("memory.events").splitlines())
        if int(events.get(b"oom_kill", 0)) == 0 or int(events.get(b"oom", 0)) == 0:
            return None
        try:
            return max(memory_bytes, int(self._read("memory.peak")) - self._baseline)
        except FileNotFoundError:  # a kernel before 5.19: it was at the limit
            return memory_bytes

    def close(self):
        for fd in (self._folder, self._max, self.door):
            os.close(fd)

    def _read(self, file):
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)


def probe(home, namespace):
    """Makes a group, has a child enter it and ends that by the group. Returns None, or (what was refused, errno).

    namespace: whether guests are born in a cgroup namespace of their own, as the child then is.
    """
    if home < 0:
        return None
    try:
        make(home, _PROBE, _PROBE_MEMORY, 8)
        try:
            _try_child(home, namespace)
        finally:
            for _ in range(1000):
                if remove(home, _PROBE):
                    break
                time.sleep(0.002)
    except Refused as refused:
        return refused.step, refused.errno
    return None


def _try_child(home, namespace):
    door = _open(home, _PROBE, "cgroup.procs", os.O_WRONLY)
    go, told = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if namespace:
                linux.unshare(linux.CLONE_NEWCGROUP)
            enter(door, namespace)
            code = 0
        except OSError as error:
            code = error.errno or errno.EIO
        finally:
            os.write(told[1], bytes((min(code, 255),)))
            os.read(go[0], 1)
            os._exit(0)
    try:
        code = os.read(told[0], 1)[0]
        if code:
            raise Refused("cgroup.procs", OSError(code, os.strerror(code)))
        fd = _open(home, _PROBE, "cgroup.procs", os.O_RDONLY)
        try:
            inside = os.read(fd, 4096).split()
        finally:
            os.close(fd)
        if b"%d" % pid not in inside:
            raise Refused("cgroup.procs", OSError(errno.ESRCH, "the child is not in it"))
    finally:
        os.write(go[1], b"x")
        for fd in (*go, *told, door):
            os.close(fd)
        os.waitpid(pid, 0)
