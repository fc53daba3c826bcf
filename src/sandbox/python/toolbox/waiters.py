"""Who waits for an answer: a thread, or a task of an event loop."""

import threading

_thread_number = threading.get_ident


class Waiter:
    """A thread that waits. Its lock is taken but for the moment in which there is something for it to look at."""

    def __init__(self):
        self.thread = _thread_number()
        self.done = False
        self.waits = False  # or it still sends
        self.payload = None
        self._lock = threading.Lock()
        self._lock.acquire()
        self.sleep = self._lock.acquire

    def wake(self):
        if self._lock.locked():
            self._lock.release()

    def deliver(self, payload):
        if not self.done:
            self.payload = payload
            self.done = True
            self.wake()


class Awaiter:
    """A task that awaits."""

    waits = False  # never reads for others

    def __init__(self, loop):
        self._loop = loop
        self.future = loop.create_future()

    def deliver(self, payload):
        try:
            self._loop.call_soon_threadsafe(self._settle, payload)
        except RuntimeError:
            pass  # its loop is closed

    def _settle(self, payload):
        if not self.future.done():
            self.future.set_result(payload)
