"""Frames between the worker and the processes of the sandbox: 4-byte little-endian length, 1-byte type, payload.

The length counts the payload alone. JSON frames have the type "J"; the others carry raw bytes.
"""

import json
import os
import struct

HEADER = struct.Struct("<Ib")
WORD = struct.Struct("<ii")
MAX_PAYLOAD = 64 << 20

JSON = ord("J")
CODE = ord("C")  # worker to warden to guest: the source, as UTF-8
STDOUT = ord("O")  # warden to worker: bytes as they were written, from the beginning of the stream
STDERR = ord("E")
STDOUT_TAIL = ord("o")  # warden to worker, at the end: the last bytes of a stream that was not sent in full
STDERR_TAIL = ord("e")
LIMIT = ord("L")  # guest to warden: the name of the limit whose error ended the code
READY = ord("R")  # guest to warden, before it has any code: WORD, its pid in its own namespace and in the outside's /proc
FAILED = ord("F")  # guest to warden, in the place of that: why not, as UTF-8
SHOWN = ord("D")  # guest to warden to worker: an image or a text that the code shows, see stage.py
VALUE = ord("V")  # guest to warden to worker: repr of the last expression, as UTF-8
REQUEST = ord("T")  # guest to warden to worker: a request to the toolbox, JSON
ANSWER = ord("R")  # worker to warden: bytes for the guest, frames of this type again
INPUT = ord("w")  # worker to warden to guest, before the code: a file begins, JSON {"path"}
INPUT_BYTES = ord("b")  # some of its bytes
INPUTS_END = ord("z")  # all files have come
PLACED = ord("p")  # guest to warden, in answer to that: what could not be written, JSON [[path, why]]
CONTENT = ord("f")  # warden to worker, before the end: INDEX of a file in the listing, and some of its bytes
INDEX = struct.Struct("<I")


def pack(kind, payload):
    return HEADER.pack(len(payload), kind) + payload


def pack_json(value):
    return pack(JSON, json.dumps(value).encode())


PARKED, STARTED = pack_json({"event": "parked"}), pack_json({"event": "started"})  # the same from each warden


class Decoder:
    """Cuts a stream of bytes into frames. Raises ValueError on a payload longer than `limit`."""

    def __init__(self, limit=MAX_PAYLOAD):
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data):
        self._buffer += data
        frames = []
        offset = 0
        while len(self._buffer) - offset >= HEADER.size:
            length, kind = HEADER.unpack_from(self._buffer, offset)
            if length > self._limit:
                raise ValueError(f"a frame of {length} bytes is over the limit of {self._limit}")
            end = offset + HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append((kind, bytes(self._buffer[offset + HEADER.size : end])))
            offset = end
        if offset:
            del self._buffer[:offset]
        return frames


class Pipes:
    """What a channel needs of a socket, over two pipes. A pipe carries bytes and nothing else: with a message on a socket come
    descriptors, and who receives it is who closes what is behind them, however long that takes."""

    def __init__(self, incoming, outgoing):
        self.incoming = incoming
        self.outgoing = outgoing

    def recv(self, size):
        return os.read(self.incoming, size)

    def sendall(self, data):
        while data:
            data = data[os.write(self.outgoing, data) :]


class Channel:
    """Blocking frames over a socket or pipes, for the parts that talk in turns."""

    def __init__(self, sock, limit=MAX_PAYLOAD):
        self.socket = sock
        self._decoder = Decoder(limit)
        self._ready = []

    def send(self, kind, payload):
        self.socket.sendall(pack(kind, payload))

    def send_json(self, value):
        self.socket.sendall(pack_json(value))

    @property
    def has_more(self):
        """Whether a message has been read already, of which no poll would tell."""
        return bool(self._ready)

    def receive(self):
        """The next (kind, payload), or None at the end of the stream."""
        while not self._ready:
            data = self.socket.recv(1 << 16)
            if not data:
                return None
            self._ready = self._decoder.feed(data)
        return self._ready.pop(0)
