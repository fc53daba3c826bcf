"""The template: a bare interpreter that starts everything. It forks zygotes and wardens and reaps what nobody else does.

In the namespaces tier it is PID 1 of a pid namespace that its user namespace owns: when it dies the kernel kills all that
is left of every sandbox. In the landlock tier each process asks for SIGKILL when its parent dies.
"""

import _signal  # signal wraps each call in a look-up of enumerations, on pages that a child would have to copy
import errno
import gc
import json
import marshal
import os
import select
import signal
import socket
import sys
import time

from . import holes

_fillers = holes.fill()  # before all that wardens use

from . import density, errors, frames, landlock, linux, lockdown, rehearsal, root, warden, workspace  # noqa: E402


SETTLE_MS = 5  # of silence after the first orders
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


class World:
    """What all processes of the sandbox inherit: the boot message and the descriptors into the outside. But for the modules and
    the filters it holds only what can be marshalled, see renewal.py.

    modules, program: the loader of our modules, and the code of boot.py itself.
    """

    def __init__(self, boot, here, modules, program):
        self.boot = boot
        self.modules = modules
        self.program = program
        self.namespaces = boot["tier"] == "namespaces"
        self._off = frozenset(boot.get("layers_off", ()))
        # Whether sandboxes have a file tree of their own; else each has a folder of the host.
        self.own_tree = self.namespaces and self.has("mount")
        # Whether the kernel ends all of a sandbox with its PID 1; else each process asks for SIGKILL when its parent dies.
        self.own_pids = self.namespaces and self.has("pid")
        # Names of the descriptors that a warden gives to the zygote, in their order: its pipes and its namespaces.
        layers = [layer for layer in linux.NAMESPACES if self.namespaces and self.has(layer)]
        self.parts = ("stdout", "stderr", "orders", "words", *layers)
        self.socket_dir = os.open(boot["socket_dir"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.outer_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.filters = lockdown.Filters.committed(here)
        self.own_pid_ns = -1
        self.ids = os.geteuid(), os.getegid()  # asked before any user namespace: in a fresh one nobody has an id

    def has(self, layer):
        """False for a layer that a test has switched off, to see whether what it is there for then gets through."""
        return layer not in self._off

    def flags(self, layers):
        """CLONE_NEW* of those of the namespaces that are not switched off."""
        return sum(linux.NAMESPACES[layer] for layer in layers if self.has(layer))

    def connect(self):
        """A socket to the worker. The folder is reached by descriptor: its path may lie outside of this root."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        back = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchdir(self.socket_dir)
        try:
            sock.connect("w.sock")
        finally:
            os.fchdir(back)
            os.close(back)
        return sock


def main(here, modules, program):
    control = socket.socket(fileno=3)
    os.set_inheritable(3, False)
    channel = frames.Channel(control)
    message = channel.receive()
    if message is None:
        os._exit(0)
    boot = json.loads(message[1])
    del message  # what stays in a frame of this process can be found by the code, which runs above it
    # "landlock_abi_most" masks features, for tests of what an older kernel gives.
    abi, boot["landlock_errno"] = linux.landlock_abi()
    boot["landlock_abi"] = min(abi, boot.get("landlock_abi_most", 99))
    if boot["landlock_abi"] == 0:
        boot["landlock_errno"] = boot["landlock_errno"] or errno.EOPNOTSUPP  # as a kernel says that was started without
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        world = World(boot, here, modules, program)
        del here
        linux.forget_arguments(world.outer_proc)
        facts = _enter_namespaces(world) if world.namespaces else _enter_landlock(world)
    except Failure as failure:
        channel.send_json({"event": "failed", "step": failure.step, "errno": failure.errno, "message": str(failure)})
        os._exit(1)
    boot["guest_filter"] = lockdown.guest_filter(boot)
    boot["landlock_abi"] = boot["landlock_abi"] if world.has("landlock") else 0
    missing = landlock.missing_features(boot["landlock_abi"])
    found = {name: boot[name] for name in ("landlock_abi", "landlock_errno", "uid_base")}
    oom_errno = _refusal(lambda: os.close(os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=world.outer_proc)))
    channel.send_json({"event": "up", "landlock_missing": missing, "oom_errno": oom_errno, **found, **facts})
    del found, facts, missing
    try:
        Template(world, channel).serve()
    except BaseException:
        errors.show()
        os._exit(1)


def _refusal(action):
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

    problem = _in_child(become)
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
    cgroup_errno = _in_child(lambda: linux.unshare(linux.CLONE_NEWCGROUP))
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


def _in_child(action):
    """Runs action() in a child; the errno with which it ended, 0 when it did not."""
    pid = os.fork()
    if pid == 0:
        os._exit(_refusal(action))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _check_readable(boot):
    """An interpreter that the sandbox's uid can't read would fail at the first import that is not preloaded."""

    def read():
        if boot["uid_base"] is not None:
            os.setresgid(*[boot["uid_base"]] * 3)
            os.setresuid(*[boot["uid_base"]] * 3)
        os.close(os.open(sys.executable, os.O_RDONLY))
        os.close(os.open(os.__file__, os.O_RDONLY))

    code = _in_child(read)
    if code:
        raise OSError(code, f"{sys.executable} can't be read by the sandbox's uid: {os.strerror(code)}")


class Template:
    """Serves the worker's commands until its end of the channel closes."""

    def __init__(self, world, channel):
        self._world = world
        self._channel = channel
        self._zygotes = {}  # id -> our end of the socket on which it gets the links of its guests
        self._pids = {}  # pid -> zygote id
        self._wardens = {}  # pid -> sandbox
        self._wakeup = socket.socketpair()
        self._decoder = frames.Decoder()
        self._commands = []  # that have come and are still to be carried out

    def serve(self):
        # The collector writes to the objects that it looks at: each such page would be copied in every child.
        gc.disable()
        density.hand_down_files(workspace.read_all(self._world.outer_proc, "self/maps"))
        for end in self._wakeup:
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup[1].fileno(), warn_on_full_buffer=False)
        control = self._channel.socket
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(self._wakeup[0], select.POLLIN)
        if self._world.own_pids:
            # So that no zygote has the pid that each guest has in its namespace (2): libraries find out by a pid that has
            # changed that they are in a fork.
            _in_child(lambda: None)
        settled = False
        while True:
            events = poll.poll(SETTLE_MS if self._zygotes and not settled else None)
            if not events:
                self._settle()
                settled = True
            for fd, _ in events:
                if fd == control.fileno():
                    self._receive()
                    while self._commands:
                        self._command(self._commands.pop(0))
                else:
                    self._drain_wakeup()
                    self._reap()

    def _receive(self):
        data = self._channel.socket.recv(1 << 16)
        if not data:
            self._leave()
        self._commands += [json.loads(payload) for _, payload in self._decoder.feed(data)]

    def _settle(self):
        """Makes all ready for wardens, while the zygotes import."""
        try:
            rehearsal.wardens(self._world)
        except Exception:
            errors.show()  # they only take longer then
        gc.collect()
        self._fillers = holes.fill()
        gc.freeze()

    def _leave(self):
        """The worker has gone, and with this process all sandboxes go; in the landlock tier their folders are left."""
        if not self._world.namespaces:
            for pid in (*self._pids, *self._wardens):
                os.kill(pid, signal.SIGKILL)
            boxes = os.open(self._world.boot["boxes_dir"], os.O_RDONLY | os.O_DIRECTORY)
            for _ in range(20):  # guests die with their zygote, and may write until they have
                for name in os.listdir(boxes):
                    workspace.remove(boxes, name)
                if not os.listdir(boxes):
                    break
                time.sleep(0.02)
        os._exit(0)

    def _drain_wakeup(self):
        try:
            while self._wakeup[0].recv(4096):
                pass
        except BlockingIOError:
            pass

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._wardens.pop(pid, None)
            zygote_id = self._pids.pop(pid, None)
            if zygote_id is not None:
                self._zygotes.pop(zygote_id).close()
                self._channel.send_json(
                    {"event": "zygote_exit", "zygote": zygote_id, "code": os.waitstatus_to_exitcode(status)}
                )

    def _command(self, command):
        if command["op"] == "zygote":
            self._start_zygote(command)
        elif command["op"] == "kill_zygote":
            for pid, zygote_id in self._pids.items():
                if zygote_id == command["zygote"]:
                    os.kill(pid, signal.SIGKILL)
        elif command["op"] == "sandbox":
            self._start_sandbox(command)
        elif command["op"] == "kill":
            for pid, sandbox in self._wardens.items():
                if sandbox == command["sandbox"]:
                    os.kill(pid, signal.SIGKILL)  # ours, and not waited for: the pid is nobody else's
        elif command["op"] == "clean":
            self._clean(command["sandbox"])

    def _start_zygote(self, command):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            self._become_child(ours)
            # Other sandboxes' numbers, pids and tokens are nothing to those that this one's guests run.
            for known in (self._commands, self._zygotes, self._pids, self._wardens):
                known.clear()
            self._decoder = None
            if command["renew"]:
                from . import renewal  # here, since wardens need nothing of it

                command["not_renewed"] = str(renewal.start(self._world, command, theirs))
            from . import zygote  # as above

            zygote.main(self._world, command, theirs)
        theirs.close()
        self._zygotes[command["zygote"]] = ours
        self._pids[pid] = command["zygote"]

    def _start_sandbox(self, command):
        links = self._zygotes.get(command["zygote"])
        if links is None:
            self._channel.send_json({"event": "no_zygote", "sandbox": command["sandbox"]})
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sandbox = command["sandbox"]
        order = {"sandbox": command["sandbox"], "slot": command["slot"], "limits": command["limits"]}
        try:
            socket.send_fds(links, [marshal.dumps(order)], [theirs.fileno()])
        except OSError:
            self._channel.send_json({"event": "no_zygote", "sandbox": command["sandbox"]})
            return
        finally:
            theirs.close()
        sock = self._world.connect()
        sock.sendall(frames.pack_json({"role": "warden", "token": command["token"]}))
        try:
            pid = warden.fork(self._world, command)
        except OSError as error:
            self._channel.send_json({"event": "no_warden", "sandbox": sandbox, "message": str(error)})
        else:
            if pid == 0:
                self._become_child()
                warden.main(self._world, command, ours, sock)
            self._wardens[pid] = sandbox
        ours.close()
        sock.close()

    def _clean(self, sandbox):
        """Removes a sandbox's folder (landlock tier). Nothing runs in it any more, so no name changes under our hands."""
        if os.fork() == 0:
            self._become_child()
            workspace.remove(os.open(self._world.boot["boxes_dir"], os.O_RDONLY | os.O_DIRECTORY), str(sandbox))
            os._exit(0)

    def _become_child(self, *also):
        """In a fresh child: none of the template's own descriptors and signals."""
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL if not self._world.own_pids else 0)
        for end in (self._channel.socket, *self._wakeup, *self._zygotes.values(), *also):
            os.close(end.detach())  # close() goes through four functions for each, in every child
