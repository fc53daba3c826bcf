"""Files of earlier calls on their way through the warden into the workspace, where the guest writes them before it has any code."""

import json
import os
import select
import time

from . import collect, frames

PLACED_S = 10.0  # for the guest to write what it was given
_COARSE = 5  # CLOCK_REALTIME_COARSE, by which file systems tell the time


class Inputs:
    """Hands on what comes, and remembers in which state the files were before the code could touch them."""

    def __init__(self, warden, guest):
        """guest: the options, of which the guest learns that files come."""
        self._warden = warden
        self._paths = []
        self.known = {}
        warden.control.sendall(frames.pack_json(guest))

    def take(self, kind, payload):
        self._warden.control.sendall(frames.pack(kind, payload))  # waits: the guest is still our own code and reads to the end
        if kind == frames.INPUT:
            self._paths.append(json.loads(payload)["path"])
        elif kind == frames.INPUTS_END:
            self._await_guest()
            self._remember()

    def _await_guest(self):
        w = self._warden
        end = time.monotonic() + PLACED_S
        poll = select.poll()
        poll.register(w.control.incoming, select.POLLIN)
        while True:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                raise RuntimeError("the files of earlier calls could not be put in place in time")
            data = w.control.recv(1 << 16)
            if not data:
                raise RuntimeError("the guest ended while files of earlier calls were put in place")
            for kind, payload in w.control_decoder.feed(data):
                if kind == frames.PLACED:
                    w.send_json({"event": "placed", "problems": json.loads(payload)})
                    return

    def _remember(self):
        top = os.open(self._warden.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        last = 0
        try:
            for path in self._paths:
                try:
                    status = os.stat(path, dir_fd=top, follow_symlinks=False)
                except OSError:
                    continue  # could not be written, as the guest has said
                self.known[path] = collect.state(status)
                last = max(last, status.st_ctime_ns)
        finally:
            os.close(top)
        # What the code writes within the same tick of that clock would have the same time.
        while time.clock_gettime_ns(_COARSE) <= last:
            time.sleep(0.001)
