"""Shared anonymous memory, which can hold what no process shows as resident.

Its pages stay when the process that filled them ends, or drops them from its page tables with madvise(), for as long as
anybody maps them. How many there are is nowhere to be read without privilege, so it counts with its size.
"""

import os
import time

REREAD_S = 0.25
REREAD_BYTES = 4 << 20  # a change in what is mapped after which a process is looked at anew at once
BUDGET_S = 0.005  # of one look: a long list must not keep the warden from the time and the output
LONGEST = 1 << 20  # of a list of mappings; a process with a longer one counts with all that it maps
_NAME = b"/dev/zero (deleted)"  # of every shared anonymous mapping


class SharedMemory:
    """The bytes of shared anonymous memory that a sandbox's processes map."""

    def __init__(self, folder):
        self._folder = folder  # descriptor of /proc
        self._seen = {}  # pid -> (bytes mapped, time of the look, {object: bytes})

    def bytes(self, mapped, now):
        """mapped: {pid: bytes mapped}."""
        self._seen = {pid: seen for pid, seen in self._seen.items() if pid in mapped}
        # Who has waited longest comes first, so that many processes can't keep one of them out of sight.
        order = sorted(mapped, key=lambda pid: self._seen[pid][1] if pid in self._seen else 0.0)
        for pid in order:
            size, when, _ = self._seen.get(pid, (0, 0.0, None))
            if now - when >= REREAD_S or abs(mapped[pid] - size) >= REREAD_BYTES:
                self._seen[pid] = mapped[pid], now, self._objects(pid, mapped[pid])
                if time.monotonic() - now > BUDGET_S:
                    break
        objects = {}
        for _, _, found in self._seen.values():
            for name, size in found.items():
                objects[name] = max(size, objects.get(name, 0))
        return sum(objects.values())

    def _objects(self, pid, mapped):
        """{object: bytes} of a process; a thread of it is asked where its leader has ended and shows nothing any more."""
        for path in self._paths(pid):
            try:
                text = self._read(path)
            except OSError:
                continue
            if len(text) >= LONGEST:
                return {pid: mapped}
            if text:
                return _sum_up(text)
        return {}

    def _paths(self, pid):
        yield f"{pid}/maps"
        try:
            tasks = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            return
        try:
            threads = os.listdir(tasks)
        finally:
            os.close(tasks)
        yield from (f"{pid}/task/{thread}/maps" for thread in threads)

    def _read(self, path):
        """A list of mappings, up to LONGEST bytes and a piece."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            text = b""
            while len(text) < LONGEST:
                piece = os.read(fd, 1 << 16)
                if not piece:
                    break
                text += piece
            return text
        finally:
            os.close(fd)


def _sum_up(text):
    """{inode: bytes} of a list of mappings. An object that is mapped in part still holds all up to there."""
    found = {}
    at = text.find(_NAME)
    while at >= 0:
        fields = text[text.rfind(b"\n", 0, at) + 1 : at].split()
        start, _, end = fields[0].partition(b"-")
        reach = int(fields[2], 16) + int(end, 16) - int(start, 16)
        found[fields[4]] = max(found.get(fields[4], 0), reach)
        at = text.find(_NAME, at + 1)
    return found
