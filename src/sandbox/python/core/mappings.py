"""What a process has mapped: figures for which the kernel takes its lock, so that it can keep whoever asks waiting (reader.py)."""

import os

from . import processes

LONGEST = 1 << 20  # of a list of mappings; a process with a longer one counts with all that it maps
# Of shared anonymous mappings: all, and those that were given a name, which no filter of ours lets through.
_NAMES = (b"/dev/zero (deleted)", b"[anon_shmem:")


def shared_objects(folder, pid):
    """{object: bytes} of the shared anonymous memory that a process maps; None in place of it where its list is too long.

    Such memory can hold what no process shows as resident: its pages stay when the process that filled them ends, or drops
    them from its page tables with madvise(), for as long as anybody maps them. How many there are is nowhere to be read
    without privilege, so it counts with its size.
    """
    for path in processes.with_threads(folder, pid, "maps"):
        try:
            text = _read(folder, path)
        except OSError:
            continue
        if len(text) >= LONGEST:
            return None
        if text:
            return _sum_up(text)
    return {}


def _read(folder, path):
    """A list of mappings, up to LONGEST bytes and a piece."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
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
    for name in _NAMES:
        at = text.find(name)
        while at >= 0:
            fields = text[text.rfind(b"\n", 0, at) + 1 : at].split()
            start, _, end = fields[0].partition(b"-")
            reach = int(fields[2], 16) + int(end, 16) - int(start, 16)
            found[fields[4]] = max(found.get(fields[4], 0), reach)
            at = text.find(name, text.find(b"\n", at) + 1 or len(text))
    return found


def exact(folder, pid):
    """(anonymous, private, shared memory, all anonymous pages) of a process, in bytes; in the first and the third, what
    several processes share counts for each in part. None where it has gone, or can't be read."""
    for path in processes.with_threads(folder, pid, "smaps_rollup"):
        try:
            text = processes.read(folder, path)
        except OSError:
            continue
        total = processes.field(text, b"Pss:")
        if total is None:
            continue
        anonymous, shared = processes.field(text, b"Pss_Anon:"), processes.field(text, b"Pss_Shmem:")
        if anonymous is None:  # before Linux 5.9
            anonymous, shared = total, 0
        private = processes.field(text, b"Private_Dirty:") or 0
        return anonymous, max(0, private - (shared or 0)), shared or 0, processes.field(text, b"Anonymous:") or 0
    return None
