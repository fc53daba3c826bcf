"""Turns policy.py into filters.json, with libseccomp (Debian: python3-seccomp, for /usr/bin/python3).

    generate.py           writes filters.json
    generate.py --check   exits 1 if filters.json is not what would be written, or does not do what policy.py says

filters.json, for whoever loads a filter:

    {"libseccomp": "2.5.4", "sentinel_pid": N,
     "filters": {"x86_64": {"namespaces": {"bpf": base64 of struct sock_filter[], "instructions": n}, ...}, ...},
     "numbers": {"x86_64": {"read": 0, ...}, ...}}      every call of the table, for checks without libseccomp

To load: in every instruction (8 bytes) whose 32-bit immediate `k` (bytes 4..7, little-endian) is `sentinel_pid`,
replace it by getpid() of the guest, as the guest itself sees it; set no_new_privs; seccomp(SECCOMP_SET_MODE_FILTER). It
must be the last step of a lockdown: afterwards there is no second filter, no Landlock, no PR_SET_DUMPABLE, no new uid.

How a program is made. libseccomp gives calls that match no argument rule its default action, the one of unlisted calls.
Here unlisted is ENOSYS and a wrong argument is EPERM, so two programs are generated: the first decides by number, the
second, with EPERM as its default, by argument. Where the first would hand a call to the second it returns a marker, and
each marker is replaced by a jump to the second, which stands behind it. verify.py then runs the result against the
table.
"""

import base64
import ctypes
import itertools
import json
import os
import sys
import tempfile
from errno import ENOSYS, EPERM

import policy
import program
import rules
import seccomp
import verify

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "filters.json")
MARKER = 0x5EED
RETURN_MARKER = 0x7FF00000 | MARKER  # SECCOMP_RET_TRACE: an action that no policy here can ask for
LIBSECCOMP_ARCH = {"x86_64": seccomp.Arch.X86_64, "aarch64": seccomp.Arch.AARCH64}


def libseccomp_version():
    class Version(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint) for name in ("major", "minor", "micro")]

    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_version.restype = ctypes.POINTER(Version)
    version = library.seccomp_version().contents
    return f"{version.major}.{version.minor}.{version.micro}"


def numbers_of(arch):
    """name -> number of every call of the table. An unknown name raises: it would silently be no rule."""
    found = {}
    for name in policy.decisions(policy.VARIANTS[0], arch):
        number = policy.NUMBERS.get(name)
        if number is None:
            number = seccomp.resolve_syscall(LIBSECCOMP_ARCH[arch], name)
        if number < 0:
            raise ValueError(f"libseccomp knows no {name} on {arch}: misspelled, or give its number in policy.NUMBERS")
        found[name] = number
    for only_arch, names in policy.ONLY_ON.items():
        for name in names if arch != only_arch else ():
            if seccomp.resolve_syscall(LIBSECCOMP_ARCH[arch], name) >= 0:
                raise ValueError(f"{name} exists on {arch} too")
    return found


def new_filter(arch, default):
    made = seccomp.SyscallFilter(defaction=seccomp.ERRNO(default))
    if not made.exist_arch(LIBSECCOMP_ARCH[arch]):
        made.add_arch(LIBSECCOMP_ARCH[arch])
        made.remove_arch(seccomp.Arch.NATIVE)
    made.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(ENOSYS))  # the default would kill for an x32 or i386 number
    made.set_attr(seccomp.Attr.CTL_OPTIMIZE, 2)  # a binary tree over the numbers instead of a list of 250
    return made


def add_rules(made, name, when):
    for rule in when.rules:
        made.add_rule_exactly(
            seccomp.ALLOW,
            name,
            *(seccomp.Arg(one.arg, seccomp.MASKED_EQ, one.mask, one.value) for one in rule),
        )


def instructions_of(made):
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return program.decode(file.read())


def link(first, second):
    """`first`, with a jump to `second` in the place of every marker."""
    linked = [
        (program.JUMP, 0, 0, len(first) - at - 1) if (code, k) == (program.RETURN, RETURN_MARKER) else (code, jt, jf, k)
        for at, (code, jt, jf, k) in enumerate(first)
    ]
    return linked + second


def build(variant, arch):
    by_number, by_argument = new_filter(arch, ENOSYS), new_filter(arch, EPERM)
    for name, decision in policy.decisions(variant, arch).items():
        if decision == rules.ALLOW:
            by_number.add_rule_exactly(seccomp.ALLOW, name)
        elif decision == rules.REFUSE:
            by_number.add_rule_exactly(seccomp.ERRNO(EPERM), name)
        elif decision == rules.ABSENT:
            pass  # the default action
        elif decision.otherwise == ENOSYS:
            add_rules(by_number, name, decision)
        elif decision.otherwise == EPERM:
            by_number.add_rule_exactly(seccomp.TRACE(MARKER), name)
            add_rules(by_argument, name, decision)
        else:
            raise ValueError(f"{name}: {decision} is no decision")
    return link(instructions_of(by_number), instructions_of(by_argument))


def check(data):
    """Raises ValueError if a program does not answer as the table says, or holds the sentinel other than as a pid."""
    for arch, variant in itertools.product(policy.ARCHES, policy.VARIANTS):
        instructions = program.decode(base64.b64decode(data["filters"][arch][variant]["bpf"]))
        wrong = next(verify.differences(instructions, variant, arch, numbers_of(arch)), None)
        if wrong:
            raise ValueError(wrong)
        for code, _, _, k in instructions:
            if k == rules.SENTINEL_PID and code != program.JUMP_EQUAL:
                raise ValueError(f"{variant} on {arch}: the sentinel pid is another immediate too; choose another")


def generate():
    """What filters.json holds, not yet checked."""
    filters = {arch: {} for arch in policy.ARCHES}
    for arch, variant in itertools.product(policy.ARCHES, policy.VARIANTS):
        instructions = build(variant, arch)
        raw = base64.b64encode(program.encode(instructions)).decode()
        filters[arch][variant] = {"bpf": raw, "instructions": len(instructions)}
    return {
        "libseccomp": libseccomp_version(),
        "sentinel_pid": rules.SENTINEL_PID,
        "filters": filters,
        "numbers": {arch: numbers_of(arch) for arch in policy.ARCHES},
    }


def check_committed(made):
    """Raises ValueError if the committed file is not `made`, or does not do what policy.py says."""
    with open(PATH) as file:
        committed = json.load(file)
    # Another libseccomp may lay the same decisions out differently: then only what the programs do is compared.
    same_version = committed["libseccomp"] == made["libseccomp"]
    for part in made if same_version else ("sentinel_pid", "numbers"):
        if committed[part] != made[part]:
            raise ValueError(f"filters.json: {part} is not what policy.py gives: run generate.py and commit the result")
    try:
        check(committed)
    except ValueError as error:
        raise ValueError(f"filters.json: {error}: run generate.py and commit the result") from None


def main():
    made = generate()
    try:
        if "--check" in sys.argv[1:]:
            check_committed(made)
            return
        check(made)
    except ValueError as error:
        sys.exit(str(error))
    with open(PATH, "w") as file:
        json.dump(made, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
