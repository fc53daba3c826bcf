"""The zygote: has imported the preloads, and forks a guest into each sandbox that a warden has made. Parses no user code.

It is the parent of every guest, so it alone can say how a guest ended: it sends status and rusage to the worker.
"""

import _signal  # see template.py
import gc
import importlib
import io
import json
import linecache
import marshal
import os
import select
import signal
import socket
import sys
import time

from . import density, errors, frames, holes, linux, rehearsal

# What most code uses of the standard library.
_WARM = (
    "ast asyncio base64 collections csv datetime decimal functools hashlib inspect itertools json linecache math pathlib "
    "random re statistics string tempfile textwrap threading traceback typing uuid"
).split()
# Libraries that start threads when they are imported are asked for one: a process that forks must have no other.
_ONE_THREAD = ("OPENBLAS", "OMP", "MKL", "BLIS", "NUMEXPR")
_fork = os.fork  # what is found in os later tells of refusals, for the code of a guest
_ENVIRONMENT = {
    "HOME": "/run",
    "TMPDIR": "/run",
    "MPLBACKEND": "Agg",
    "LANG": "C.UTF-8",
    "NUMEXPR_MAX_THREADS": "1",
    **{f"{name}_NUM_THREADS": "1" for name in _ONE_THREAD},
}


def main(world, command, links):
    try:
        Zygote(world, command, links).serve()
    except BaseException:
        errors.show()
    os._exit(1)


def _exercise(name, module):
    """Uses the common paths of a library once, so that what they import and cache is there before the fork."""
    if name == "numpy":
        module.linalg.inv(module.eye(3)) @ module.ones(3)
        module.random.default_rng()
    elif name == "pandas":
        frame = module.DataFrame({"k": ["a", "b", "a"], "n": [1, 2, 3]})
        repr(frame.groupby("k")["n"].sum())
        text = frame.to_csv(index=False)
        repr(module.read_csv(io.StringIO(text)).describe())
        module.to_datetime(["2024-01-01"])
    elif name == "matplotlib.pyplot":
        figure, axes = module.subplots()
        axes.plot([1, 2], [1, 2], label="x")
        axes.set_title("x")
        axes.legend()
        figure.savefig(io.BytesIO(), format="png")
        module.close(figure)
        # It empties this cache in each fork, which takes as long as all the rest of one.
        cache = getattr(sys.modules.get("matplotlib.font_manager"), "_get_font", None)
        if hasattr(cache, "cache_clear"):
            cache.cache_clear()


