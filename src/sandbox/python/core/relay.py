"""The way of tool calls through the warden: the guest's requests on to the worker, the answers back, neither looked into."""

import collections
import os
import select

from . import frames

REPORTED = 256 << 10  # bytes that the guest takes before the worker hears of it; it never has more than four times as many on the way
REQUEST_LIMIT = 4 << 20  # of one request
# Passed on and not done with: guest-calls.ts is the other end. What is over it waits in the guest's pipe.
REQUESTS_MOST = 256
REQUESTS_MOST_BYTES = 8 << 20


class Relay:
    """Answers wait here until the guest reads them. Never waits itself."""

    def __init__(self, warden, poll):
        self._warden = warden
        self._poll = poll
        self._waiting = bytearray()
        self._taken = 0
        self._closed = self._registered = False
        self._held = collections.deque()
        self._open = self._open_bytes = 0
        os.set_blocking(warden.control.outgoing, False)

    @property
    def fd(self):
        return self._warden.control.outgoing

    def request(self, payload):
        self._held.append(payload)
        self._pass_on()

    @property
    def is_full(self):
        """Whether the guest should be left alone: what it sends can't be passed on now."""
        return bool(self._held)

    def heard(self, requests, size):
        """So many requests, of so many bytes, are done with."""
        self._open -= requests
        self._open_bytes -= size
        self._pass_on()

    def _pass_on(self):
        held = self._held
        while held and self._open < REQUESTS_MOST and self._open_bytes + len(held[0]) <= REQUESTS_MOST_BYTES:
            payload = held.popleft()
            self._open += 1
            self._open_bytes += len(payload)
            self._warden.send(frames.REQUEST, payload)

    def answer(self, data):
        """data: bytes of the stream to the guest, whatever frames they belong to."""
        idle = not self._waiting
        self._waiting += data
        if idle:
            self.flush()
            if self._waiting:
                self._poll.register(self.fd, select.POLLOUT)
                self._registered = True

    def flush(self):
        """Writes what the guest's pipe takes now."""
        while self._waiting:
            try:
                written = os.write(self.fd, self._waiting[: 1 << 16]) if not self._closed else len(self._waiting)
            except BlockingIOError:
                return
            except OSError:
                self._closed = True  # the guest reads no more: what comes is taken all the same, so that nobody waits
                continue
            del self._waiting[:written]
            self._taken += written
            if self._taken >= REPORTED:
                self._warden.send_json({"event": "took", "bytes": self._taken})
                self._taken = 0

    def writable(self):
        self.flush()
        if not self._waiting:
            self._leave_poll()

    def close(self):
        """Nobody hears the guest any more: it sees the end of the stream instead of waiting for answers that can't come."""
        self._leave_poll()
        if not self._closed:
            os.close(self.fd)
        self._closed = True
        self._held.clear()
        self.flush()

    def _leave_poll(self):
        if self._registered:
            self._poll.unregister(self.fd)
            self._registered = False
