"""A process of the worker's user, as any service beside it could be: it waits to be reached, and tells on standard output.

    neighbour.py FOLDER MARK      ends when its standard input does

The first line is JSON: what there is to reach. Each later line names one thing that was reached.
"""

import ctypes
import json
import os
import select
import socket
import sys

SECRET = b"neighbour-secret-5521"


def main(folder, mark):
    os.umask(0)
    doors = {}

    def listen(name, kind, family, address):
        door = socket.socket(family, kind)
        door.bind(address)
        if kind == socket.SOCK_STREAM:
            door.listen()
        doors[door.fileno()] = (name, door)
        return door

    tcp = listen("tcp", socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", 0))
    udp = listen("udp", socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", 0))
    listen("unix", socket.SOCK_STREAM, socket.AF_UNIX, f"{folder}/stream.sock")
    listen("unix datagram", socket.SOCK_DGRAM, socket.AF_UNIX, f"{folder}/datagram.sock")
    listen("abstract", socket.SOCK_STREAM, socket.AF_UNIX, f"\0{mark}-stream")
    listen("abstract datagram", socket.SOCK_DGRAM, socket.AF_UNIX, f"\0{mark}-datagram")
    os.mkfifo(f"{folder}/fifo", 0o666)
    fifo = os.open(f"{folder}/fifo", os.O_RDWR | os.O_NONBLOCK)

    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x5E000000 | os.getpid()
    segment = libc.shmget(key, 4096, 0o1666)  # IPC_CREAT
    secret = ctypes.create_string_buffer(SECRET)
    facts = {
        "pid": os.getpid(),
        "tcp": tcp.getsockname()[1],
        "udp": udp.getsockname()[1],
        "shm_key": key,
        "address": ctypes.addressof(secret),
        "fifo_fd": fifo,
    }
    print(json.dumps(facts), flush=True)

    poll = select.poll()
    for fd in (0, fifo, *doors):
        poll.register(fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                libc.shmctl(segment, 0, None)  # IPC_RMID
                return
            if fd == fifo:
                os.read(fifo, 4096)
                print("fifo", flush=True)
                continue
            name, door = doors[fd]
            if door.type == socket.SOCK_STREAM:
                door.accept()[0].close()
            else:
                door.recv(4096)
            print(name, flush=True)


main(sys.argv[1], sys.argv[2])
