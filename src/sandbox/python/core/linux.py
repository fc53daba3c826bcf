"""The kernel calls that the standard library does not offer on every Python from 3.10 on.

Every function raises OSError with the errno of the call and its name. Constants are from the kernel's uapi headers.
"""

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_keeping_gil = ctypes.PyDLL(None, use_errno=True)
_keeping_gil.syscall.restype = ctypes.c_long
# Looked up once: a look-up by attribute writes to many objects, and so copies their pages in each child.
_clone_keeping_gil = _keeping_gil.syscall
_before_fork = ctypes.pythonapi.PyOS_BeforeFork
_after_fork_child = ctypes.pythonapi.PyOS_AfterFork_Child
_after_fork_parent = ctypes.pythonapi.PyOS_AfterFork_Parent
_long_syscall = _libc.syscall
_long_prctl = _libc.prctl
_long_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_short_prctl = ctypes.CDLL(None).prctl
_short_prctl.argtypes = [ctypes.c_int, ctypes.c_ulong]
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
ARCH = os.uname().machine
SIGCHLD = 17
_NUMBERS = {  # call: (x86_64, aarch64)
    "clone": (56, 220),
    "capget": (125, 90),
    "capset": (126, 91),
    "pivot_root": (155, 41),
    "mount_setattr": (442, 442),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}

_WORD = struct.Struct("=I")
_SIGACTION = struct.Struct("@P128siP")  # struct sigaction of glibc and of musl: handler, mask, flags, restorer

_streams = [ctypes.c_void_p.in_dll(_libc, name) for name in ("stdout", "stderr")]
_setvbuf = _libc.setvbuf
_COLUMN = 1 if ARCH == "aarch64" else 0
_CLONE = _NUMBERS["clone"][_COLUMN]
_clone_keeping_gil.argtypes = [ctypes.c_long, ctypes.c_ulong, *[ctypes.c_long] * 4]

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
NAMESPACES = {
    "user": CLONE_NEWUSER,
    "mount": CLONE_NEWNS,
    "pid": CLONE_NEWPID,
    "net": CLONE_NEWNET,
    "ipc": CLONE_NEWIPC,
    "uts": CLONE_NEWUTS,
}

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
AT_FDCWD = -100
AT_RECURSIVE = 0x8000

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_NAME = 15
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
PR_CAP_AMBIENT_CLEAR_ALL = 4

CAP_SYS_ADMIN = 21


def _check(result, name):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _syscall(name, *args):
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return _check(_long_syscall(ctypes.c_long(_NUMBERS[name][_COLUMN]), *wide), name)


def _path(value):
    return None if value is None else os.fsencode(value)


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def setns(fd, flags):
    _check(_libc.setns(fd, flags), "setns")


def fork_into(flags):
    """fork() whose child starts in new namespaces (CLONE_NEW*), as PID 1 where a pid namespace is among them.

    One call instead of two forks around an unshare. libc does not know of the child, so its idea of the thread id is the
    parent's: abort() would signal nobody, which nothing here calls.
    """
    _before_fork()
    # Keeps the GIL, so that the child's only thread has it.
    result = _clone_keeping_gil(_CLONE, flags | SIGCHLD, 0, 0, 0, 0)
    if result == 0:
        _after_fork_child()
    else:
        code = ctypes.get_errno()
        _after_fork_parent()
        ctypes.set_errno(code)
    return _check(result, "clone")


def mount(source, target, kind=None, flags=0, data=None):
    result = _libc.mount(_path(source), _path(target), _path(kind), flags, _path(data))
    _check(result, f"mount on {target}")


def set_mount_attributes(target, attributes):
    """Adds MOUNT_ATTR_* to a mount and all below it; needs Linux 5.12."""
    raw = struct.pack("=QQQQ", attributes, 0, 0, 0)
    _syscall("mount_setattr", AT_FDCWD, _path(target), AT_RECURSIVE, raw, len(raw))


def pivot_root(new, old):
    _syscall("pivot_root", _path(new), _path(old))


def unmount(target, flags):
    _check(_libc.umount2(_path(target), flags), f"umount2 {target}")


def prctl(option, value=0, third=0, fourth=0, fifth=0):
    return _check(_long_prctl(option, value, third, fourth, fifth), "prctl")


# Made once: with each such buffer ctypes makes a type, which takes longer than all that it is needed for.
_names = {name: ctypes.create_string_buffer(name.encode()) for name in ("zygote", "warden", "python3")}


def set_name(name):
    """Names the calling thread: one of those above."""
    prctl(PR_SET_NAME, ctypes.addressof(_names[name]))


def _last_capability():
    try:
        with open("/proc/sys/kernel/cap_last_cap") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 40  # CAP_CHECKPOINT_RESTORE, the last one up to Linux 6.18


LAST_CAPABILITY = _last_capability()
# Arguments of one call for each: a loop in Python takes five times as long, in each warden and guest.
_CAPABILITIES = tuple(range(LAST_CAPABILITY + 1))
_BOUNDING_DROPS = (PR_CAPBSET_DROP,) * len(_CAPABILITIES)


