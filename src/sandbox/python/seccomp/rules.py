"""How a decision about one system call is written down, and the argument rules that policy.py uses.

A decision is ALLOW, REFUSE (EPERM), ABSENT (ENOSYS, as if the kernel did not have the call: for calls that libraries
try first and have a way round) or a When: allowed if one of its rules matches, else answered with its errno. A rule is
a tuple of comparisons that must all hold.

The one comparison is `argument & mask == value`, with a mask that a reader can see, because that is where filters are
bypassed: a filter sees 64 bits, while the kernel takes an `int` argument from the lower 32. Compared in full, a
forbidden `option | 1 << 32` would be another number to the filter and the same one to the kernel. So INT is the mask of
every int.
"""

import errno
from typing import NamedTuple

ALLOW = "allow"
REFUSE = "refuse"
ABSENT = "absent"

INT = 0xFFFFFFFF
LONG = 0xFFFFFFFFFFFFFFFF

# Stands for the guest's own pid, which is known only when the filter is loaded (see generate.py). No other immediate of
# the programs may have this value; generate.py proves it. It is beyond every pid of Linux (at most 1 << 22).
SENTINEL_PID = 0x7A11AB1E


class Compare(NamedTuple):
    arg: int
    mask: int
    value: int


class When(NamedTuple):
    rules: tuple
    otherwise: int = errno.EPERM


def one_of(arg, values, mask=INT):
    """Rules that hold if the argument is one of the values."""
    return tuple((Compare(arg, mask, value),) for value in values)


def only(arg, values, otherwise=errno.EPERM, mask=INT):
    return When(one_of(arg, values, mask), otherwise)


def without(arg, bits):
    """None of the bits is set."""
    return When(((Compare(arg, bits, 0),),))


# --- Whom a call is about ---------------------------------------------------------------------------------------------
# The kernel reads pid 0 as the caller in sched_*, prlimit64, getpgid and getpriority, but as the caller's whole process
# group in kill, which in the landlock tier may be the worker's.
ONESELF = only(0, (0, SENTINEL_PID))
ONESELF_OR_ABSENT = only(0, (0, SENTINEL_PID), errno.ENOSYS)
OWN_PID = only(0, (SENTINEL_PID,))
PRIO_PROCESS = 0
PRIORITY_OF_ONESELF = When(tuple((Compare(0, INT, PRIO_PROCESS), Compare(1, INT, who)) for who in (0, SENTINEL_PID)))
PRIORITY_READ = only(1, (0, SENTINEL_PID))
READ_LIMITS_OF_ANY = only(2, (0,), mask=LONG)  # no new limit is handed in

# --- clone: flags are the first argument on x86_64 and aarch64 --------------------------------------------------------
CLONE_PLAIN = (
    0x000000FF  # exit signal
    | 0x00000100  # VM
    | 0x00000200  # FS
    | 0x00000400  # FILES
    | 0x00000800  # SIGHAND
    | 0x00001000  # PIDFD
    | 0x00004000  # VFORK
    | 0x00010000  # THREAD
    | 0x00040000  # SYSVSEM
    | 0x00080000  # SETTLS
    | 0x00100000  # PARENT_SETTID
    | 0x00200000  # CHILD_CLEARTID
    | 0x00400000  # DETACHED, which musl sets and the kernel ignores
    | 0x01000000  # CHILD_SETTID
)
# All others must be clear: CLONE_NEW* are namespaces, CLONE_PARENT makes a child of the zygote instead of one's own,
# CLONE_PTRACE and CLONE_UNTRACED are for tracers.
CLONE_PROCESS = When(((Compare(0, LONG ^ CLONE_PLAIN, 0),),))
CLONE_OF_A_THREAD = 0x00000F00 | 0x00010000  # VM, FS, FILES, SIGHAND, THREAD: all of them, always
CLONE_FREE_TO_A_THREAD = 0x00040000 | 0x00080000 | 0x00100000 | 0x00200000 | 0x00400000 | 0x01000000
CLONE_THREAD = When(((Compare(0, LONG ^ CLONE_FREE_TO_A_THREAD, CLONE_OF_A_THREAD),),))

# --- Files ------------------------------------------------------------------------------------------------------------
NODE = When(tuple((Compare(1, 0xF000, kind),) for kind in (0, 0x1000, 0x8000, 0xC000)))  # file, FIFO, file, socket
NODE_AT = When(tuple((Compare(2, 0xF000, kind),) for kind in (0, 0x1000, 0x8000, 0xC000)))
TIMES_OF_A_DESCRIPTOR = only(1, (0,), mask=LONG)  # futimens: no path
OPEN_FOR_READING = without(1, 0x3 | 0x40 | 0x200)  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
OPEN_AT_FOR_READING = without(2, 0x3 | 0x40 | 0x200)

