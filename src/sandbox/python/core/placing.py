"""Writes files of earlier calls into the workspace: in the guest, locked down, before it has any code. Their names were checked."""

import json
import os

from . import frames

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def place(channel, message, words):
    """Takes files from the channel, the first frame of which is `message`, in the current folder; tells over `words` which could
    not be written. Returns the next message."""
    problems = []  # [path, why]
    path, fd = "", None
    while message is not None and message[0] != frames.CODE:
        kind, payload = message
        try:
            if kind == frames.INPUT:
                path, fd = json.loads(payload)["path"], _close(fd)
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                fd = os.open(path, _NEW, 0o666)
            elif kind == frames.INPUT_BYTES and fd is not None:
                while payload:
                    payload = payload[os.write(fd, payload) :]
        except OSError as error:
            problems.append([path, os.strerror(error.errno or 0)])
            if fd is not None:
                fd = _close(fd)
                os.unlink(path)
        if kind == frames.INPUTS_END:
            fd = _close(fd)
            frames.Pipes(-1, words).sendall(frames.pack(frames.PLACED, json.dumps(problems[:20]).encode()))
        message = channel.receive()
    return message


def _close(fd):
    if fd is not None:
        os.close(fd)
