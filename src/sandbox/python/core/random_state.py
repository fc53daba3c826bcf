"""Random state that differs in each guest: forks share that of their zygote, numpy's as well as Python's own."""

import os
import random
import struct
import sys

from . import linux

_WORDS = 624  # of the state of numpy's MT19937, each of 32 bits; behind them an int, the word that is next
_END = struct.pack("=i", _WORDS)  # all words are used: the next number asks for new ones
_address = 0


def prepare():
    """In the zygote. Where numpy's state lies, if it is there and looks as expected: filled directly it takes a hundredth of
    the time of seed(), which runs code of several modules in each guest."""
    global _address
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return
    try:
        numpy_random.seed()  # forgets what the state was made from, and the second half of a pair of normal numbers
        address = numpy_random.mtrand._rand._bit_generator.ctypes.state_address
        name, words, at = numpy_random.get_state()[:3]
        found = linux.bytes_at(address, 4 * _WORDS + len(_END))
        if name == "MT19937" and found == words.tobytes() + struct.pack("=i", at):
            _address = address
    except Exception:
        pass  # another version's way: seed() it is


def renew():
    """In the guest."""
    random.seed()
    if _address:
        linux.overwrite(_address, os.urandom(4 * _WORDS) + _END)
    elif "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