def _set_capabilities(mask, inheritable=0):
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    low, high = mask & 0xFFFFFFFF, mask >> 32
    kept, kept_high = inheritable & 0xFFFFFFFF, inheritable >> 32
    _syscall("capset", header, struct.pack("=IIIIII", low, low, kept, high, high, kept_high))


def _capabilities():
    """(effective, permitted) of this process, as bit masks."""
    header = struct.pack("=Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    _syscall("capget", header, data)
    low_effective, low_permitted, _, high_effective, high_permitted, _ = struct.unpack("=IIIIII", data.raw)
    return high_effective << 32 | low_effective, high_permitted << 32 | low_permitted


def raise_capabilities():
    """Makes all that is permitted effective again, after a change of the effective uid."""
    _set_capabilities(_capabilities()[1])


def keep_capabilities_over_exec():
    """What is permitted is so in the next program too, whichever uid this is; until raise_capabilities() there."""
    permitted = _capabilities()[1]
    _set_capabilities(permitted, inheritable=permitted)
    for capability in range(LAST_CAPABILITY + 1):
        if permitted >> capability & 1:
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability)


def drop_capabilities():
    # Of the bounding set. Refused without CAP_SETPCAP: then there is no way to gain anything by it, no_new_privs is on.
    for _ in map(_short_prctl, _BOUNDING_DROPS, _CAPABILITIES):
        pass
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    _set_capabilities(0)


def has_capability(capability):
    return bool(_capabilities()[0] >> capability & 1)


class SeccompFilter:
    """A filter, ready to be installed: in a child of a fork each object that has to be made costs pages.

    bpf: bytes of struct sock_filter.
    """

    def __init__(self, bpf):
        self._program = ctypes.create_string_buffer(bpf, len(bpf))
        self._header = ctypes.create_string_buffer(struct.pack("@HP", len(bpf) // 8, ctypes.addressof(self._program)))
        self._address = ctypes.addressof(self._header)

    def set_word(self, offset, value):
        _WORD.pack_into(self._program, offset, value)

    def install(self):
        """On the calling thread, for good; no_new_privs must be on."""
        prctl(PR_SET_SECCOMP, 2, self._address)  # SECCOMP_MODE_FILTER


def landlock_abi():
    """(the Landlock ABI of the kernel, 0), or (0, the errno with which it was refused)."""
    try:
        return _syscall("landlock_create_ruleset", None, 0, 1), 0
    except OSError as error:
        return 0, error.errno


def landlock_create_ruleset(handled_files, handled_network, scoped):
    if scoped:
        attributes = struct.pack("=QQQ", handled_files, handled_network, scoped)
    elif handled_network:
        attributes = struct.pack("=QQ", handled_files, handled_network)
    else:
        attributes = struct.pack("=Q", handled_files)
    return _syscall("landlock_create_ruleset", attributes, len(attributes), 0)


def landlock_allow_beneath(ruleset, access, path_fd):
    rule = struct.pack("=Qi", access, path_fd)
    _syscall("landlock_add_rule", ruleset, 1, rule, 0)


def landlock_restrict_self(ruleset):
    _syscall("landlock_restrict_self", ruleset, 0)


def ignore_stops():
    """SIGCHLD no longer comes for a child that was stopped or goes on: it could have a parent do nothing but listen to it."""
    action = ctypes.create_string_buffer(_SIGACTION.size)
    _check(_libc.sigaction(SIGCHLD, None, action), "sigaction")
    handler, mask, flags, restorer = _SIGACTION.unpack(action.raw)
    packed = _SIGACTION.pack(handler, mask, flags | 1, restorer)  # SA_NOCLDSTOP
    _check(_libc.sigaction(SIGCHLD, packed, None), "sigaction")


def forget_arguments(proc):
    """Empties this program's command line, as the kernel, libc and the interpreter tell it; nothing where it can't be found.

    proc: descriptor of a /proc that shows this process.
    """
    try:
        count, words = ctypes.c_int(), ctypes.POINTER(ctypes.c_void_p)()
        ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(count), ctypes.byref(words))
        for word in words[1 : count.value]:
            ctypes.memset(word, 0, ctypes.sizeof(ctypes.c_wchar))
        with open(os.open("self/stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc), "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end of proc(5)
    except (AttributeError, IndexError, OSError, ValueError):
        return
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, b"python3"[: end - start - 1], min(7, end - start - 1))


def bytes_at(address, size):
    return ctypes.string_at(address, size)


def overwrite(address, data):
    ctypes.memmove(address, data, len(data))


def touch_private(address, size, protection):
    """Writes the first byte of a private mapping as it is, which gives the process a page of its own. Nothing where refused."""
    place = ctypes.c_void_p(address), ctypes.c_size_t(size)
    if _libc.mprotect(*place, protection | 2) == 0:  # of all of it: else the kernel keeps it as two
        ctypes.memmove(address, ctypes.string_at(address, 1), 1)
        _check(_libc.mprotect(*place, protection), "mprotect")  # code that stays writable would be in every sandbox


def collapse(address, size):
    """Puts memory into huge pages where the kernel can (Linux 6.1)."""
    _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), 25)  # MADV_COLLAPSE


def unbuffer_c_streams():
    """libc's own stdout and stderr lose their buffers, so that C code's lines come out where they happen."""
    for stream in _streams:
        _setvbuf(stream, None, 2, 0)  # _IONBF
