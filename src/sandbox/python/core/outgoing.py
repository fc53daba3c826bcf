"""The guest's pipe to the warden, written by all threads of the run and the processes that it forks: whole frames only.

A signal's handler may raise between any two steps here, and may itself send. So what was written of a frame is noted in the same
call that writes it (a C function that the interpreter does not interrupt), and whoever sends next ends what was left begun.
"""

import collections
import errno
import fcntl
import os
import select
import threading
import time

# The code may replace what it finds in os.
_getpid, _fstat, _write, _poll, _lockf = os.getpid, os.fstat, os.write, select.poll, fcntl.lockf
_AT_ONCE = 4096  # PIPE_BUF: a pipe with any room takes that much in one piece
_TRIES = 50
_known = {}


def of(fd):
    """The one Outgoing of a descriptor."""
    if fd not in _known:
        _known[fd] = Outgoing(fd)
    return _known[fd]


class Outgoing:
    def __init__(self, fd):
        self.fd = fd
        self._pid = _getpid()
        self._identity = self._look()
        self._lock = threading.RLock()
        self._begun = None  # (frame, counts of the bytes that were written of it)
        self._poll = _poll()
        self._poll.register(fd, select.POLLOUT)

    def _look(self):
        status = _fstat(self.fd)
        return status.st_dev, status.st_ino

    @property
    def is_forked(self):
        """Whether this process is a fork of the one that the code began in."""
        return _getpid() != self._pid

    def send(self, frame, meanwhile=None):
        """Waits until the pipe has taken all of it. meanwhile: called each time that the pipe is full; it may wait, but not
        longer than until there is room. Raises OSError where the code has closed the pipe."""
        if self._look() != self._identity:
            raise OSError(errno.EBADF, "the code has closed the pipe to the worker")
        if self.is_forked:
            self._send_from_fork(frame)
            return
        with self._lock:
            self._finish(meanwhile)
            if len(frame) > _AT_ONCE:
                self._exclude(fcntl.LOCK_EX)
            self._begun = (memoryview(frame), collections.deque())
            self._finish(meanwhile)

    def _finish(self, meanwhile):
        while self._begun is not None:
            frame, counts = self._begun
            sent = sum(counts)
            if sent == len(frame):
                if len(frame) > _AT_ONCE:
                    self._exclude(fcntl.LOCK_UN)
                self._begun = None
                return
            if len(counts) > 64:
                counts = collections.deque([sent])
                self._begun = (frame, counts)
            if not self._poll.poll(0):
                (meanwhile or self.await_room)()
                continue
            counts.extend(map(_write, (self.fd,), (frame[sent : sent + _AT_ONCE],)))

    def await_room(self, milliseconds=None):
        self._poll.poll(milliseconds)

    def _exclude(self, how):
        """Other processes, for as long as a frame is written that takes more than one write. Threads have the lock."""
        try:
            _lockf(self.fd, how)
        except OSError as error:
            if error.errno is None:
                raise  # out of a signal's handler
            # Not to be had here: then two processes that write at the same moment spoil it, for their own run

    def _send_from_fork(self, frame):
        """What the lock was when it was forked says nothing. It is a word that may be lost rather than wait for long."""
        for _ in range(_TRIES):
            try:
                _lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.001)
        else:
            return
        try:
            rest = memoryview(frame)
            while rest:
                rest = rest[_write(self.fd, rest) :]
        finally:
            self._exclude(fcntl.LOCK_UN)
