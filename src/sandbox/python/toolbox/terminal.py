"""shell.terminal, as it runs in the sandbox: a command in the foreground."""

import os
import select
import signal
import subprocess
import time

from . import places
from .places import Failure

LARGEST_OUTPUT = 1 << 20
_GRACE = 0.2  # seconds for output that is still on its way when the shell has ended
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
TIMED_OUT = 124


def terminal(command, timeout=None, workdir=None):
    if not isinstance(command, str) or not command.strip():
        raise Failure("command must be text that is not empty")
    if "\0" in command:
        raise Failure("command has a null character")
    folder = places.base() if workdir in (None, "") else places.resolve(workdir, "workdir")
    if not os.path.isdir(folder):
        raise Failure(f"workdir {workdir} is no folder")
    if timeout is not None:
        try:
            timeout = float(timeout)
        except (TypeError, ValueError):
            raise Failure(f"timeout must be a number of seconds, not {timeout!r}") from None
        if timeout <= 0:
            raise Failure(f"timeout must be more than 0 seconds, not {timeout:g}")
    shell = next((one for one in _SHELLS if os.path.exists(one)), None)
    if shell is None:
        raise Failure("there is no shell in this sandbox")
    try:
        process = subprocess.Popen(
            [shell, "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise Failure(f"no process can be started in this sandbox: {error.strerror}") from None
    output = _Output()
    try:
        in_time = _follow(process, output, timeout)
        if not in_time:
            _kill(process)
            _read_rest(process, output)
    except BaseException:
        _kill(process)
        raise
    finally:
        process.stdout.close()
    text = output.text()
    code = process.returncode
    if in_time:
        return {"output": text, "exit_code": code if code >= 0 else 128 - code, "error": None}
    words = f"timed out after {timeout:g} s and was ended, with all that it had started"
    note = f"[the command {words}]"
    return {"output": f"{text}\n{note}" if text else note, "exit_code": TIMED_OUT, "error": f"the command {words}"}


def _follow(process, output, timeout):
    """Reads until the shell has ended. False: it took too long."""
    ends = None if timeout is None else time.monotonic() + timeout
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    pause = 1
    while True:
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0:
            return process.poll() is not None
        wait = pause if left is None else min(pause, max(1, int(left * 1000)))
        if poll.poll(wait):
            if not output.read(process.stdout):
                return _await_end(process, left)
            pause = 1
            continue
        if process.poll() is not None:
            _read_rest(process, output)
            return True
        pause = min(50, pause * 2)


def _await_end(process, left):
    """Its output is closed; it may go on without."""
    try:
        process.wait(left)
        return True
    except subprocess.TimeoutExpired:
        return False


def _read_rest(process, output):
    """What is in the pipe. Something in the background may hold it open for as long as it likes."""
    process.wait()
    ends = time.monotonic() + _GRACE
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while time.monotonic() < ends and poll.poll(0):
        if not output.read(process.stdout):
            return


def _kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    process.wait()


class _Output:
    """The beginning and the end of what was written."""

    def __init__(self):
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def read(self, file):
        data = os.read(file.fileno(), 1 << 16)
        self._total += len(data)
        room = LARGEST_OUTPUT * 2 // 5 - len(self._head)
        self._head += data[: max(0, room)]
        self._tail += data[max(0, room) :]
        most = LARGEST_OUTPUT * 3 // 5
        if len(self._tail) > 2 * most:
            del self._tail[:-most]
        return data

    def text(self):
        tail = self._tail[-(LARGEST_OUTPUT * 3 // 5) :]
        left_out = self._total - len(self._head) - len(tail)
        note = f"\n[… {left_out:,} of {self._total:,} bytes left out: write the output to a file and search it …]\n"
        parts = (self._head, note.encode() if left_out else b"", tail)
        return b"".join(parts).decode("utf-8", "replace")
