"""A seccomp program as data: reading it, setting the guest's pid, and running it on a call as the kernel would.

Standard library only, so that what is committed can be checked where libseccomp is not installed.
"""

import struct

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
AUDIT_ARCH_I386 = 0x40000003

ALLOW = 0x7FFF0000
ERRNO = 0x00050000

# Opcodes of classic BPF that libseccomp writes (linux/filter.h).
LOAD_WORD = 0x20
AND = 0x54
JUMP = 0x05
JUMP_EQUAL = 0x15
JUMP_GREATER = 0x25
JUMP_GREATER_EQUAL = 0x35
JUMP_ANY_BIT = 0x45
RETURN = 0x06


def decode(raw):
    """bytes of sock_filter[] -> [(code, jt, jf, k)]; little-endian on both architectures."""
    return [struct.unpack_from("<HBBI", raw, at) for at in range(0, len(raw), 8)]


def encode(instructions):
    return b"".join(struct.pack("<HBBI", *one) for one in instructions)


def with_pid(instructions, sentinel, pid):
    """The program for the process `pid`."""
    return [(code, jt, jf, pid if k == sentinel else k) for code, jt, jf, k in instructions]


def run(instructions, audit_arch, number, args):
    """The 32-bit action for a call; arguments are taken modulo 2**64, missing ones are 0."""
    words = [number & 0xFFFFFFFF, audit_arch, 0, 0]  # struct seccomp_data: nr, arch, instruction pointer, args
    for value in [*args, 0, 0, 0, 0, 0, 0][:6]:
        words += [value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF]
    accumulator = at = 0
    while True:
        code, if_true, if_false, k = instructions[at]
        at += 1
        if code == RETURN:
            return k
        if code == LOAD_WORD:
            accumulator = words[k // 4]
        elif code == AND:
            accumulator &= k
        elif code == JUMP:
            at += k
        elif code == JUMP_EQUAL:
            at += if_true if accumulator == k else if_false
        elif code == JUMP_GREATER:
            at += if_true if accumulator > k else if_false
        elif code == JUMP_GREATER_EQUAL:
            at += if_true if accumulator >= k else if_false
        elif code == JUMP_ANY_BIT:
            at += if_true if accumulator & k else if_false
        else:
            raise ValueError(f"opcode {code:#x} is not one that libseccomp writes")