FCNTL = only(
    1,
    (
        *range(0, 8),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW
        9,  # F_GETOWN
        11,  # F_GETSIG
        36,  # F_OFD_GETLK
        37,  # F_OFD_SETLK
        38,  # F_OFD_SETLKW
        1030,  # F_DUPFD_CLOEXEC
        1032,  # F_GETPIPE_SZ
    ),
)
# Not among them: F_SETOWN(_EX) and F_SETSIG, by which the kernel sends a signal of the caller's choice, SIGKILL
# included, to any process of the same uid; F_SETLEASE, by which others wait 45 s to open a file; F_SETPIPE_SZ, memory
# that no watch sees.

IOCTL_OF_FILES = (
    0x5401,  # TCGETS, which is what isatty() asks
    0x802C542A,  # TCGETS2, the same in newer C libraries
    0x5413,  # TIOCGWINSZ
    0x540F,  # TIOCGPGRP
    0x5411,  # TIOCOUTQ, SIOCOUTQ
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
)
IOCTL_OF_GUEST_FILES = (*IOCTL_OF_FILES, 0x40049409)  # FICLONE: how pathlib copies since 3.14
IOCTL_OF_SOCKETS = (
    0x8910,  # SIOCGIFNAME
    0x8912,  # SIOCGIFCONF
    0x8913,  # SIOCGIFFLAGS
    0x8915,  # SIOCGIFADDR
    0x891B,  # SIOCGIFNETMASK
    0x8921,  # SIOCGIFMTU
    0x8927,  # SIOCGIFHWADDR
    0x8933,  # SIOCGIFINDEX
)
# Not among them: TIOCSTI and TIOCLINUX, which type into a terminal; FIOSETOWN and SIOCSPGRP, which are F_SETOWN again.
IOCTL_NAMESPACES = only(1, (*IOCTL_OF_GUEST_FILES, *IOCTL_OF_SOCKETS))
IOCTL_LANDLOCK = only(1, IOCTL_OF_GUEST_FILES)
IOCTL_WARDEN = only(1, IOCTL_OF_FILES)

# --- Memory -----------------------------------------------------------------------------------------------------------
NO_HUGETLB = without(3, 0x40000)  # MAP_HUGETLB: from the host's pool, counted by no resident set size
MADVISE = only(
    2,
    (
        *range(0, 5),  # NORMAL, RANDOM, SEQUENTIAL, WILLNEED, DONTNEED
        *range(8, 12),  # FREE, REMOVE, DONTFORK, DOFORK
        *range(13, 20),  # UNMERGEABLE, HUGEPAGE, NOHUGEPAGE, DONTDUMP, DODUMP, WIPEONFORK, KEEPONFORK
        *range(22, 26),  # POPULATE_READ, POPULATE_WRITE, DONTNEED_LOCKED, COLLAPSE
        102,  # GUARD_INSTALL, for the stacks of threads in newer C libraries
        103,  # GUARD_REMOVE
    ),
)
# Not among them: MERGEABLE, a side channel through shared pages; COLD and PAGEOUT, by which memory goes to swap and so
# out of the resident set that the memory limit watches; HWPOISON and SOFT_OFFLINE, which break the host's memory.

# --- Oneself ----------------------------------------------------------------------------------------------------------
PRCTL_OPTIONS = (
    2,  # PR_GET_PDEATHSIG
    3,  # PR_GET_DUMPABLE
    7,  # PR_GET_KEEPCAPS
    15,  # PR_SET_NAME
    16,  # PR_GET_NAME
    21,  # PR_GET_SECCOMP
    23,  # PR_CAPBSET_READ
    27,  # PR_GET_SECUREBITS
    29,  # PR_SET_TIMERSLACK
    30,  # PR_GET_TIMERSLACK
    37,  # PR_GET_CHILD_SUBREAPER
    38,  # PR_SET_NO_NEW_PRIVS: already on
    39,  # PR_GET_NO_NEW_PRIVS
    42,  # PR_GET_THP_DISABLE
    51,  # PR_SVE_GET_VL
    52,  # PR_GET_SPECULATION_CTRL
    56,  # PR_GET_TAGGED_ADDR_CTRL
    66,  # PR_GET_MDWE
)
# Not among them: PR_SET_DUMPABLE, since the memory watch could not read an undumpable process; PR_SET_CHILD_SUBREAPER,
# since reaping orphans is the warden's; PR_SET_VMA, which gives memory a name in the list by which the watch tells what is
# shared; PR_SET_MM, PR_SET_PTRACER, PR_SET_SECCOMP, PR_SCHED_CORE; PR_SET_PDEATHSIG where the end of a guest with its
# warden depends on it.
PRCTL_NAMESPACES = only(0, (1, *PRCTL_OPTIONS))
PRCTL = only(0, PRCTL_OPTIONS)

