"""Goes the way of a sandbox a few times where nothing can come of it, before sandboxes are forked.

What the interpreter notes while it runs code (where an attribute was found, which instruction fits) is written to pages. A
child would have to copy them first, and each child would find out the same again.
"""

import os
import resource
import socket
import sys

from . import frames, landlock, linux, warden

ROUNDS = 10
_PR_GET_DUMPABLE = 3
_LIMITS = {
    "memory_bytes": 1 << 40,
    "processes": 64,
    "open_files": 64,
    "file_bytes": 1 << 30,
    "workspace_bytes": 1 << 30,
    "workspace_files": 64,
    "stdout_first": 64,
    "stdout_last": 64,
    "stderr_first": 64,
    "stderr_last": 64,
}


def wardens(world):
    """In the template, while nothing has been asked of it."""
    for _ in range(ROUNDS):
        _one_run(world)


def _one_run(world):
    worker, far = socket.socketpair()
    link, link_far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one = object.__new__(warden.Warden)
    one.prepare(world, _LIMITS, worker)
    one.is_init = False
    one.place = "/work" if world.own_tree else world.boot["boxes_dir"]
    one.top = None if world.own_tree else os.open(one.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    one.script = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    one.make_parts(link)
    _, descriptors, _, _ = socket.recv_fds(link_far, 1, 16)
    parts = dict(zip(world.parts, descriptors, strict=True))
    pid = os.fork()
    if pid == 0:
        try:
            _play_guest(world, parts)
        finally:
            os._exit(0)
    for fd in descriptors:
        os.close(fd)
    one.children = pid  # the template has others
    one.await_guest()
    far.sendall(frames.pack_json({"op": "run", "wall_ms": 10_000, "cpu_ms": 10_000, "guest": {}, "collect": None}) + frames.pack(frames.CODE, b"1"))
    one.serve()
    for fd in (one.stdout.fd, one.stderr.fd, one.guest):
        os.close(fd)
    os.close(one.control.incoming)
    if one.top is not None:
        os.close(one.top)
    for end in (worker, far, link_far):
        end.close()


def _play_guest(world, parts):
    channel = frames.Channel(frames.Pipes(parts["orders"], parts["words"]))
    outer_pid = int(os.readlink("self", dir_fd=world.outer_proc))
    channel.send(frames.READY, frames.WORD.pack(os.getpid(), outer_pid))
    channel.receive()
    os.write(parts["stdout"], b"1\n")


# What libraries have the interpreter do in each fork, under names of their own.
_AFTER_FORK = (("threading", "_after_fork"), ("logging", "_after_at_fork_child_reinit_locks"))


def guests(world, guest, execute):
    """In a zygote, after its imports. Nothing that a guest gives up is given up here."""
    places = guest.places_of(world, 0)
    abi = world.boot["landlock_abi"]
    hooks = [getattr(sys.modules.get(module), name, None) for module, name in _AFTER_FORK]
    for _ in range(ROUNDS):
        for hook in hooks:
            if hook is not None:
                hook()
        guest.random_state.renew()
        orders, far = os.pipe()
        heard, words = os.pipe()
        channel = frames.Channel(frames.Pipes(orders, words))
        channel.send(frames.READY, frames.WORD.pack(1, 1))
        os.write(far, frames.pack(frames.CODE, b"1"))
        channel.receive()
        linux.prctl(_PR_GET_DUMPABLE)
        resource.getrlimit(resource.RLIMIT_NOFILE)
        if abi > 0:
            os.close(landlock.ruleset(abi, places.planned(), network=world.namespaces))
        if not places.own_tree:
            os.environ["HOME"] = places.home
            del os.environ["HOME"]
        execute.rehearse(places)
        for fd in (orders, far, heard, words):
            os.close(fd)
