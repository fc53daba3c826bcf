"""The guest: forked by the zygote into a warden's namespaces, locked down, parked until its code comes, used once."""

import gc
import json
import os
import signal
import sys

from . import (
    cgroup,
    errors,
    execute,
    frames,
    landlock,
    leaving,
    linux,
    lockdown,
    notebook,
    placing,
    random_state,
    root,
    shims,
    surroundings,
)
from .toolbox import install

ORDERS = 3  # from the warden, a socket that can only be read
WORDS = 4  # the pipe to the warden
policy = None  # under which code is compiled, see execute.run(); set in the zygote
_exit = os._exit  # the code may replace what it finds in os


def warm(world):
    """In the zygote."""
    json.dumps({"a": [1.5, None]})
    surroundings.prepare(os.path.dirname(sys.executable))
    random_state.prepare()
    notebook.prepare()
    if world.own_tree:
        _shared.append(Places(world, 0))
        surroundings.settle(_shared[0])
    leaving.forget_machinery()


_shared = []  # the Places of all guests, where these are the same


def places_of(world, sandbox):
    return _shared[0] if _shared else Places(world, sandbox)


class Places:
    """Where a guest finds its folders: fixed paths in a root of its own, below a folder of the host in the landlock tier."""

    def __init__(self, world, sandbox):
        self._world = world
        self.own_tree = world.own_tree
        box = "" if world.own_tree else f"{world.boot['boxes_dir']}/{sandbox}"
        self.work = f"{box}/work"
        self.code = f"{box}/code"
        self.home = f"{box}/home/sandbox"
        self.tmp = f"{box}/tmp"
        self._planned = self._plan() if self.own_tree else None

    def planned(self):
        """What Landlock is to allow."""
        return self._plan() if self._planned is None else self._planned

    def _plan(self):
        return landlock.plan(self._world.boot["landlock_abi"], self.readable(), self.writable())

    def writable(self):
        devices = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
        if self.own_tree:
            return [*root.WRITABLE, *devices]
        return [self.work, self.code, self.home, self.tmp, *devices]

    def readable(self):
        if self._world.namespaces:
            return ["/"]
        etc = [f"/etc/{name}" for name in lockdown.READABLE_ETC]
        return ["/usr", "/bin", "/lib", "/lib64", *self._world.boot["trees"], *etc]


def main(world, order, parts):
    """Does not return: the process ends with the code that it ran."""
    words = None
    try:
        places = places_of(world, order["sandbox"])
        outer_pid = int(os.readlink("self", dir_fd=world.outer_proc))
        words = parts["words"]
        if "group" in parts:
            cgroup.enter(parts["group"], world.boot.get("cgroup_namespace", False))
        _enter(world, order, parts)
        words = WORDS
        _lower_priority(world)
        lockdown.lock_guest(world, order["limits"], places)
        _make_own(world.boot, places)
        world.boot.clear()  # paths of the host, which are nothing to the code
        channel = frames.Channel(frames.Pipes(ORDERS, WORDS))
        channel.send(frames.READY, frames.WORD.pack(os.getpid(), outer_pid))
        message = channel.receive()
        options = {}
        if message is not None and message[0] == frames.JSON:
            options = json.loads(message[1])
            message = channel.receive()
        if "inputs" in options:
            message = placing.place(channel, message, WORDS)
        if "tools" in options:
            install.install(ORDERS, WORDS, {**options["tools"], "work": places.work, "restricted": policy is not None})
        else:
            os.close(ORDERS)
    except BaseException as error:
        _fail(words, error)
    if message is None:
        _exit(0)  # the sandbox was not needed
    try:
        execute.run(message[1], places, WORDS, None if options.get("unrestricted") else policy)
    finally:
        _exit(1)  # interrupted before the code began: nothing of ours may be printed, or run on


def _fail(words, error):
    """Tells the warden why there is no guest; a traceback would land in the output of nobody's code."""
    try:
        os.write(words, frames.pack(frames.FAILED, errors.describe(error).encode("utf-8", "replace")))
    finally:
        _exit(1)


def _enter(world, order, parts):
    """Namespaces, uid, descriptors: afterwards only 0 to 4 are open."""
    for layer in ("user", "mount", "net", "ipc", "uts"):
        if layer in parts:
            linux.setns(parts[layer], linux.NAMESPACES[layer])
    uid_base = world.boot["uid_base"]
    uid = 1000 if "user" in parts else None if uid_base is None else uid_base + order["slot"]
    if uid is not None:
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if not world.own_pids:
        # A change of uid clears it. In the other tier the kernel ends all with the warden.
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    _raise_oom_score(world)
    linux.set_name("python3")
    null = os.open("/dev/null", os.O_RDWR)
    # Numbers above all others first, so that no dup2 closes a descriptor that is still to be placed.
    high = [os.dup(fd) for fd in (null, *(parts[name] for name in ("stdout", "stderr", "orders", "words")))]
    for target, fd in enumerate(high):
        os.dup2(fd, target, inheritable=target < ORDERS)
    os.closerange(WORDS + 1, 1 << 16)


def _raise_oom_score(world):
    try:
        fd = os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=world.outer_proc)
    except OSError:
        return
    os.write(fd, b"1000")
    os.close(fd)


def _lower_priority(world):
    os.nice(world.boot["nice"])


def _make_own(boot, places):
    """What must differ from every other guest of this zygote, and be as in a fresh interpreter."""
    os.chdir(places.work)
    random_state.renew()
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:  # a preload has imported it, and with it one key for all
        processes.current_process().authkey = os.urandom(32)
    shims.install(boot["guest_filter"])
    if not places.own_tree:
        surroundings.settle(places)
    gc.enable()