ARCH_PRCTL = only(
    0,
    (
        0x1001,  # ARCH_SET_GS
        0x1002,  # ARCH_SET_FS: how every new program sets up its threads
        0x1003,  # ARCH_GET_FS
        0x1004,  # ARCH_GET_GS
        0x1021,  # ARCH_GET_XCOMP_SUPP
        0x1022,  # ARCH_GET_XCOMP_PERM
        0x1023,  # ARCH_REQ_XCOMP_PERM: how a linear algebra library gets the matrix unit
        0x3001,  # ARCH_CET_STATUS: asked by the C library at the start of a program
        0x5005,  # ARCH_SHSTK_STATUS: the same in newer ones
    ),
)
PERSONALITY = only(0, (0, 0xFFFFFFFF))  # the ordinary one, and the question which one it is
CLOCK_OF_ONESELF = When(((Compare(0, 0xFFFFFFF0, 0),),))  # the fixed clocks; others are CPU clocks of any process

# --- Sockets ----------------------------------------------------------------------------------------------------------
SOCKET_KIND = INT ^ 0x80000 ^ 0x800  # without SOCK_CLOEXEC and SOCK_NONBLOCK
UNIX, INET, INET6 = 1, 2, 10
STREAM, DGRAM, SEQPACKET = 1, 2, 5


def _socket(family, kind, protocols):
    return tuple(
        (Compare(0, INT, family), Compare(1, SOCKET_KIND, kind), Compare(2, INT, protocol)) for protocol in protocols
    )


UNIX_SOCKETS = (*_socket(UNIX, STREAM, (0, 1)), *_socket(UNIX, DGRAM, (0, 1)), *_socket(UNIX, SEQPACKET, (0, 1)))
# By protocol too, since SOCK_STREAM is also SCTP, MPTCP and SMC, and SOCK_DGRAM also ping and UDP-Lite. No netlink:
# without it getaddrinfo() takes both families as present, and only if_nameindex() and getifaddrs() are lost.
SOCKET = When(
    UNIX_SOCKETS
    + tuple(
        rule
        for family in (INET, INET6)
        for rule in (*_socket(family, STREAM, (0, 6)), *_socket(family, DGRAM, (0, 17)))
    )
)
SOCKETPAIR = When(UNIX_SOCKETS)
# An end of a datagram pair can be connected to, and send to, any pathname socket of the host; an end of a stream pair
# answers EISCONN, also to the name in a sendmsg() header, which a filter can't see.
SOCKETPAIR_STREAM = When(_socket(UNIX, STREAM, (0, 1)))
SEND_WITHOUT_ADDRESS = only(4, (0,), mask=LONG)

_OPTIONS_OF_SOCKETS = (2, 3, 4, 5, 6, 9, 10, 12, 15, 16, 18, 20, 21, 29, 35, 66, 67)
_OPTIONS = {  # level: options. Not among them: SO_ATTACH_FILTER and its kin, TCP_ULP (TLS in the kernel), netfilter's;
    # SO_SNDBUF and SO_RCVBUF, since the watch counts a socket with what it holds by default; SO_LINGER, by which closing
    # a socket that was handed to somebody keeps them waiting.
    1: _OPTIONS_OF_SOCKETS,  # reuse, keepalive, credentials, time limits, timestamps
    0: (1, 2, 8, 10, 11, 12, 13, 14, 24, 32, 33, 34, 35, 36),  # IP: tos, ttl, pktinfo, mtu, errors, multicast
    41: (16, 17, 18, 19, 20, 21, 23, 25, 26, 49, 51, 66, 67),  # IPv6: hops, multicast, mtu, v6only, pktinfo, class
    6: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 18, 23, 30),  # TCP: nodelay, cork, keepalive, user timeout, fast open
}


def _socket_options(level, options):
    return tuple((Compare(1, INT, level), Compare(2, INT, option)) for option in options)


SET_SOCKET_OPTION = When(tuple(rule for level, options in _OPTIONS.items() for rule in _socket_options(level, options)))
SET_SOCKET_OPTION_UNIX = When(_socket_options(1, _OPTIONS_OF_SOCKETS))
