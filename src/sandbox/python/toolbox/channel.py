"""Requests of any number of threads over a socket that can only be read and a pipe.

Calls that wait need no thread of their own: one of those that wait reads for all (the leader), and when it has its answer it
wakes another one to go on. Only where code awaits is there a thread that reads, one for all.

A signal's handler may raise between any two steps, and may itself call: what was read is kept by the same call that reads it,
handing out an answer twice does nothing, and a thread that finds itself leading has been interrupted and leads anew.
"""

import asyncio
import collections
import errno
import itertools
import json
import os
import re
import select
import threading

from .. import frames
from . import errors
from .arguments import as_json
from .waiters import Awaiter, Waiter

MAX_PAYLOAD = 4 << 20  # of a request; core/relay.py takes no more
_AT_ONCE = 1 << 16
_NUMBER = re.compile(rb'\{"id":(\d+)[,}]')
# Of the pipe itself; a signal's handler may raise any other OSError, such as TimeoutError.
_GONE = (errno.EBADF, errno.EPIPE, errno.EIO, errno.EINVAL)
_LOOK_AGAIN_MS = 10
_PUMP = 0  # the number of the thread that reads for code that awaits, among those of requests
_read, _fstat, _poll, _thread_number = os.read, os.fstat, select.poll, threading.get_ident


class Channel:
    def __init__(self, incoming, outgoing):
        """incoming: a descriptor. outgoing: core's Outgoing, which others of the run use as well."""
        self._incoming = incoming
        self._outgoing = outgoing
        self._identity = self._look()
        self._numbers = itertools.count(1)
        self._mutex = threading.RLock()
        self._waiting = {}
        self._leader = None
        self._chunks = collections.deque()
        self._needed = frames.HEADER.size
        self._ended = False
        self._either = _poll()
        self._either.register(incoming, select.POLLIN)
        self._either.register(outgoing.fd, select.POLLOUT)

    def _look(self):
        status = _fstat(self._incoming)
        return status.st_dev, status.st_ino

    def ask(self, message):
        """The answer to a request, as bytes of JSON, and the number that the request had. Raises ToolError."""
        self._check()
        number, waiter = next(self._numbers), Waiter()
        frame = self._frame(number, message)
        try:
            self._waiting[number] = waiter
            if self._ended:
                raise errors.over()
            self._send(frame)
            self._wait(waiter)
        finally:
            self._leave(number, waiter)
        return self._answer(waiter.payload), number

    async def ask_async(self, message):
        """As `ask`, for a task."""
        self._check()
        number, awaiter = next(self._numbers), Awaiter(asyncio.get_running_loop())
        frame = self._frame(number, message)
        try:
            self._waiting[number] = awaiter
            self._start_pump()
            if self._ended:
                raise errors.over()
            self._send(frame)
            payload = await awaiter.future
        finally:
            self._waiting.pop(number, None)
        return self._answer(payload), number

    def tell(self, message):
        """Sends what is not answered."""
        self._check()
        self._send(self._frame(next(self._numbers), message))

    def _check(self):
        if self._outgoing.is_forked:
            raise errors.ToolError(
                "tools can be called in the process that the code began in, not in a forked one: use threads, or "
                "return the data from the process and call the tool where it was started",
                kind="ended",
            )
        if self._ended:
            raise errors.over()
        try:
            if self._look() == self._identity:
                return
        except OSError as error:
            if error.errno not in _GONE:
                raise
        raise errors.ToolError("the code has closed descriptors 3 and 4, over which tools are called", kind="ended")

    def _frame(self, number, message):
        whole = {"id": number, **message}
        data = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=as_json).encode()
        if len(data) > MAX_PAYLOAD:
            raise errors.ToolArgumentError(
                f"the arguments are {len(data):,} bytes of JSON, and a call takes at most {MAX_PAYLOAD:,}"
            )
        return frames.pack(frames.REQUEST, data)

    def _answer(self, payload):
        if payload is None:
            raise errors.over()
        return payload

    def _send(self, frame):
        try:
            self._outgoing.send(frame, self._meanwhile)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            raise errors.over() from None

    def _meanwhile(self):
        """The pipe is full. Perhaps the other end writes to us and nobody reads: then neither would go on."""
        if self._ended:
            raise errors.over()
        waiter = Waiter()
        try:
            with self._mutex:
                if self._leader is None:
                    self._leader = waiter
                leads = self._leader is waiter
            if not leads:
                self._outgoing.await_room(_LOOK_AGAIN_MS)  # the one that reads may have its answer by then, and be gone
                return
            for fd, _ in self._either.poll():
                if fd == self._incoming:
                    self._receive()
        finally:
            self._leave(None, waiter)

    def _wait(self, waiter):
        waiter.waits = True
        while True:
            with self._mutex:
                if waiter.done:
                    return
                if self._leader is None or self._leader.thread == waiter.thread:
                    self._leader = waiter
                leads = self._leader is waiter
            if leads:
                self._receive()
            else:
                waiter.sleep()

    def _leave(self, number, waiter):
        with self._mutex:
            self._waiting.pop(number, None)
            if self._leader is waiter:
                self._leader = None
                self._wake_one()

    def _wake_one(self):
        pump = self._waiting.get(_PUMP)
        if pump is not None:
            pump.wake()
            return
        for other in self._waiting.values():
            if other.waits and not other.done:
                other.wake()
                return

    def _receive(self):
        """Reads once, and hands out the answers that are complete."""
        chunks = self._chunks
        try:
            chunks.extend(map(_read, (self._incoming,), (_AT_ONCE,)))
        except OSError as error:
            if error.errno not in _GONE:
                raise
            self._end()
            return
        count = len(chunks)
        if not chunks[count - 1]:
            self._end()
            return
        if sum(map(len, chunks)) < self._needed:
            return
        whole = b"".join(itertools.islice(list(chunks), count))
        offset, needed = 0, frames.HEADER.size
        while len(whole) - offset >= frames.HEADER.size:
            length, kind = frames.HEADER.unpack_from(whole, offset)
            if length > frames.MAX_PAYLOAD:
                self._end()
                return
            needed = frames.HEADER.size + length
            if len(whole) - offset < needed:
                break
            if kind == frames.ANSWER:
                self._deliver(whole[offset + frames.HEADER.size : offset + needed])
            offset, needed = offset + needed, frames.HEADER.size
        left = collections.deque([whole[offset:]] if offset < len(whole) else [])
        left.extend(itertools.islice(list(chunks), count, None))
        self._needed = needed
        self._chunks = left

    def _deliver(self, payload):
        found = _NUMBER.match(payload)
        try:
            number = int(found[1]) if found else json.loads(payload)["id"]
        except (ValueError, KeyError, TypeError):
            return
        with self._mutex:
            waiter = self._waiting.get(number)
            if waiter is not None and number != _PUMP:
                waiter.deliver(payload)

    def _end(self):
        with self._mutex:
            self._ended = True
            for waiter in list(self._waiting.values()):
                waiter.deliver(None)

    def _start_pump(self):
        with self._mutex:
            if _PUMP in self._waiting:
                return
            self._waiting[_PUMP] = Waiter()
        try:
            threading.Thread(target=self._pump, name="tools.aio", daemon=True).start()
        except BaseException:
            self._waiting.pop(_PUMP, None)
            raise

    def _pump(self):
        waiter = self._waiting[_PUMP]
        waiter.thread = _thread_number()
        try:
            self._wait(waiter)
        finally:
            self._leave(_PUMP, waiter)
