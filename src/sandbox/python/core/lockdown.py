"""What a guest gives up before it is parked, and a warden before a guest exists."""

import binascii
import json
import os
import resource
import struct
import sys

from . import landlock, linux

READABLE_ETC = ("alternatives", "fonts", "ld.so.cache", "localtime", "mime.types", "matplotlibrc", "ssl/certs", "ssl/openssl.cnf")


class Filters:
    """The seccomp programs of this machine's architecture: {name: (program, where in it the pid goes)}."""

    def __init__(self, programs):
        self.programs = programs
        self._ready = {name: linux.SeccompFilter(program) for name, (program, _) in programs.items()}

    @classmethod
    def committed(cls, here):
        """Those of seccomp/filters.json, made by seccomp/generate.py."""
        with open(os.path.join(here, "seccomp", "filters.json")) as file:
            data = json.load(file)
        return cls(
            {
                name: _prepare(binascii.a2b_base64(entry["bpf"]), data["sentinel_pid"])
                for name, entry in data["filters"][linux.ARCH].items()
            }
        )

    def load(self, name):
        """Installs the filter `name`; "only on oneself" in it means the calling process from then on."""
        ready = self._ready[name]
        pid = os.getpid()
        for place in self.programs[name][1]:
            ready.set_word(place, pid)
        ready.install()


def _prepare(bpf, sentinel):
    """Found once, not for each sandbox."""
    places = [  # struct sock_filter: u16 code, u8 jt, u8 jf, u32 k
        offset + 4 for offset in range(0, len(bpf), 8) if struct.unpack_from("=I", bpf, offset + 4)[0] == sentinel
    ]
    return bpf, places


def set_limits(limits, processes):
    """rlimits of a guest; all hard. RLIMIT_NPROC counts for the user namespace and uid, the warden included."""
    for kind, value in (
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 1 << 16),
        (resource.RLIMIT_SIGPENDING, 1024),  # timers too: each is kernel memory that counts for nobody
        (resource.RLIMIT_NPROC, processes),
    ):
        if value is None:
            continue
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))


def guest_filter(boot):
    """The filter for this machine's guests, see seccomp/policy.py."""
    if boot["tier"] == "namespaces":
        return "namespaces"
    if boot["uid_base"] is not None:
        return "landlock"
    own = os.geteuid()
    trees = ["/usr", "/lib", *boot["trees"], *sys.path]
    owned = own == 0 or any(os.path.exists(path) and os.stat(path).st_uid == own for path in trees)
    return "landlock-shared-files" if owned else "landlock-shared-uid"


def lock_guest(world, limits, places):
    """Capabilities, no_new_privs, Landlock, seccomp, rlimits: nothing of it can be taken back."""
    boot = world.boot
    if world.has("rlimits"):
        # The warden is one more process of the same uid in the namespace; a uid shared with the host can't be limited so.
        set_limits(limits, None if boot["guest_filter"].startswith("landlock-shared") else limits["processes"] + 1)
    linux.drop_capabilities()
    # The warden reads the guest's memory use, which needs a dumpable process of the same uid.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if boot["landlock_abi"] > 0:
        landlock.restrict(boot["landlock_abi"], places.planned(), network=boot["tier"] == "namespaces")
    if world.has("seccomp"):
        world.filters.load(boot["guest_filter"])


def lock_warden(filters):
    """Undumpable, so that no guest of the same uid can open its memory; without capabilities; under a filter of its own."""
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    linux.drop_capabilities()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    filters.load("warden")
