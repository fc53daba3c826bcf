"""One run of one piece of code, as its warden sees it: hands the code over, pumps the output, holds the limits, names the end."""

import json
import os
import select
import signal
import socket
import time

from . import collect, disk, errors, frames, relay

WATCH_S = 0.02
INTERRUPT_S = 0.5  # from SIGINT to SIGKILL when a call is cancelled
SWEEP_S = 2.0  # for the last processes to die
FLUSH_S = 10.0  # for the worker to take the end of the output
COLLECT_S = 5.0  # for the files that the code left
BACKLOG = 1 << 20  # bytes that may wait for the worker before the pipes are left alone
LOOKS_FAILED = 5  # in a row, each of which an error has ended: nothing is watched any more then
FRAME_LIMIT = 4 << 20  # of one frame of a guest: an image, or a request to the toolbox
CONTROL_LIMIT = 1 << 20  # bytes that a guest may send besides its requests to the toolbox and what it shows
SHOWN_LIMIT = 24 << 20  # bytes of what a guest shows
SHOWN_MOST = 2000  # pieces of it: each is a line of JSON that the worker reads
HINTS = (b"file_size", b"open_files", b"processes", b"workspace_bytes", b"workspace_files")


class Run:
    """One run of one piece of code, from the moment that the guest gets it until the last byte of its output."""

    def __init__(self, warden, order, code, inputs):
        """inputs: inputs.Inputs, or None where no files of earlier calls were put in place."""
        self._warden = warden
        self._limits = warden.limits
        self._order = order
        self._code = code
        self._inputs = inputs
        self._cause = None  # why we ended it: wall, cpu, memory, processes, workspace_bytes, workspace_files, cancelled
        self._figure = None  # the use that was over its limit
        self._value = None
        self._hint = None
        self._heard = 0
        self._shown = self._pieces = 0
        self._interrupted_at = None
        self._exited = False
        self._poll = select.poll()
        self._pipes = {}
        self._next_workspace = 0.0
        self._disk = None
        if warden.top is not None:
            limits = warden.limits
            self._disk = disk.Disk(warden.top, limits["workspace_files"] + 16, limits["file_bytes"])
        self._looks_failed = 0
        self._relay = None

    def go(self, commands):
        """commands: frames that came in one piece with the code."""
        w = self._warden
        rest = self._code
        while rest:
            rest = rest[os.write(w.script, rest) :]
        os.close(w.script)
        guest = self._order["guest"]
        options = frames.pack_json(guest) if guest and self._inputs is None else b""
        w.control.sendall(options + frames.pack(frames.CODE, self._code))  # waits: the guest is still our own code and reads to the end
        if guest.get("tools"):
            self._relay = relay.Relay(w, self._poll)
        else:
            os.close(w.control.outgoing)
        w.send_frame(frames.STARTED)
        started = time.monotonic()
        self._deadline = started + self._order["wall_ms"] / 1000
        self._register()
        for kind, payload in commands:
            self._command(kind, payload)
        next_watch = started + WATCH_S
        while not self._exited and self._cause is None:
            now = time.monotonic()
            wait = max(0.0, min(next_watch, self._deadline) - now)
            self._serve_events(self._poll.poll(wait * 1000))
            now = time.monotonic()
            if self._exited or self._cause is not None:
                break
            if now >= self._deadline:
                self._cause = "wall"
            elif self._interrupted_at is not None and now - self._interrupted_at >= INTERRUPT_S:
                self._cause = "cancelled"
            elif now >= next_watch:
                self._reap()  # orphans that have died would fill the process limit
                if not self._warden.watch.at_rest(now):
                    self._look_or_fail(now)
                next_watch = time.monotonic() + WATCH_S
        if self._interrupted_at is not None and self._cause is None:
            self._cause = "cancelled"
        self._finish(started)

    def _register(self):
        self._poll.register(self._warden.worker, select.POLLIN)
        self._poll.register(self._warden.guest, select.POLLIN)
        self._hearing, self._listening = True, False
        for stream, kind in ((self._warden.stdout, frames.STDOUT), (self._warden.stderr, frames.STDERR)):
            self._pipes[stream.fd] = (stream, kind)
        self._reading = False
        self._read_pipes(True)
        self._listen()

    def _read_pipes(self, on):
        """Stops and starts listening to the pipes: while the worker is slow, the code waits in its write."""
        if on != self._reading:
            for fd, (stream, _) in self._pipes.items():
                if not stream.closed:
                    (self._poll.register if on else self._poll.unregister)(fd, *([select.POLLIN] if on else []))
            self._reading = on
            self._poll.modify(self._warden.worker, select.POLLIN if on else select.POLLIN | select.POLLOUT)

    def _listen(self):
        """Starts and stops listening to the guest: while the worker has as many of its requests as it takes, it waits in its write."""
        on = self._hearing and self._reading and not (self._relay is not None and self._relay.is_full)
        if on != self._listening:
            (self._poll.register if on else self._poll.unregister)(self._warden.control.incoming, *([select.POLLIN] if on else []))
            self._listening = on

    def _serve_events(self, events):
        for fd, _ in events:
            if fd == self._warden.guest:
                self._exited = True
            elif fd == self._warden.worker.fileno():
                for kind, payload in self._warden.receive():
                    self._command(kind, payload)
            elif fd == self._warden.control.incoming:
                self._hear_guest()
            elif fd in self._pipes:
                self._pump(*self._pipes[fd])
            elif self._relay is not None and fd == self._relay.fd:
                self._relay.writable()
        self._warden.flush()
        self._read_pipes(len(self._warden.outgoing) < BACKLOG)
        self._listen()

    def _command(self, kind, payload):
        if kind == frames.ANSWER:
            if self._relay is not None:
                self._relay.answer(payload)
        elif kind == frames.JSON:
            order = json.loads(payload)
            if order["op"] == "heard" and self._relay is not None:
                self._relay.heard(order["requests"], order["bytes"])
            elif order["op"] == "cancel" and self._interrupted_at is None:
                self._interrupted_at = time.monotonic()
                _signal(self._warden.guest, signal.SIGINT)

    def _pump(self, stream, kind):
        data = stream.read()
        if data:
            self._warden.send(kind, data)
        if stream.closed:
            self._poll.unregister(stream.fd)

    def _hear_guest(self):
        """One value is taken, and requests to the toolbox; after anything malformed nothing is heard any more, and the guest can
        tell by its pipes: who waits for an answer, or to be heard, would wait for ever."""
        try:
            data = self._warden.control.recv(1 << 16)
            self._note(data)
            if data:
                return
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data = None
        self._hearing = False
        self._listen()
        if data is None:
            os.close(self._warden.control.incoming)
            if self._relay is not None:
                self._relay.close()

    def _look_or_fail(self, now):
        """An error in a look is a fault of ours, and one look less; code that can cause it for long would run unwatched."""
        try:
            self._look(now)
            self._looks_failed = 0
        except Exception as error:
            self._looks_failed += 1
            if self._looks_failed >= LOOKS_FAILED:
                raise RuntimeError(f"what it uses can't be measured: {errors.describe(error)}") from error

    def _look(self, now):
        """The limits that nothing but a look can hold."""
        w, limits, seen = self._warden, self._limits, self._warden.watch
        if not w.world.has("watch"):
            return
        used = seen.memory()
        processes, cpu_ms = seen.counts()
        if used > limits["memory_bytes"]:
            self._cause, self._figure = "memory", used
        elif processes > limits["processes"] and not w.world.namespaces:
            self._cause, self._figure = "processes", seen.peak_processes
        elif cpu_ms > self._order["cpu_ms"]:
            self._cause, self._figure = "cpu", cpu_ms
        elif self._disk is not None and now >= self._next_workspace:
            self._look_at_workspace()
            took = time.monotonic() - now
            self._next_workspace = now + max(0.1, 10 * took)

    def _look_at_workspace(self):
        limits = self._limits
        box = os.path.dirname(self._warden.place)
        used, count = self._disk.usage()
        seen = self._warden.watch
        for pid in seen.proc.processes():
            used += self._disk.unlinked(seen.proc.folder, pid, os.fsencode(box))
        seen.box_peak_bytes = max(seen.box_peak_bytes, used % disk.UNREADABLE)
        seen.box_peak_files = max(seen.box_peak_files, count)
        if used > limits["workspace_bytes"]:
            self._cause, self._figure = "workspace_bytes", used if used < disk.UNREADABLE else None
        elif count > limits["workspace_files"] + 8:
            self._cause, self._figure = "workspace_files", count

    # ------------------------------------------------------------ the end

    def _finish(self, started):
        w = self._warden
        calls, self._relay = self._relay is not None, None  # what is asked for now comes too late
        ended = time.monotonic()
        processes = w.watch.counts()[0] if self._cause == "processes" else w.watch.peak_processes
        # Asked before we kill: of what was ended by the kernel until now.
        oom_bytes = None if w.group is None else w.group.out_of_memory(self._limits["memory_bytes"])
        self._kill_all()
        for stream, kind in self._pipes.values():
            while not stream.closed:
                data = stream.read()
                if data is None:
                    break
                if data:
                    w.send(kind, data)
        self._hear_the_rest()
        for stream, kind in ((w.stdout, frames.STDOUT_TAIL), (w.stderr, frames.STDERR_TAIL)):
            tail = stream.tail()
            if tail:
                w.send(kind, tail)
        if self._value is not None:
            w.send(frames.VALUE, self._value)
        usage = os.times()
        files = self._collect()
        w.send_json(
            {
                "event": "end",
                "cause": self._cause,
                "figure": self._figure,
                "oom_bytes": oom_bytes,
                "hint": self._hint,
                "run_ms": round((ended - started) * 1000),
                # Orphans and what was killed, waited for here; the guest and its children are in the zygote's count.
                "cpu_seen_ms": w.watch.cpu_seen_ms,
                "cpu_ms": round((usage.children_user + usage.children_system) * 1000),
                "peak_bytes": w.watch.peak_bytes,
                "baseline_bytes": w.watch.baseline,
                "peak_processes": processes,
                "workspace_bytes": w.watch.box_peak_bytes,
                "workspace_files": w.watch.box_peak_files,
                "workspace_full": w.watch.box_full_bytes,
                "workspace_files_full": w.watch.box_full_files,
                "stdout_total": w.stdout.total,
                "stderr_total": w.stderr.total,
                **files,
            }
        )
        limit = time.monotonic() + FLUSH_S
        poll = select.poll()
        poll.register(w.worker, select.POLLOUT)
        while w.outgoing and time.monotonic() < limit:
            poll.poll(100)
            w.flush()
        if calls:
            self._hang_up(limit)

    def _collect(self):
        w = self._warden
        deadline = time.monotonic() + COLLECT_S
        poll = select.poll()
        poll.register(w.worker, select.POLLOUT)

        def send(index, data):
            w.send(frames.CONTENT, frames.INDEX.pack(index) + data)
            while len(w.outgoing) >= BACKLOG and time.monotonic() < deadline:
                poll.poll(100)
                w.flush()
            return len(w.outgoing) < BACKLOG

        known = {} if self._inputs is None else self._inputs.known
        try:
            place = collect.Workspace(w.place, w.world.own_tree, deadline)
        except OSError:
            return collect.nothing(known)
        try:
            return collect.collect(place, self._order.get("collect"), known, self._limits["workspace_files"] + 64, send)
        finally:
            place.close()

    def _hang_up(self, limit):
        """Takes what the worker still sends for the guest, until it has seen the end: were it left unread, the worker's next write
        would fail, and with it what it has not read yet."""
        worker = self._warden.worker
        worker.shutdown(socket.SHUT_WR)
        poll = select.poll()
        poll.register(worker, select.POLLIN)
        while time.monotonic() < limit:
            poll.poll(100)
            try:
                if not worker.recv(1 << 16, socket.MSG_DONTWAIT):
                    return
            except BlockingIOError:
                pass
            except OSError:
                return

    def _kill_all(self):
        """SIGKILL to everything but this process, until nothing is left: then the pipes hold all that was written."""
        w = self._warden
        limit = time.monotonic() + SWEEP_S
        guest = select.poll()
        guest.register(w.guest, select.POLLIN)
        while time.monotonic() < limit:
            if w.is_init:  # -1 is all that is in its pid namespace, and nobody else
                try:
                    os.kill(-1, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            else:
                _signal(w.guest, signal.SIGKILL)
            gone = bool(guest.poll(0 if self._exited else 20))
            left = self._reap()
            if gone and not left:
                break
            if gone:
                time.sleep(0.002)
        w.watch._look_into_box()

    def _reap(self):
        """Waits for the orphans that have died; whether any still lives."""
        while True:
            try:
                pid, _ = os.waitpid(self._warden.children, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True

    def _hear_the_rest(self):
        """A value that was sent in the last moment."""
        if not self._hearing:
            return
        try:
            while True:
                data = self._warden.control.recv(1 << 16)
                if not data:
                    return
                self._note(data)
        except (OSError, ValueError):
            return

    def _show(self, payload):
        if self._pieces > SHOWN_MOST:
            return
        self._shown += len(payload)
        self._pieces = SHOWN_MOST + 1 if self._shown > SHOWN_LIMIT else self._pieces + 1
        if self._pieces <= SHOWN_MOST:
            self._warden.send(frames.SHOWN, payload)
        else:
            reason = f"is over the {SHOWN_MOST} pieces and {SHOWN_LIMIT >> 20} MiB that one run may show"
            self._warden.send(frames.SHOWN, json.dumps({"kind": "left_out", "name": "all after that", "reason": reason}).encode() + b"\n")

    def _note(self, data):
        for kind, payload in self._warden.control_decoder.feed(data):
            if kind == frames.REQUEST and self._relay is not None:
                self._relay.request(payload)
                continue
            if kind == frames.SHOWN:
                self._show(payload)
                continue
            self._heard += frames.HEADER.size + len(payload)
            if self._heard > CONTROL_LIMIT:
                raise ValueError("more than a guest has to say")
            if kind == frames.VALUE and self._value is None:
                self._value = payload
            elif kind == frames.LIMIT and payload in HINTS:
                self._hint = payload.decode()


def _signal(pidfd, number):
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        pass
