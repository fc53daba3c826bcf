"""Runs Python code from stdin under a committed seccomp filter: under.py SECCOMP_FOLDER VARIANT [CODE TO RUN BEFORE].

The variant "none" is no filter.

The code finds `call(name or number, *arguments)`, which makes a system call and gives "ok" or the name of its errno,
`decisions`, the table of the variant on this machine, and `ARCH`.
"""

import base64
import ctypes
import errno
import json
import os
import platform
import struct
import sys

folder, variant, before = [*sys.argv[1:], ""][:3]
sys.path.insert(0, folder)
ARCH = platform.machine()
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

with open(os.path.join(folder, "filters.json")) as file:
    data = json.load(file)
numbers = data["numbers"][ARCH]


def call(name, *args):
    wide = [ctypes.c_ulong(a & (1 << 64) - 1) if isinstance(a, int) else a for a in args]
    number = name if isinstance(name, int) else numbers[name]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *wide)
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def load(bpf):
    program = bytearray(bpf)
    for at in range(4, len(program), 8):
        if struct.unpack_from("<I", program, at)[0] == data["sentinel_pid"]:
            struct.pack_into("<I", program, at, os.getpid())
    buffer = ctypes.create_string_buffer(bytes(program), len(program))
    header = struct.pack("HP", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    if libc.prctl(38, *[ctypes.c_ulong(a) for a in (1, 0, 0, 0)]):  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if libc.syscall(ctypes.c_long(277 if ARCH == "aarch64" else 317), ctypes.c_long(1), ctypes.c_long(0), header):
        raise OSError(ctypes.get_errno(), "seccomp")


code = compile(sys.stdin.read(), "<code>", "exec")
exec(before)
if variant != "none":
    import policy

    decisions = policy.decisions(variant, ARCH)
    load(base64.b64decode(data["filters"][ARCH][variant]["bpf"]))
del __file__  # else multiprocessing would run this file again in the processes that it spawns
exec(code)
