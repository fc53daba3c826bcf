"""Runs a command below a seccomp profile in the OCI's format, as a container's runtime does.

    python3 under-profile.py PROFILE COMMAND [ARGUMENT…]

Needs python3-seccomp. The order of the bits of a masked comparison is the OCI's: `value` is the mask, `valueTwo` what is to be left.
"""

import json
import os
import sys

import seccomp

OPERATIONS = {"SCMP_CMP_NE": seccomp.NE, "SCMP_CMP_EQ": seccomp.EQ, "SCMP_CMP_MASKED_EQ": seccomp.MASKED_EQ}


def action(name, errno):
    return {"SCMP_ACT_ALLOW": seccomp.ALLOW, "SCMP_ACT_ERRNO": seccomp.ERRNO(errno)}[name]


def argument(condition):
    operation = OPERATIONS[condition["op"]]
    second = [condition.get("valueTwo", 0)] if operation == seccomp.MASKED_EQ else []
    return seccomp.Arg(condition["index"], operation, condition["value"], *second)


def load(profile):
    program = seccomp.SyscallFilter(action(profile["defaultAction"], profile["defaultErrnoRet"]))
    program.set_attr(seccomp.Attr.CTL_NNP, 1)
    for rule in profile["syscalls"]:
        arguments = [argument(condition) for condition in rule.get("args", [])]
        for name in rule["names"]:
            try:
                number = seccomp.resolve_syscall(seccomp.Arch(), name)
            except (RuntimeError, ValueError):
                continue  # this libseccomp has not heard of it, as a runtime's may not have
            if number != -1:
                program.add_rule(action(rule["action"], rule.get("errnoRet", 1)), name, *arguments)
    program.load()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        described = json.load(file)
    load(described)
    os.execvp(sys.argv[2], sys.argv[2:])
