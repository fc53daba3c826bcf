"""What is passed on of one output stream: its beginning at once, its last bytes at the end, and how much there was."""

import os

CHUNK = 1 << 16


class Stream:
    """Reads a pipe without waiting. `first` bytes go out as they come; of the rest the last `last` bytes are kept."""

    def __init__(self, fd, first, last):
        self.fd = fd
        self.total = 0
        self.closed = False
        self._first = first
        self._last = last
        self._tail = bytearray()
        os.set_blocking(fd, False)

    def read(self):
        """The bytes to pass on now (b"" for none), or None when the pipe had nothing."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return None
        if not data:
            self.closed = True
            return None
        room = max(0, self._first - self.total)
        self.total += len(data)
        rest = data[room:]
        if rest:
            self._tail += rest
            if len(self._tail) > 2 * self._last + CHUNK:
                del self._tail[: len(self._tail) - self._last]
        return data[:room]

    def tail(self):
        """The last bytes of what was not passed on."""
        return bytes(self._tail[-self._last :])
