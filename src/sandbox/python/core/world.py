"""What all processes of the sandbox inherit of their template."""

import os
import socket

from . import cgroup, linux, lockdown


class World:
    """What all processes of the sandbox inherit: the boot message and the descriptors into the outside. But for the modules and
    the filters it holds only what can be marshalled, see renewal.py.

    modules, program: the loader of our modules, and the code of boot.py itself.
    """

    def __init__(self, boot, here, modules, program):
        self.boot = boot
        self.modules = modules
        self.program = program
        self.namespaces = boot["tier"] == "namespaces"
        self._off = frozenset(boot.get("layers_off", ()))
        # Whether sandboxes have a file tree of their own; else each has a folder of the host.
        self.own_tree = self.namespaces and self.has("mount")
        # Whether the kernel ends all of a sandbox with its PID 1; else each process asks for SIGKILL when its parent dies.
        self.own_pids = self.namespaces and self.has("pid")
        # Names of the descriptors that a warden gives to the zygote, in their order: its pipes and its namespaces.
        layers = [layer for layer in linux.NAMESPACES if self.namespaces and self.has(layer)]
        self.parts = ("stdout", "stderr", "orders", "words", *layers)
        self.socket_dir = os.open(boot["socket_dir"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.outer_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.filters = lockdown.Filters.committed(here)
        self.own_pid_ns = -1
        self.cgroup = cgroup.open_home(boot)  # the folder of the groups, or -1
        self.ids = os.geteuid(), os.getegid()  # asked before any user namespace: in a fresh one nobody has an id

    def has(self, layer):
        """False for a layer that a test has switched off, to see whether what it is there for then gets through."""
        return layer not in self._off

    def flags(self, layers):
        """CLONE_NEW* of those of the namespaces that are not switched off."""
        return sum(linux.NAMESPACES[layer] for layer in layers if self.has(layer))

    def connect(self):
        """A socket to the worker. The folder is reached by descriptor: its path may lie outside of this root."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        back = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchdir(self.socket_dir)
        try:
            sock.connect("w.sock")
        finally:
            os.fchdir(back)
            os.close(back)
        return sock
