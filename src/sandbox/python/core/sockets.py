"""What waits in sockets, which is no process's memory: beyond the first few, each counts with all that it can hold."""

import os
import socket

from . import processes

FREE = 8  # sockets that nobody has to account for
OWN = 1  # by which the guest hears from its warden


def _default_buffer():
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with probe:
        return max(probe.getsockopt(socket.SOL_SOCKET, name) for name in (socket.SO_SNDBUF, socket.SO_RCVBUF))


# A buffer with room for one byte more still takes one message of up to its size. Code can't change sizes: see the filters.
BYTES = 2 * _default_buffer()


class Sockets:
    """Those of a network namespace of its own."""

    def __init__(self, folder, tcp_bytes):
        """folder: descriptor of a /proc. tcp_bytes: to which the buffers of a TCP connection may grow; None where that is
        still to be found out."""
        self._folder = folder
        self._tcp_grows = (self._largest_tcp() if tcp_bytes is None else tcp_bytes) > BYTES
        self._at_start = self._count()[0]

    def bytes(self, _pids):
        count, tcp = self._count()
        held = max(0, count - self._at_start - FREE) * BYTES
        if self._tcp_grows and tcp > FREE:
            held += self._in_tcp()
        return held

    def _count(self):
        """(all, TCP): with those that nobody has accepted yet, and those that are closed but not empty."""
        try:
            text = processes.read(self._folder, "self/net/sockstat")
            used, tcp = int(text.split(None, 3)[2]), _in_use(text)  # "sockets: used N"
            if self._tcp_grows:
                tcp += _in_use(processes.read(self._folder, "self/net/sockstat6"))
        except (OSError, IndexError, ValueError):
            return 0, 0
        return used, tcp

    def _largest_tcp(self):
        """Bytes to which the buffers of a connection may grow by themselves; the warden makes that little where it can."""
        total = 0
        for name in ("tcp_rmem", "tcp_wmem"):
            try:
                total += int(processes.read(self._folder, f"sys/net/ipv4/{name}").split()[2])
            except (OSError, IndexError, ValueError):
                return 1 << 30
        return total

    def _in_tcp(self):
        """Twice the bytes that wait in TCP connections: what the kernel keeps about them takes as much again at most."""
        waiting = 0
        for name in ("tcp", "tcp6"):
            try:
                lines = _read_all(self._folder, f"self/net/{name}").splitlines()[1:]
            except OSError:
                continue
            for line in lines:
                sent, _, received = line.split(None, 5)[4].partition(b":")
                waiting += int(sent, 16) + int(received, 16)
        return 2 * waiting


class SocketsOf:
    """Those that processes have open, where the network is not theirs alone: each is an end of a stream pair, since no others
    can be made there, and can't be sent to anybody."""

    def __init__(self, folder):
        self._folder = folder

    def bytes(self, pids):
        found = set()
        for pid in pids:
            names = processes.listing(self._folder, f"{pid}/fd")
            if len(names) <= FREE + OWN:
                continue
            for name in names:
                try:
                    target = os.readlink(f"{pid}/fd/{name}", dir_fd=self._folder)
                except OSError:
                    continue
                if target.startswith("socket:"):
                    found.add(target)
        return max(0, len(found) - FREE - OWN) * BYTES


def _in_use(text):
    at = text.find(b"\nTCP")  # "TCP: inuse N", or "TCP6: inuse N" in the first line of all
    return int(text[max(0, at) :].split(None, 3)[2])


def _read_all(folder, path):
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()
