"""The warden: one per sandbox, PID 1 of its namespaces. Makes the place, watches the guest in it, and ends it.

It passes the code to the guest and the guest's output to the worker. When it exits the kernel kills what is left. All that
comes from the guest's side is data: bounded, checked, handed on.
"""

import json
import os
import select
import signal
import socket
import time
import traceback

from . import frames, linux, lockdown, root, watch, workspace
from .capture import Stream

WATCH_S = 0.02
INTERRUPT_S = 0.5  # from SIGINT to SIGKILL when a call is cancelled
SWEEP_S = 2.0  # for the last processes to die
FLUSH_S = 10.0  # for the worker to take the end of the output
BACKLOG = 1 << 20  # bytes that may wait for the worker before the pipes are left alone
CONTROL_LIMIT = 1 << 20  # of one frame that a guest may send
UID_INSIDE = 1000
HINTS = (b"file_size", b"open_files", b"processes")


def fork(world, command):
    """Forks a warden: 0 in the child, which is in its namespaces already. Raises OSError."""
    if not world.namespaces:
        return os.fork()
    flags = world.flags(linux.NAMESPACES)
    uid_base = world.boot["uid_base"]
    if not world.own_tree:
        # By the parent, since in a user namespace nobody could give it away.
        _make_box(world, command, world.ids[0] if uid_base is None else uid_base + command["slot"])
    if uid_base is None:
        return linux.fork_into(flags)
    # The user namespace belongs to the slot's uid, as which the child then maps itself; making one may be reserved for root,
    # so the capabilities stay.
    uid = uid_base + command["slot"]
    os.setresgid(-1, uid, -1)
    os.setresuid(-1, uid, -1)
    try:
        linux.raise_capabilities()
        return linux.fork_into(flags)
    finally:
        if os.geteuid() == uid:  # the parent; in the child of a user namespace nobody has a uid yet
            os.setresuid(-1, 0, -1)
            os.setresgid(-1, 0, -1)
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of uid has cleared it


def main(world, command, link, sock):
    """In the child. Does not return."""
    # Python's own handler would let the guest interrupt PID 1, to which the kernel passes only signals that are handled.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        os.setsid()  # a signal to a process group crosses pid namespaces: nobody shares ours
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # with a handler, PID 1 could be signalled from inside
        _enter(world, command)
        Warden(world, command, sock, link).serve()
    except BaseException as error:
        try:
            sock.sendall(frames.pack_json({"event": "failed", "message": _describe(error)}))
        except BaseException:
            traceback.print_exc()
    os._exit(1)


def _describe(error):
    step = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({step.name}, line {step.lineno})"


def _enter(world, command):
    """The uid of this slot, inside and outside."""
    uid_base = world.boot["uid_base"]
    uid, gid = (uid_base + command["slot"],) * 2 if uid_base is not None else world.ids
    if not world.namespaces:
        _make_box(world, command, uid)
    if world.namespaces and world.has("user"):
        map_ids(world, (UID_INSIDE, uid), (UID_INSIDE, gid))
        os.setresgid(UID_INSIDE, UID_INSIDE, UID_INSIDE)
        os.setresuid(UID_INSIDE, UID_INSIDE, UID_INSIDE)
    elif uid_base is not None:
        # With other namespaces but none of users, the capabilities are still needed to mount.
        linux.prctl(linux.PR_SET_KEEPCAPS, int(world.namespaces))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        linux.raise_capabilities()
    if not world.own_pids:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)


def map_ids(world, uid, gid):
    """Maps one (inside, outside) uid and gid in the user namespace that this process has just made.

    Allowed without privilege outside, since both are this process's own; user_namespaces(7).
    """
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # else the files belong to root
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid[0]} {uid[1]} 1"),
        ("gid_map", f"{gid[0]} {gid[1]} 1"),
    ):
        fd = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=world.outer_proc)
        os.write(fd, text.encode())
        os.close(fd)


