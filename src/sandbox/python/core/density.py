"""Keeps together in memory what forked processes use together.

A child of a fork shares its parent's pages until one of the two writes to one, and Python writes to whatever it looks at: the
count of references is in the object. So the price of a child is the number of pages on which the objects lie that it uses.
"""

import os
import struct

from . import linux, workspace

_LARGE_FILE = 256 << 10
HUGE = 2 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FULL = HUGE // _PAGE * 7 // 8
_PROTECTION = {b"r--p": 1}  # PROT_READ
if linux.ARCH == "x86_64":
    _PROTECTION[b"r-xp"] = 5  # and PROT_EXEC; on aarch64 it would come back without its guarded jumps (BTI)


def hand_down_files(maps):
    """Makes forks copy the page tables of the interpreter's and the libraries' files.

    maps: bytes of this process's list of mappings. The kernel leaves out mappings of files, which each child would fault in
    again piece by piece, but not those of which the process has a page of its own: so one byte of each is written as it is.
    Where that is not allowed, forks stay as they were.
    """
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith(b"/") or fields[1] not in _PROTECTION:
            continue
        start, end = (int(part, 16) for part in fields[0].split(b"-"))
        if end - start < _LARGE_FILE:
            continue  # each mapping costs a fork something as well
        linux.touch_private(start, end - start, _PROTECTION[fields[1]])


def collapse(proc):
    """Puts this process's own memory into huge pages where these would be nearly full: a fork copies one entry of a page table
    for each. Where there are no huge pages all stays as it is.

    proc: descriptor of a /proc that shows this process.
    """
    for place in _huge_places(workspace.read_all(proc, "self/maps")):
        if _pages_in(proc, place) >= _FULL:
            linux.collapse(place, HUGE)


def _huge_places(maps):
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if fields[1] == b"rw-p" and (len(fields) < 6 or fields[5] == b"[heap]"):
            start, end = (int(part, 16) for part in fields[0].split(b"-"))
            yield from range(-(-start // HUGE) * HUGE, end - HUGE + 1, HUGE)


def _pages_in(proc, place):
    """How many of the pages of a huge place are there; what is sparse would grow."""
    fd = os.open("self/pagemap", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    try:
        entries = os.pread(fd, HUGE // _PAGE * 8, place // _PAGE * 8)
    finally:
        os.close(fd)
    return sum(entry >> 63 for (entry,) in struct.iter_unpack("=Q", entries))
