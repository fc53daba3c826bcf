"""The holes in the memory of Python and of libc, and what fills them: see density.py.

Imports nothing of ours, so that all of ours can come after it.
"""

import ctypes

_sbrk = ctypes.CDLL(None).sbrk
_sbrk.restype = ctypes.c_void_p
_POOL = 1 << 14  # of the small-object allocator
_HEADER = 48
_SMALL_MOST = 512
_SMALL_BYTES = 1 << 19  # for each size at most: where memory comes from another allocator no place is the first of a pool
_LARGE = [1 << 15, 1 << 14, 1 << 13, 1 << 12, 3 << 10, 1 << 11, *range(1_792, _SMALL_MOST, -64)]
_LARGE_TRIES = 400
_END_OF_HEAP = 1 << 18  # bytes within which a block of libc's has not been put into a hole


def fill():
    """Makes the allocators of Python and of libc start on fresh pages. Returns what fills the free places: to be kept."""
    fillers = []
    end = (_sbrk(0) or 0) - _END_OF_HEAP
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


def _small(size):
    """An object that takes a block of `size` bytes, without a header of the collector."""
    if size == 16:
        return object()
    return bytes(size - 33) if size > 32 else int("9999999999")
