"""How the template makes its own place: its namespaces, its root, and which uids its sandboxes have."""

import errno
import os
import signal
import sys

from . import linux, root, warden

UIDS = 4096  # that a worker's sandboxes may use, from the first one on


class Failure(Exception):
    """A step of the set-up that the kernel or the configuration refused."""

    def __init__(self, step, error):
        super().__init__(f"{step}: {error}")
        self.step = step
        self.errno = getattr(error, "errno", 0) or 0


class step:
    """with step("name"): an OSError inside becomes a Failure that names the step."""

    def __init__(self, name):
        self._name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if isinstance(error, OSError):
            raise Failure(self._name, error) from error


def enter(world):
    """The template's own place. Returns what was found out on the way, for the worker; raises Failure."""
    return _enter_namespaces(world) if world.namespaces else _enter_landlock(world)


def refusal(action):
    """The errno with which the kernel refuses it; 0 where it does not."""
    try:
        action()
    except OSError as error:
        return error.errno or 1
    return 0


def _choose_uids(world):
    """Sets boot["uid_base"] to the first of the sandboxes' uids, or to None. Returns the errno of what keeps them from having
    uids of their own; 0 where nothing does, or a test has left them out."""
    wanted, boot = world.boot["uid_base"], world.boot
    boot["uid_base"] = None
    if not world.has("uid"):
        return 0
    if world.namespaces and not linux.has_capability(linux.CAP_SYS_ADMIN):
        return errno.EPERM  # the other namespaces then need one of users, in which there is one uid
    base = None if wanted is None else _free_uids(world, wanted)
    uid = base or wanted or os.geteuid() + 1

    def become():
        os.setresgid(uid, uid, uid)  # first, since of a uid and gid that are not mapped here it says so
        os.setgroups([])
        os.setresuid(uid, uid, uid)

    problem = in_child(become)
    if problem == 0:
        boot["uid_base"] = base
    return problem


def _free_uids(world, wanted):
    """The first of UIDS uids for sandboxes that are mapped here, or None. Where the wanted ones are not (in a container with
    a user namespace of its own), the last that are."""
    spans = []
    for name in ("uid_map", "gid_map"):
        fd = os.open(f"self/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=world.outer_proc)
        with open(fd) as file:
            spans.append([(int(first), int(count)) for first, _, count in map(str.split, file)])
    for base in (wanted, *(first + count - UIDS for first, count in spans[0])):
        inside = [any(first <= base and base + UIDS <= first + count for first, count in span) for span in spans]
        if base >= UIDS and all(inside):
            return base
    return None


def _enter_namespaces(world):
    boot = world.boot
    uid_errno = _choose_uids(world)
    with step("user namespace"):
        if linux.has_capability(linux.CAP_SYS_ADMIN) and uid_errno == 0:
            if os.geteuid() == 0:
                os.setgroups([])
        else:
            uid, gid = os.geteuid(), os.getegid()
            linux.unshare(linux.CLONE_NEWUSER)
            warden.map_ids(world, (uid, uid), (gid, gid))
    # The zygotes make one, and guests inherit it; a kernel without control groups has nothing to show in it.
    cgroup_errno = in_child(lambda: linux.unshare(linux.CLONE_NEWCGROUP))
    boot["cgroup_namespace"] = cgroup_errno == 0 and world.has("cgroup")
    with step("mount and pid namespaces"):
        linux.unshare(world.flags(("mount", "pid")))
    if world.own_pids:
        pid = os.fork()
        if pid:
            os.close(3)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    has_proc, problem = False, 0
    if world.own_tree:
        with step("file tree"):
            linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
            has_proc, problem = root.build(boot["root_dir"], boot["trees"])
            root.enter(boot["root_dir"])
            root.seal()
    world.own_pid_ns = os.open("self/ns/pid", os.O_RDONLY | os.O_CLOEXEC, dir_fd=world.outer_proc)
    return {"proc": has_proc, "proc_errno": problem, "uid_errno": uid_errno, "cgroup_errno": cgroup_errno}


def _enter_landlock(world):
    boot = world.boot
    if boot["landlock_abi"] < 3:
        code = boot["landlock_errno"] or errno.EOPNOTSUPP
        error = OSError(code, f"the kernel's Landlock ABI is {boot['landlock_abi']}, 3 is needed (Linux 6.2)")
        raise Failure("landlock", error)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    uid_errno = _choose_uids(world)
    if boot["uid_base"] is not None:
        os.setgroups([])
    with step("interpreter"):
        _check_readable(boot)
    return {"proc": False, "proc_errno": 0, "uid_errno": uid_errno, "cgroup_errno": 0}


def in_child(action):
    """Runs action() in a child; the errno with which it ended, 0 when it did not."""
    pid = os.fork()
    if pid == 0:
        os._exit(refusal(action))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _check_readable(boot):
    """An interpreter that the sandbox's uid can't read would fail at the first import that is not preloaded."""

    def read():
        if boot["uid_base"] is not None:
            os.setresgid(*[boot["uid_base"]] * 3)
            os.setresuid(*[boot["uid_base"]] * 3)
        os.close(os.open(sys.executable, os.O_RDONLY))
        os.close(os.open(os.__file__, os.O_RDONLY))

    code = in_child(read)
    if code:
        raise OSError(code, f"{sys.executable} can't be read by the sandbox's uid: {os.strerror(code)}")
