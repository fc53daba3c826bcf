"""The Landlock rules of a guest: what it may read, what it may write, and, where asked, no TCP, signals and abstract sockets.

Access bits and the ABI in which each came are from the kernel's uapi/linux/landlock.h.
"""

import os

from . import linux

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << n for n in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << n for n in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # all that a rule on a file may name
_READ = EXECUTE | READ_FILE | READ_DIR
_WRITE = (
    _READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE
)
_NETWORK = 0b11  # bind and connect over TCP
_SCOPES = 0b11  # abstract sockets, signals


def _handled(abi):
    bits = 13
    bits += abi >= 2  # REFER
    bits += abi >= 3  # TRUNCATE
    bits += abi >= 5  # IOCTL_DEV
    return (1 << bits) - 1


def missing_features(abi):
    """Names of what the kernel's ABI does not cover, for doctor and provenance."""
    names = ((3, "truncate"), (4, "tcp"), (5, "device ioctl"), (6, "signals"), (6, "abstract sockets"))
    return [name for since, name in names if abi < since]


def plan(abi, readable, writable):
    """[(path, rights)] of the paths that exist; the rest is passed over."""
    handled = _handled(abi)
    return [
        (path, (access if os.path.isdir(path) else access & _FILE_RIGHTS) & handled)
        for paths, access in ((readable, _READ), (writable, _WRITE))
        for path in paths
        if os.path.exists(path)
    ]


def restrict(abi, planned, network):
    """Restricts the calling thread for good, to what plan() has returned.

    network: whether the sandbox has a network of its own, in which TCP may stay.
    """
    rules = ruleset(abi, planned, network)
    linux.landlock_restrict_self(rules)
    os.close(rules)


def ruleset(abi, planned, network):
    """The descriptor of the rules, which nothing is held to yet."""
    network_rights = _NETWORK if abi >= 4 and not network else 0
    rules = linux.landlock_create_ruleset(_handled(abi), network_rights, _SCOPES if abi >= 6 else 0)
    for path, rights in planned:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        linux.landlock_allow_beneath(rules, rights, fd)
        os.close(fd)
    return rules