def _own(world, folder):
    """Names in a folder of this process's /proc; of its descriptors without the one that this takes."""
    fd = os.open(f"self/{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=world.outer_proc)
    try:
        return set(os.listdir(fd)) - ({str(fd)} if folder == "fd" else set())
    finally:
        os.close(fd)


class Unfit(Exception):
    """A module that left in this process what no guest may have: it can't be preloaded, and not be unloaded either."""

    def __init__(self, module, why):
        super().__init__(module)
        self.module = module
        self.why = why


def _preload(world, channel, names):
    """Imports what is installed. Returns ({name: version}, {name: why not})."""
    installed, missing = {}, {}
    for name in names:
        channel.send_json({"event": "importing", "module": name})
        before = _own(world, "fd")
        try:
            module = importlib.import_module(name)
            _exercise(name, module)
        except (Exception, SystemExit) as error:  # a broken library must not keep the others from being used
            missing[name] = f"{type(error).__name__}: {error}"[:300]
        else:
            top = sys.modules[name.partition(".")[0]]
            installed[name] = str(getattr(top, "__version__", ""))
        if len(_own(world, "task")) != 1:
            raise Unfit(name, "starts threads when it is imported")
        if _own(world, "fd") - before:
            gc.collect()  # what is only not closed yet
        if _own(world, "fd") - before:
            # A guest starts without it: the module's object would have the number of another file, and write into that.
            raise Unfit(name, "keeps files, sockets or pipes open when it is imported")
    channel.send_json({"event": "importing", "module": None})
    return installed, missing


def _forget_program():
    """Python 3.13 keeps the text of -c under "<string>", where a traceback looks for the lines of code that exec() was given."""
    linecache.clearcache()
    getattr(linecache, "_interactive_cache", {}).clear()  # its place from 3.14 on


class Zygote:
    def __init__(self, world, command, links):
        self._world = world
        self._id = command["zygote"]
        self._links = links
        self._orders = {}  # descriptor of a link -> (socket, order)
        self._guests = {}  # pid -> sandbox
        self._retiring = False
        os.setsid()
        linux.set_name("zygote")
        self._channel = frames.Channel(world.connect())
        self._channel.send_json({"role": "zygote", "token": command.pop("token")})
        if world.boot.get("cgroup_namespace"):
            linux.unshare(linux.CLONE_NEWCGROUP)  # once for all guests: /proc/self/cgroup then begins at this process's group
        if world.own_tree:
            linux.unshare(linux.CLONE_NEWNS)
            linux.mount("zygote", "/run", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=700,size=32m")
            os.environ.clear()
            os.environ.update(_ENVIRONMENT)
        else:
            home = world.boot["zygote_dir"]
            os.environ.clear()
            os.environ.update(_ENVIRONMENT, HOME=home, TMPDIR=home)
        started = time.monotonic()
        try:
            installed, missing = _preload(world, self._channel, command["preload"])
        except Unfit as unfit:
            self._channel.send_json({"event": "unfit", "module": unfit.module, "why": unfit.why})
            os._exit(0)
        for name in _WARM:
            importlib.import_module(name)
        _forget_program()
        world.modules.compile()
        gc.collect()
        self._fillers = holes.fill()
        from . import guest  # last, so that what each guest runs of ours lies together

        self._guest = guest
        if world.boot["policy"] == "restricted":
            from . import restriction  # here, since it needs a library

            guest.policy = restriction
        guest.warm(world)
        gc.freeze()  # else each round would look at all that was imported
        rehearsal.guests(world, guest, guest.execute)
        world.modules.retire()
        # What an import printed and left in a buffer would come out of every guest.
        sys.stdout.flush()
        sys.stderr.flush()
        self._fillers += holes.fill()
        gc.freeze()
        # Before the first fork: a guest that was forked before would keep the pages of then for itself.
        density.collapse(world.outer_proc)
        self._channel.send_json(
            {
                "event": "ready",
                "installed": installed,
                "missing": missing,
                "import_ms": round((time.monotonic() - started) * 1000),
                "not_renewed": command.get("not_renewed"),
            }
        )

    def serve(self):
        wakeup = socket.socketpair()
        for end in wakeup:
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        linux.ignore_stops()
        signal.set_wakeup_fd(wakeup[1].fileno(), warn_on_full_buffer=False)
        self._poll = poll = select.poll()
        poll.register(self._channel.socket, select.POLLIN)
        poll.register(self._links, select.POLLIN)
        poll.register(wakeup[0], select.POLLIN)
        while not self._done(poll):
            for fd, _ in poll.poll():
                if fd == wakeup[0].fileno():
                    try:
                        wakeup[0].recv(4096)
                    except BlockingIOError:
                        pass
                    self._reap()
                elif fd == self._channel.socket.fileno():
                    self._command()
                    while self._channel.has_more:
                        self._command()
                elif fd == self._links.fileno():
                    self._take_order()
                elif fd in self._orders:
                    self._start_guest(*self._orders.pop(fd))
        os._exit(0)

    def _done(self, poll):
        """Retired, without guests, and without an order that is still on its way."""
        return self._retiring and not self._guests and not self._orders and not poll.poll(100)

    def _command(self):
        message = self._channel.receive()
        if message is None:
            os._exit(0)  # the worker has gone
        command = json.loads(message[1])
        if command["op"] == "retire":
            self._retiring = True
        elif command["op"] == "kill":
            # Its warden died or is stopped: only the parent still knows the guest.
            for pid, sandbox in self._guests.items():
                if sandbox == command["sandbox"]:
                    os.kill(pid, signal.SIGKILL)
        elif command["op"] == "ping":
            self._channel.send_json({"event": "pong", "rss_bytes": self._private_bytes()})

    def _private_bytes(self):
        """Resident memory of this process alone."""
        fd = os.open("self/statm", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._world.outer_proc)
        try:
            fields = os.read(fd, 200).split()
        finally:
            os.close(fd)
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")

    def _take_order(self):
        data, descriptors, _, _ = socket.recv_fds(self._links, 1 << 16, 1)
        if not data:
            self._poll.unregister(self._links)
            self._retiring = True  # the template has gone
            return
        link = socket.socket(fileno=descriptors[0])
        self._orders[link.fileno()] = (link, marshal.loads(data))
        self._poll.register(link, select.POLLIN)

    def _start_guest(self, link, order):
        """Forks a guest into the sandbox at the other end of the link, which sends the descriptors of its parts."""
        self._poll.unregister(link)
        data, descriptors, _, _ = socket.recv_fds(link, 1, 16)
        if not data:
            link.close()
            self._not_forked(order, "its warden died before it was ready")
            return
        parts = dict(zip((*self._world.parts, "group"), descriptors))  # the last one only where there are groups
        try:
            if "pid" in parts:
                linux.setns(parts["pid"], linux.CLONE_NEWPID)
            pid = _fork()
        except OSError as error:
            pid = -1
            self._not_forked(order, str(error))
        if pid == 0:
            self._become_guest(link)
            self._guest.main(self._world, order, parts)
        if "pid" in parts:
            linux.setns(self._world.own_pid_ns, linux.CLONE_NEWPID)
        if pid > 0:
            self._guests[pid] = order["sandbox"]
        for fd in descriptors:
            os.close(fd)
        link.close()

    def _not_forked(self, order, message):
        self._channel.send_json({"event": "not_forked", "sandbox": order["sandbox"], "message": message})

    def _become_guest(self, link):
        """In the child: lets go of every socket object, so that no destructor closes a number that is used again."""
        os.setsid()  # a signal to a process group crosses pid namespaces: nobody shares ours
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        for end in (self._channel.socket, self._links, link, *(sock for sock, _ in self._orders.values())):
            end.detach()
        # Other sandboxes' numbers and pids, which the code would find on the stack.
        self._orders.clear()
        self._guests.clear()

    def _reap(self):
        while self._guests:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            sandbox = self._guests.pop(pid, None)
            if sandbox is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            self._channel.send_json(
                {
                    "event": "exit",
                    "sandbox": sandbox,
                    "code": code if code >= 0 else None,
                    "signal": -code if code < 0 else None,
                    "cpu_ms": round((usage.ru_utime + usage.ru_stime) * 1000),
                    "max_rss_bytes": usage.ru_maxrss * 1024,
                }
            )