def _shrink_tcp(proc):
    """Small buffers in the sandbox's network: what waits in a socket is nobody's memory, and grows to megabytes by default.

    Where there is no /proc of its own the kernel's defaults stay, and the watch counts sockets by their number alone.
    """
    if proc is None:
        return
    for name in ("tcp_rmem", "tcp_wmem"):
        try:
            fd = os.open(f"sys/net/ipv4/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        except OSError:
            continue
        os.write(fd, b"4096 65536 131072")
        os.close(fd)


def _make_box(world, command, uid):
    """The sandbox's folder on the host, where it has no file tree of its own. The template removes it when all is over."""
    box = f"{world.boot['boxes_dir']}/{command['sandbox']}"
    os.mkdir(box, 0o700)
    for name in ("work", "code", "home", "home/sandbox", "tmp"):
        os.mkdir(f"{box}/{name}", 0o700)
        if world.boot["uid_base"] is not None:
            os.chown(f"{box}/{name}", uid, uid)
    if world.boot["uid_base"] is not None:
        os.chown(box, uid, uid)


class Warden:
    def __init__(self, world, command, sock, link):
        self._world = world
        self._limits = command["limits"]
        self._worker = sock
        self._decoder = frames.Decoder()
        self._outgoing = bytearray()
        self._worker_gone = False
        linux.set_name("warden")
        proc, box = None, None
        if world.own_tree:
            linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
            box = root.furnish(self._limits, world.boot["trees"])
            proc = root.mount_proc() if world.own_pids else None
        if world.namespaces and world.has("net"):
            self._raise_loopback()
            _shrink_tcp(proc)
        if world.namespaces and world.has("uts"):
            socket.sethostname("sandbox")
        self._place = "/work" if world.own_tree else f"{world.boot['boxes_dir']}/{command['sandbox']}/work"
        self._box = box
        self._proc_fd = proc
        # Opened now: once locked, this process writes nothing but what it has open.
        self._script = os.open(
            os.path.join(os.path.dirname(self._place), "code", "main.py"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._make_parts(link)
        lockdown.lock_warden(world.filters)
        self._await_guest()

    def _raise_loopback(self):
        """Brings up lo, so that code can test its server against its client."""
        import fcntl
        import struct

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
            fcntl.ioctl(probe, 0x8914, request)  # SIOCSIFFLAGS

    def _make_parts(self, link):
        """Pipes and control socket belong to the sandbox's uid, so that /dev/stdout can be opened. Their far ends, and the
        namespaces, go to the zygote."""
        stdout, stdout_far = os.pipe()
        stderr, stderr_far = os.pipe()
        control, control_far = socket.socketpair()
        self._control = control
        self._control_decoder = frames.Decoder(CONTROL_LIMIT)
        limits = self._limits
        self._stdout = Stream(stdout, limits["stdout_first"], limits["stdout_last"])
        self._stderr = Stream(stderr, limits["stderr_first"], limits["stderr_last"])
        parts = {"stdout": stdout_far, "stderr": stderr_far, "control": control_far.detach()}
        for layer in linux.NAMESPACES if self._world.namespaces else ():
            if self._world.has(layer):
                path = f"self/ns/{'mnt' if layer == 'mount' else layer}"
                parts[layer] = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._world.outer_proc)
        socket.send_fds(link, [json.dumps(list(parts)).encode()], list(parts.values()))
        link.close()
        for fd in parts.values():
            os.close(fd)

    def _await_guest(self):
        """Waits for the guest to be locked down. Until it has its code, what it says is our own code's word."""
        self._control.settimeout(30)
        message = frames.Channel(self._control).receive()
        self._control.setblocking(False)
        if message is None:
            raise RuntimeError("the guest ended before it was ready")
        word = json.loads(message[1])
        if word["event"] != "ready":
            raise RuntimeError(f"the guest could not be locked down: {word['message']}")
        self._pid = word["pid"]
        self._guest = os.pidfd_open(self._pid)
        if self._proc_fd is not None:
            proc, pid = watch.OwnProc(self._proc_fd), self._pid
        else:
            pid = word["outer_pid"]
            own = os.readlink("self", dir_fd=self._world.outer_proc)
            parents = [own, pid] if self._world.own_pids else [pid]
            proc = watch.OuterProc(self._world.outer_proc, parents)
        self._watch = watch.Watch(proc, pid, self._limits["memory_bytes"], self._box)
        self._send_json({"event": "parked"})

    # ------------------------------------------------------------ the worker's side

    def _send(self, kind, payload):
        self._outgoing += frames.pack(kind, payload)
        self._flush()

    def _send_json(self, value):
        self._send(frames.JSON, json.dumps(value).encode())

    def _flush(self):
        """Writes what the worker takes now; never waits."""
        while self._outgoing:
            try:
                sent = self._worker.send(self._outgoing, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                os._exit(1)  # the worker has gone, and nobody is left to run for
            del self._outgoing[:sent]

    def _receive(self):
        try:
            data = self._worker.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        if not data:
            os._exit(0)
        return self._decoder.feed(data)

    # ------------------------------------------------------------ the run

    def serve(self):
        """Parked until the worker says what to run, then runs it and reports the end. Does not return."""
        order = None
        poll = select.poll()
        poll.register(self._worker, select.POLLIN)
        poll.register(self._guest, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._guest:
                    raise RuntimeError("the parked guest died")
                received = self._receive()
                for index, (kind, payload) in enumerate(received):
                    if kind == frames.JSON:
                        order = json.loads(payload)
                    elif kind == frames.CODE and order is not None:
                        Run(self, order, payload).go(received[index + 1 :])
                        os._exit(0)


class Run:
    """One run of one piece of code, from the moment that the guest gets it until the last byte of its output."""

    def __init__(self, warden, order, code):
        self._w = warden
        self._limits = warden._limits
        self._order = order
        self._code = code
        self._cause = None  # why we ended it: wall, cpu, memory, processes, workspace_bytes, workspace_files, cancelled
        self._figure = None  # the use that was over its limit
        self._value = None
        self._hint = None
        self._heard = 0
        self._interrupted_at = None
        self._exited = False
        self._poll = select.poll()
        self._pipes = {}
        self._next_workspace = 0.0

    def go(self, commands):
        """commands: frames that came in one piece with the code."""
        w = self._w
        with open(w._script, "wb") as file:
            file.write(self._code)
        w._control.setblocking(True)  # the guest is still our own code: it reads to the end
        w._control.sendall(frames.pack(frames.CODE, self._code))
        w._control.setblocking(False)
        w._send_json({"event": "started"})
        started = time.monotonic()
        self._deadline = started + self._order["wall_ms"] / 1000
        self._register()
        for kind, payload in commands:
            self._command(kind, payload)
        next_watch = started + WATCH_S
        while not self._exited and self._cause is None:
            now = time.monotonic()
            wait = max(0.0, min(next_watch, self._deadline) - now)
            self._serve_events(self._poll.poll(wait * 1000))
            now = time.monotonic()
            if self._exited or self._cause is not None:
                break
            if now >= self._deadline:
                self._cause = "wall"
            elif self._interrupted_at is not None and now - self._interrupted_at >= INTERRUPT_S:
                self._cause = "cancelled"
            elif now >= next_watch:
                self._reap()  # orphans that have died would fill the process limit
                self._look(now)
                next_watch = time.monotonic() + WATCH_S
        if self._interrupted_at is not None and self._cause is None:
            self._cause = "cancelled"
        self._finish(started)

    def _register(self):
        self._poll.register(self._w._worker, select.POLLIN)
        self._poll.register(self._w._guest, select.POLLIN)
        self._poll.register(self._w._control, select.POLLIN)
        for stream, kind in ((self._w._stdout, frames.STDOUT), (self._w._stderr, frames.STDERR)):
            self._pipes[stream.fd] = (stream, kind)
        self._reading = False
        self._read_pipes(True)

    def _read_pipes(self, on):
        """Stops and starts listening to the pipes: while the worker is slow, the code waits in its write."""
        if on != self._reading:
            for fd, (stream, _) in self._pipes.items():
                if not stream.closed:
                    (self._poll.register if on else self._poll.unregister)(fd, *([select.POLLIN] if on else []))
            self._reading = on
            self._poll.modify(self._w._worker, select.POLLIN if on else select.POLLIN | select.POLLOUT)

    def _serve_events(self, events):
        for fd, _ in events:
            if fd == self._w._guest:
                self._exited = True
            elif fd == self._w._worker.fileno():
                for kind, payload in self._w._receive():
                    self._command(kind, payload)
            elif fd == self._w._control.fileno():
                self._hear_guest()
            elif fd in self._pipes:
                self._pump(*self._pipes[fd])
        self._w._flush()
        self._read_pipes(len(self._w._outgoing) < BACKLOG)

    def _command(self, kind, payload):
        if kind == frames.JSON and json.loads(payload)["op"] == "cancel" and self._interrupted_at is None:
            self._interrupted_at = time.monotonic()
            _signal(self._w._guest, signal.SIGINT)

    def _pump(self, stream, kind):
        data = stream.read()
        if data:
            self._w._send(kind, data)
        if stream.closed:
            self._poll.unregister(stream.fd)

    def _hear_guest(self):
        """One value is taken; everything else, and anything malformed, is not heard any more."""
        try:
            data = self._w._control.recv(1 << 16)
            self._note(data)
            if data:
                return
        except BlockingIOError:
            return
        except (OSError, ValueError):
            pass
        self._poll.unregister(self._w._control)

    def _look(self, now):
        """The limits that nothing but a look can hold."""
        w, limits, seen = self._w, self._limits, self._w._watch
        if not w._world.has("watch"):
            return
        used = seen.memory()
        if used > limits["memory_bytes"]:
            self._cause, self._figure = "memory", used
        elif seen.processes() > limits["processes"] and not w._world.namespaces:
            self._cause, self._figure = "processes", seen.peak_processes
        elif seen.cpu_ms() > self._order["cpu_ms"]:
            self._cause, self._figure = "cpu", seen.cpu_ms()
        elif not w._world.own_tree and now >= self._next_workspace:
            self._look_at_workspace()
            took = time.monotonic() - now
            self._next_workspace = now + max(0.1, 10 * took)

    def _look_at_workspace(self):
        limits = self._limits
        box = os.path.dirname(self._w._place)
        used, count = workspace.usage(box, limits["workspace_files"] + 16)
        seen = self._w._watch
        for pid in seen.proc.processes():
            used += workspace.unlinked(seen.proc.folder, pid, box)
        seen.box_peak_bytes = max(seen.box_peak_bytes, used % workspace.UNREADABLE)
        seen.box_peak_files = max(seen.box_peak_files, count)
        if used > limits["workspace_bytes"]:
            self._cause, self._figure = "workspace_bytes", used if used < workspace.UNREADABLE else None
        elif count > limits["workspace_files"] + 8:
            self._cause, self._figure = "workspace_files", count

    # ------------------------------------------------------------ the end

    def _finish(self, started):
        w = self._w
        ended = time.monotonic()
        processes = w._watch.processes() if self._cause == "processes" else w._watch.peak_processes
        self._kill_all()
        for stream, kind in self._pipes.values():
            while not stream.closed:
                data = stream.read()
                if data is None:
                    break
                if data:
                    w._send(kind, data)
        self._hear_the_rest()
        for stream, kind in ((w._stdout, frames.STDOUT_TAIL), (w._stderr, frames.STDERR_TAIL)):
            tail = stream.tail()
            if tail:
                w._send(kind, tail)
        if self._value is not None:
            w._send(frames.VALUE, self._value)
        usage = os.times()
        found, more = workspace.listing(w._place, self._limits["workspace_files"] + 64)
        w._send_json(
            {
                "event": "end",
                "cause": self._cause,
                "figure": self._figure,
                "hint": self._hint or self._limit_reached(found),
                "run_ms": round((ended - started) * 1000),
                # Orphans and what was killed, waited for here; the guest and its children are in the zygote's count.
                "cpu_seen_ms": w._watch.cpu_seen_ms,
                "cpu_ms": round((usage.children_user + usage.children_system) * 1000),
                "peak_bytes": w._watch.peak_bytes,
                "baseline_bytes": w._watch.baseline,
                "peak_processes": processes,
                "workspace_bytes": w._watch.box_peak_bytes,
                "workspace_files": w._watch.box_peak_files,
                "workspace_full": w._watch.box_full_bytes,
                "workspace_files_full": w._watch.box_full_files,
                "stdout_total": w._stdout.total,
                "stderr_total": w._stderr.total,
                "files": found,
                "files_more": more,
            }
        )
        limit = time.monotonic() + FLUSH_S
        poll = select.poll()
        poll.register(w._worker, select.POLLOUT)
        while w._outgoing and time.monotonic() < limit:
            poll.poll(100)
            w._flush()

    def _limit_reached(self, files):
        """A limit that the code met and lived with, by what it left: a file of just that size."""
        if any(file["bytes"] == self._limits["file_bytes"] for file in files):
            return "file_size"
        return None

    def _kill_all(self):
        """SIGKILL to everything but this process, until nothing is left: then the pipes hold all that was written."""
        w = self._w
        limit = time.monotonic() + SWEEP_S
        guest = select.poll()
        guest.register(w._guest, select.POLLIN)
        while time.monotonic() < limit:
            if os.getpid() == 1:  # of a pid namespace of its own: -1 is all that is in it, and nobody else
                try:
                    os.kill(-1, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            else:
                _signal(w._guest, signal.SIGKILL)
            gone = bool(guest.poll(0 if self._exited else 20))
            left = self._reap()
            if gone and not left:
                break
            if gone:
                time.sleep(0.002)
        w._watch._look_into_box()

    def _reap(self):
        """Waits for the orphans that have died; whether any still lives."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True

    def _hear_the_rest(self):
        """A value that was sent in the last moment."""
        try:
            while True:
                data = self._w._control.recv(1 << 16)
                if not data:
                    return
                self._note(data)
        except (OSError, ValueError):
            return

    def _note(self, data):
        self._heard += len(data)
        if self._heard > CONTROL_LIMIT:
            raise ValueError("more than a guest has to say")
        for kind, payload in self._w._control_decoder.feed(data):
            if kind == frames.VALUE and self._value is None:
                self._value = payload
            elif kind == frames.LIMIT and payload in HINTS:
                self._hint = payload.decode()


def _signal(pidfd, number):
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass
