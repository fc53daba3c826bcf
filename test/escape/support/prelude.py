import ctypes, errno, os, signal, socket, struct, sys, time
BAIT = __BAIT__
NR = BAIT["numbers"]
PIDS = [pid for pid in BAIT["pids"] if pid not in (os.getpid(), BAIT["own"].get(str(os.getuid())))]
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.prctl(15, BAIT["mark"].encode(), 0, 0, 0)  # PR_SET_NAME: what is left of this run can be told by it
def escaped(*what):
    os.write(1, f"ESCAPED {' '.join(map(str, what))}\n".encode())
def attempt(action, *what):
    """It escaped if the kernel lets it."""
    try:
        found = action()
    except OSError:
        return None
    escaped(*what, repr(found)[:80])
    return found
def raw(number, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    ctypes.set_errno(0)
    if libc.syscall(ctypes.c_long(number), *args) < 0:
        return errno.errorcode[ctypes.get_errno()]
    return "allowed"
def refused(name, *args, fine=("EPERM", "ENOSYS")):
    """It escaped if the kernel so much as looks at the arguments: an answer such as EINVAL or EFAULT is one too many."""
    if name in NR:
        answer = raw(NR[name], *args)
        if answer not in fine:
            escaped(name, *args, answer)
def succeeds(name, *args):
    """It escaped if the call succeeds."""
    if name in NR and raw(NR[name], *args) == "allowed":
        escaped(name, *args)
