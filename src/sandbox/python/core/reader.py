"""Asks for figures that a process can hold back (mappings.py), in a thread, so that nothing else of the watch waits for them.

A process that keeps the kernel's lock on its memory busy, say with one mmap() of gigabytes, keeps everybody waiting who asks
what it has mapped. The thread is started when something is asked for the first time: most sandboxes never have it.
"""

import _thread
import time

from . import mappings

WAIT_S = 0.01  # most answers come within: waited for, so that a look decides by figures of now
STACK_BYTES = 256 << 10
# Looks in a row that find the same answer missing: beyond the first few it is kept from us, and after so many (added up
# over all that was asked together) what is missing counts in full.
PATIENCE = 3
STUCK = 6
# A look that comes later than this has itself waited for a processor: then the thread has too, and nobody keeps anything.
LATE_S = 0.06

OBJECTS, EXACT = mappings.shared_objects, mappings.exact


class Reader:
    def __init__(self, folder):
        self._folder = folder  # descriptor of /proc
        self._asked = None  # [(OBJECTS or EXACT, pid)]
        self._answers = []
        self._wake = self._done = None
        self._started_at = self._seen_at = self._rest_until = 0.0
        self._taken = self._seen = self._same = self._stuck = 0

    def idle(self, now):
        """Whether something may be asked: it works for half of the time at most."""
        return self._asked is None and now >= self._rest_until

    def ask(self, questions, now):
        """questions: [(OBJECTS or EXACT, pid)]. Only when idle."""
        self._asked, self._answers = questions, []
        self._started_at = self._seen_at = now
        self._taken = self._seen = self._same = self._stuck = 0
        try:
            if self._wake is None:
                wake, done = _thread.allocate_lock(), _thread.allocate_lock()
                wake.acquire()
                done.acquire()
                before = _thread.stack_size(STACK_BYTES)
                try:
                    _thread.start_new_thread(self._serve, (wake, done))
                finally:
                    _thread.stack_size(before)
                self._wake, self._done = wake, done
        except RuntimeError:  # no thread to be had: late figures are better than none
            self._read()
            return
        self._wake.release()

    def answers(self):
        """([((OBJECTS or EXACT, pid), answer)] that have come since the last time, whether these are the last)."""
        if self._asked is None:
            return [], False
        last = self._wake is None or self._done.acquire(timeout=WAIT_S)
        come = list(zip(self._asked, self._answers))[self._taken :]
        self._taken += len(come)
        if last:
            now = time.monotonic()
            self._rest_until = now + (now - self._started_at)
            self._asked = None
        return come, last

    def missing(self, now):
        """(what is asked and not answered, whether its first is kept from us, whether all of it counts in full).

        To be asked once in each look.
        """
        if self._asked is None:
            return (), False, False
        read, late = len(self._answers), now - self._seen_at > LATE_S
        self._seen_at = now
        if read != self._seen:
            self._seen, self._same = read, 0
        elif not late:
            self._same += 1
            self._stuck += self._same > PATIENCE
        return self._asked[read:], self._same >= PATIENCE, self._stuck >= STUCK

    def _serve(self, wake, done):
        while True:
            wake.acquire()
            self._read()
            done.release()

    def _read(self):
        for kind, pid in self._asked:
            try:
                self._answers.append(kind(self._folder, pid))
            except Exception:
                self._answers.append(None)  # as what can't be read
