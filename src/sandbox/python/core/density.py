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
_POOL = 1 << 14  # of the small-object allocator
_HEADER = 48
_SMALL_MOST = 512
_SMALL_BYTES = 1 << 19  # for each size at most: where memory comes from another allocator no place is the first of a pool
_LARGE = [1 << 15, 1 << 14, 1 << 13, 1 << 12, 3 << 10, 1 << 11, *range(1_792, _SMALL_MOST, -64)]
_LARGE_TRIES = 400
_END_OF_HEAP = 1 << 18  # bytes within which a block of libc's has not been put into a hole


def fill_holes():
    """Makes the allocators of Python and of libc start on fresh pages. Returns what fills the free places: to be kept."""
    fillers = []
    end = linux.end_of_heap() - _END_OF_HEAP
    for size in _LARGE:
        for _ in range(_LARGE_TRIES):
            fillers.append(bytes(size))
            if id(fillers[-1]) > end:
                break
    for size in range(16, _SMALL_MOST + 1, 16):
        for _ in range(_SMALL_BYTES // size):
            fillers.append(_small(size))
            if id(fillers[-1]) % _POOL == _HEADER:
                break  # the first of its pool: all others of this size are full
    return fillers


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


def _small(size):
    """An object that takes a block of `size` bytes, without a header of the collector."""
    if size == 16:
        return object()
    return bytes(size - 33) if size > 32 else int("9999999999")
