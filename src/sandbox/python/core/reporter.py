"""The way of a guest's last value, and of the limit that raised in it, to its warden."""

import errno
import json
import os

from . import frames, outgoing

VALUE_CHARS = 50_000
NAME_CHARS = 400
_LIMITS = {errno.EFBIG: "file_size", errno.EMFILE: "open_files"}
_statvfs = os.statvfs  # the code may replace what it finds in os
# Always out of room: an error of code that names it says nothing of the workspace, unless that is full at this moment.
_FULL_DEVICE = b"/dev/full"


class Reporter:
    """What it sends is data that the code could forge; only the code's own value is at stake."""

    def __init__(self, fd, box, source):
        """fd: the pipe to the warden. box: a path on the file system whose size is the workspace's limit, or None where that
        is the machine's own. source: the code."""
        self._box = box
        self._knows_full_device = _FULL_DEVICE in source
        self._pipe = outgoing.of(fd)

    def limit(self, error, starting=False):
        """Says which limit it was that raised, in any process of the run; the code could say so as well, and would only
        mislabel itself. starting: in a call that starts a process or a thread; EAGAIN of others is about something else.
        """
        try:
            name = self._name(error, starting)
        except Exception:
            return  # an error of the code's own making, whose attributes may be anything
        if name is not None:
            self._send(frames.LIMIT, name.encode())

    def _name(self, error, starting):
        if isinstance(error, RuntimeError) and "start new thread" in str(error):
            return "processes"
        number = error.errno if isinstance(error, OSError) else None
        if type(number) is not int:
            return None
        if number == errno.EAGAIN:
            return "processes" if starting else None
        return self._full(error) if number == errno.ENOSPC else _LIMITS.get(number)

    def _full(self, error):
        """What there was no more of in the workspace. By now it may have been given back: then the error itself tells, since
        a tmpfs that is out of room still makes files, and only what makes one names it. (shutil names those that it copies.)
        """
        if self._box is None:
            return None
        free = _statvfs(self._box)
        if free.f_bfree > 0 and free.f_ffree > 0 and self._knows_full_device:
            return None
        step = error.__traceback__
        if step is None:
            return None
        while step.tb_next is not None:
            step = step.tb_next
        names_what_it_made = error.filename is not None and step.tb_frame.f_globals.get("__name__") != "shutil"
        is_files = free.f_bfree > 0 and (free.f_ffree == 0 or names_what_it_made)
        return "workspace_files" if is_files else "workspace_bytes"

    def value(self, text):
        if self.is_forked:
            return  # a forked child that fell off the end of the script
        if len(text) > VALUE_CHARS:
            head = VALUE_CHARS * 2 // 5
            left_out = len(text) - VALUE_CHARS
            text = f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - VALUE_CHARS + head:]}"
        self._send(frames.VALUE, text.encode("utf-8", "backslashreplace"))

    def shown(self, head, body=b""):
        """head: what it is, see stage.py. body: its bytes."""
        head = {name: one[:NAME_CHARS] if isinstance(one, str) else one for name, one in head.items()}
        self._send(frames.SHOWN, json.dumps(head).encode() + b"\n" + body)

    @property
    def is_forked(self):
        """Whether this process is a fork of the one that the code began in."""
        return self._pipe.is_forked

    def _send(self, kind, payload):
        try:
            self._pipe.send(frames.pack(kind, payload))
        except OSError:
            pass


_current = None


def install(reporter):
    """The one of this guest's run."""
    global _current
    _current = reporter


def limit_at_start(error):
    """A call that starts a process or a thread was refused."""
    if _current is not None:
        _current.limit(error, starting=True)
