"""Runs finished programs on calls and compares their answers with the table, independently of libseccomp.

For every number up to 1023, the x32 numbers, -1 and foreign architectures; and for each argument rule its matching
values, the same with bits set where the kernel does not look, and with every bit flipped that the rule looks at.
"""

import errno
import itertools

import policy
import program
import rules

X32_BIT = 0x40000000
OWN_PID = 4242
ABSENT = program.ERRNO | errno.ENOSYS


def _expected(decision, args):
    if decision == rules.ALLOW:
        return program.ALLOW
    if decision == rules.REFUSE:
        return program.ERRNO | errno.EPERM
    if decision == rules.ABSENT:
        return ABSENT
    for rule in decision.rules:
        if all(args[one.arg] & one.mask == _own(one.value) for one in rule):
            return program.ALLOW
    return program.ERRNO | decision.otherwise


def _own(value):
    return OWN_PID if value == rules.SENTINEL_PID else value


def _probes(decision):
    """Arguments that a decision could get wrong."""
    yield [0] * 6
    yield [rules.LONG] * 6
    yield [rules.INT] * 6
    yield [1 << 32] * 6
    yield [rules.SENTINEL_PID] * 6
    if not isinstance(decision, rules.When):
        return
    for rule in decision.rules:
        good = [0] * 6
        for one in rule:
            good[one.arg] = _own(one.value)
        yield good
        for one in rule:
            yield _changed(good, one.arg, good[one.arg] | rules.LONG ^ one.mask)
            for bit in range(64):
                yield _changed(good, one.arg, good[one.arg] ^ 1 << bit)
    for arg in {one.arg for rule in decision.rules for one in rule}:
        for value in range(-2, 300):
            yield _changed(good, arg, value & rules.LONG)


def _changed(args, at, value):
    return [*args[:at], value, *args[at + 1 :]]


def differences(instructions, variant, arch, numbers):
    """Yields a sentence per answer that is not the table's. `numbers` is name -> number of this architecture."""
    own = program.with_pid(instructions, rules.SENTINEL_PID, OWN_PID)
    audit_arch = program.AUDIT_ARCH[arch]
    by_number = {numbers[name]: (name, decision) for name, decision in policy.decisions(variant, arch).items()}
    for number in itertools.chain(range(1024), (X32_BIT - 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)):
        name, decision = by_number.get(number, (str(number), rules.ABSENT))
        for args in _probes(decision):
            answer, expected = program.run(own, audit_arch, number, args), _expected(decision, args)
            if answer != expected:
                yield f"{variant} on {arch}: {name}{tuple(map(hex, args))} answers {answer:#x}, not {expected:#x}"
    foreign = {program.AUDIT_ARCH_I386, *program.AUDIT_ARCH.values()} - {audit_arch}
    elsewhere = [(other, number) for other in foreign for number in range(512)]
    if arch == "x86_64":
        elsewhere += [(audit_arch, X32_BIT + number) for number in range(1024)]
    for other, number in elsewhere:
        answer = program.run(own, other, number, [0] * 6)
        if answer != ABSENT:
            yield f"{variant} on {arch}: number {number:#x} of architecture {other:#x} answers {answer:#x}"
