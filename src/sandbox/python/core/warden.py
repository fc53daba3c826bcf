"""The warden: one per sandbox, PID 1 of its namespaces. Makes the place, watches the guest in it, and ends it.

It passes the code to the guest and the guest's output to the worker. When it exits the kernel kills what is left. All that
comes from the guest's side is data: bounded, checked, handed on.
"""

import _signal
import _socket
import fcntl
import json
import os
import select
import signal
import socket
import struct

from . import errors, frames, inputs, linux, lockdown, processes, root, watch
from .capture import Stream
from .run import FRAME_LIMIT, Run

UID_INSIDE = 1000
_LOOPBACK_UP = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # struct ifreq: IFF_UP | IFF_RUNNING
_SIOCSIFFLAGS = 0x8914
_TCP_MOST = 131072  # bytes of each buffer of a connection
READY_MS = 30_000  # for a guest to lock itself down


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
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    try:
        os.setsid()  # a signal to a process group crosses pid namespaces: nobody shares ours
        top = _enter(world, command)
        Warden(world, command, sock, link, top).serve()
        os._exit(0)
    except BaseException as error:
        try:
            sock.sendall(frames.pack_json({"event": "failed", "message": errors.describe(error)}))
        except BaseException:
            errors.show()
    os._exit(1)


