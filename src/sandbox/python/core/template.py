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
import time

from . import holes

_fillers = holes.fill()  # before all that wardens use

from . import cgroup, density, errors, frames, landlock, linux, lockdown, rehearsal, setup, warden, workspace, world  # noqa: E402

SETTLE_MS = 5  # of silence after the first orders


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
        ours = world.World(boot, here, modules, program)
        del here
        linux.forget_arguments(ours.outer_proc)
        facts = setup.enter(ours)
    except setup.Failure as failure:
        channel.send_json({"event": "failed", "step": failure.step, "errno": failure.errno, "message": str(failure)})
        os._exit(1)
    boot["guest_filter"] = lockdown.guest_filter(boot)
    boot["landlock_abi"] = boot["landlock_abi"] if ours.has("landlock") else 0
    missing = landlock.missing_features(boot["landlock_abi"])
    found = {name: boot[name] for name in ("landlock_abi", "landlock_errno", "uid_base")}
    oom_errno = setup.refusal(lambda: os.close(os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=ours.outer_proc)))
    facts["cgroup_refused"] = cgroup.probe(ours.cgroup, boot.get("cgroup_namespace", False))
    if facts["cgroup_refused"] is not None:
        os.close(ours.cgroup)
        ours.cgroup = -1
    channel.send_json({"event": "up", "landlock_missing": missing, "oom_errno": oom_errno, **found, **facts})
    del found, facts, missing
    try:
        Template(ours, channel).serve()
    except BaseException:
        errors.show()
        os._exit(1)


class Template:
    """Serves the worker's commands until its end of the channel closes."""

    def __init__(self, world, channel):
        self._world = world
        self._channel = channel
        self._zygotes = {}  # id -> our end of the socket on which it gets the links of its guests
        self._pids = {}  # pid -> zygote id
        self._wardens = {}  # pid -> sandbox
        self._groups = cgroup.Groups(world.cgroup)
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
            setup.in_child(lambda: None)
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
            self._groups.remove(command["sandbox"])
            if not self._world.own_tree:
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
        group = None
        try:
            group = command["group"] = self._groups.make(command)
            pid = warden.fork(self._world, command)
        except OSError as error:
            self._channel.send_json({"event": "no_warden", "sandbox": sandbox, "message": str(error)})
        else:
            if pid == 0:
                self._become_child()
                warden.main(self._world, command, ours, sock)
            self._wardens[pid] = sandbox
        if group is not None:
            group.close()
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