def _enter(world, command):
    """The uid of this slot, inside and outside. Returns a descriptor of the sandbox's folder, where it has one on the host."""
    uid_base = world.boot["uid_base"]
    uid, gid = (uid_base + command["slot"],) * 2 if uid_base is not None else world.ids
    top = None
    if not world.namespaces:
        _make_box(world, command, uid)
    if not world.own_tree:
        top = os.open(_box(world, command), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
    return top


def _box(world, command):
    return f"{world.boot['boxes_dir']}/{command['sandbox']}"


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

    Where there is no /proc of its own the kernel's defaults stay, and the watch looks at what waits in connections. Returns
    the bytes of both buffers of a connection together; None where the defaults stayed.
    """
    if proc is None:
        return None
    try:
        for path in ("sys/net/ipv4/tcp_rmem", "sys/net/ipv4/tcp_wmem"):
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
            os.write(fd, b"4096 65536 %d" % _TCP_MOST)
            os.close(fd)
    except OSError:
        return None
    return 2 * _TCP_MOST


def _make_box(world, command, uid):
    """The sandbox's folder on the host, where it has no file tree of its own. The template removes it when all is over.

    It is root's where root makes it, so that its mode is not the code's to change: it could lock the warden out of it.
    """
    box = _box(world, command)
    os.mkdir(box, 0o700)
    for name in ("work", "code", "home", "home/sandbox", "tmp"):
        os.mkdir(f"{box}/{name}", 0o700)
        if world.boot["uid_base"] is not None:
            os.chown(f"{box}/{name}", uid, uid)
    if world.boot["uid_base"] is None:
        return
    if world.namespaces:  # of a test without the mount namespace: nobody in a user namespace could open it otherwise
        os.chown(box, uid, uid)
    else:
        os.chmod(box, 0o711)


def _one_way():
    """Two sockets: what is written to the first is read from the second. Nothing can be written to the second, for good."""
    first, second = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    second.shutdown(_socket.SHUT_WR)
    return first, second


class Warden:
    def __init__(self, world, command, sock, link, top):
        """top: descriptor of the sandbox's folder on the host, or None."""
        self.prepare(world, command["limits"], sock)
        self.group = command["group"]
        self.top = top
        linux.set_name("warden")
        proc, box = None, None
        if world.own_tree:
            # Nothing is shared with the template's mounts, which are all private, and so are their copies.
            box = root.furnish(self.limits, world.boot["trees"])
            proc = root.mount_proc() if world.own_pids else None
        if world.namespaces and world.has("net"):
            self._raise_loopback()
            self._tcp_bytes = _shrink_tcp(proc)
        if world.namespaces and world.has("uts"):
            socket.sethostname("sandbox")
        self.place = "/work" if world.own_tree else f"{_box(world, command)}/work"
        self._box = box
        self._proc_fd = proc
        # Opened now: once locked, this process writes nothing but what it has open.
        self.script = os.open(
            os.path.join(os.path.dirname(self.place), "code", "main.py"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self.make_parts(link)
        lockdown.lock_warden(world.filters)
        self.await_guest()

    def prepare(self, world, limits, worker):
        """What a rehearsal has as well."""
        self.world = world
        self.limits = limits
        self.worker = worker
        self.outgoing = bytearray()
        # Of a pid namespace of its own: all in it is this sandbox's.
        self.is_init = os.getpid() == 1
        self.children = -1
        self._decoder = frames.Decoder()
        self._proc_fd = None
        self._tcp_bytes = None
        self._box = None
        self.top = None
        self.group = None

    def _raise_loopback(self):
        """Brings up lo, so that code can test its server against its client."""
        probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
        fcntl.ioctl(probe.fileno(), _SIOCSIFFLAGS, _LOOPBACK_UP)
        probe.close()

    def make_parts(self, link):
        """Pipes belong to the sandbox's uid, so that /dev/stdout can be opened. Their far ends, and the namespaces, go to the
        zygote. No socket leads from the guest: it would carry descriptors, which this process would have to close. But one leads
        to it: who has one end of a pipe open can open the other by /proc, and write itself what the worker has not answered."""
        stdout, stdout_far = os.pipe()
        stderr, stderr_far = os.pipe()
        orders, orders_far = (end.detach() for end in _one_way())
        words, words_far = os.pipe()
        self.control = frames.Pipes(words, orders)
        self.control_decoder = frames.Decoder(FRAME_LIMIT)
        limits = self.limits
        self.stdout = Stream(stdout, limits["stdout_first"], limits["stdout_last"])
        self.stderr = Stream(stderr, limits["stderr_first"], limits["stderr_last"])
        parts = [stdout_far, stderr_far, orders_far, words_far]
        for layer in self.world.parts[len(parts) :]:
            path = "self/ns/mnt" if layer == "mount" else "self/ns/" + layer
            parts.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.world.outer_proc))
        if self.group is not None:
            parts.append(self.group.door)  # after those that each sandbox has
        socket.send_fds(link, [b"p"], parts)
        link.close()
        for fd in parts:
            os.close(fd)

    def await_guest(self):
        """Waits for the guest to be locked down. Until it has its code, what it says is our own code's word."""
        poll = select.poll()
        poll.register(self.control.incoming, select.POLLIN)
        if not poll.poll(READY_MS):
            raise RuntimeError("the guest did not get ready")
        message = frames.Channel(self.control).receive()
        os.set_blocking(self.control.incoming, False)
        if message is None:
            raise RuntimeError("the guest ended before it was ready")
        kind, payload = message
        if kind != frames.READY:
            raise RuntimeError(f"the guest could not be locked down: {payload.decode('utf-8', 'replace')}")
        self._pid, outer_pid = frames.WORD.unpack(payload)
        self.guest = os.pidfd_open(self._pid)
        if self._proc_fd is not None:
            proc, pid = processes.OwnProc(self._proc_fd), self._pid
        else:
            pid = outer_pid
            own = os.readlink("self", dir_fd=self.world.outer_proc)
            parents = [own, pid] if self.world.own_pids else [pid]
            proc = processes.OuterProc(self.world.outer_proc, parents)
        self.watch = watch.Watch(proc, pid, self.limits["memory_bytes"], self._box, self._pid, self._tcp_bytes)
        if self.group is not None:
            self.group.park(self.limits["memory_bytes"])
        self.send_frame(frames.PARKED)

    # ------------------------------------------------------------ the worker's side

    def send(self, kind, payload):
        self.send_frame(frames.pack(kind, payload))

    def send_frame(self, frame):
        self.outgoing += frame
        self.flush()

    def send_json(self, value):
        self.send(frames.JSON, json.dumps(value).encode())

    def flush(self):
        """Writes what the worker takes now; never waits."""
        while self.outgoing:
            try:
                sent = self.worker.send(self.outgoing, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                os._exit(1)  # the worker has gone, and nobody is left to run for
            del self.outgoing[:sent]

    def receive(self):
        try:
            data = self.worker.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        if not data:
            os._exit(0)
        return self._decoder.feed(data)

    # ------------------------------------------------------------ the run

    def serve(self):
        """Parked until the worker says what to run, then runs it and reports the end."""
        order = given = None
        early = []  # said before the code has come
        poll = select.poll()
        poll.register(self.worker, select.POLLIN)
        poll.register(self.guest, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self.guest:
                    raise RuntimeError("the parked guest died")
                received = self.receive()
                for index, (kind, payload) in enumerate(received):
                    if kind == frames.JSON and order is None:
                        order = json.loads(payload)
                        if order["guest"].get("inputs"):
                            given = inputs.Inputs(self, order["guest"])
                    elif kind in (frames.INPUT, frames.INPUT_BYTES, frames.INPUTS_END) and given is not None:
                        given.take(kind, payload)
                    elif kind == frames.CODE and order is not None:
                        Run(self, order, payload, given).go(early + received[index + 1 :])
                        return
                    elif kind == frames.JSON:
                        early.append((kind, payload))
