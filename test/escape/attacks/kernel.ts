import { type Attack, LANDLOCK, NAMESPACES } from '../support/attack.js'

/** System calls that must be refused before the kernel looks at what they are given: [call, arguments] in Python. */
const calls = (name: string, list: string, more: Partial<Attack> = {}): Attack => ({
  name,
  code: `for name, arguments in (${list},):\n    refused(name, *arguments)\nprint("tried")`,
  ...more,
})

const CLONE_FLAGS =
  '0x10000000, 0x10020000, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80, 0x2000, 0x800000, 0x8000'

export const kernel: readonly Attack[] = [
  {
    name: 'unshare: each namespace alone, with users, and all at once',
    code: `for flags in (0x10000000, 0x10020000, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80, 0x7E020000, 0x400, 0x200, 0, 1 << 32 | 0x10000000):
    refused("unshare", flags)
print("tried")`,
  },
  {
    name: 'clone: namespaces, CLONE_PARENT, CLONE_PTRACE, CLONE_UNTRACED',
    code: `for flags in (${CLONE_FLAGS}):
    for more in (0x11, 0):
        number = NR["clone"]
        result = libc.syscall(ctypes.c_long(number), ctypes.c_long(flags | more), None, None, None, None)
        if result == 0: os._exit(0)
        if result > 0 and flags not in (0x80,): escaped(hex(flags | more))
print("tried")`,
    // 0x80 is a bit of the exit signal for clone, which knows no time namespaces; the child just ends.
    tiers: LANDLOCK,
  },
  {
    name: 'clone: namespaces and relatives of processes that may be made',
    code: `for flags in (0x10000000, 0x10020000, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x2000, 0x800000, 0x8000):
    result = libc.syscall(ctypes.c_long(NR["clone"]), ctypes.c_long(flags | 0x11), None, None, None, None)
    if result == 0: os._exit(0)
    if result > 0: escaped(hex(flags))
print("tried")`,
    tiers: NAMESPACES,
  },
  {
    name: 'clone3: flags in memory, where no filter can look',
    code: `arguments = ctypes.create_string_buffer(struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0))
refused("clone3", arguments, 64, fine=("ENOSYS",))
refused("clone3", 0, 0, fine=("ENOSYS",))
print("tried")`,
  },
  {
    name: 'fork, vfork, clone and execve where there are no processes',
    tiers: LANDLOCK,
    code: `for name in ("fork", "vfork"): refused(name)
refused("clone", 17, 0, 0, 0, 0)
refused("execve", b"/usr/bin/id", 0, 0)
refused("clone", 0x100 | 0x4000 | 17, 0, 0, 0, 0)
print("tried")`,
  },
  calls(
    'execveat: a program from a descriptor',
    '("execveat", (0, b"", 0, 0, 0x1000)), ("execveat", (-100, b"/usr/bin/id", 0, 0, 0))',
  ),
  calls(
    'memfd_create and memfd_secret: programs and room that no path rule sees',
    '("memfd_create", (b"x", 0)), ("memfd_create", (b"x", 0x10)), ("memfd_secret", (0,))',
  ),
  calls(
    'mount and umount, the old way',
    '("mount", (b"none", b"/tmp", b"tmpfs", 0, 0)), ("mount", (b"/", b"/tmp", 0, 0x5000, 0)), ("mount", (0, b"/", 0, 0x1020, 0)), ("umount2", (b"/tmp", 2)), ("umount2", (b"/proc", 8))',
  ),
  calls(
    'mounts by descriptor, the new way',
    '("fsopen", (b"tmpfs", 0)), ("fsconfig", (0, 0, 0, 0, 0)), ("fsmount", (0, 0, 0)), ("fspick", (-100, b"/", 0)), ("open_tree", (-100, b"/", 1)), ("move_mount", (-100, b"/", -100, b"/tmp", 0)), ("mount_setattr", (-100, b"/", 0, 0, 0)), ("open_tree_attr", (-100, b"/", 0, 0, 0))',
  ),
  calls(
    'statmount, listmount, listns: what is mounted on the host',
    '("statmount", (0, 0, 0, 0)), ("listmount", (0, 0, 0, 0)), ("listns", (0, 0, 0, 0))',
  ),
  calls(
    'pivot_root and chroot: another root',
    '("pivot_root", (b".", b".")), ("chroot", (b"/tmp",)), ("chroot", (b".",))',
  ),
  {
    name: 'chroot and a folder held open: out of it again',
    code: `os.mkdir("jail")
fd = os.open(".", os.O_RDONLY)
refused("chroot", b"jail")
os.fchdir(fd)
for _ in range(64): os.chdir("..")
attempt(lambda: open(BAIT["folder"][1:] + "/readable").read())
print("tried")`,
  },
  {
    name: '/proc/self/mountinfo and mounts: where things lie on the host',
    code: `for path in ("/proc/self/mountinfo", "/proc/self/mounts", "/proc/mounts"):
    try: text = open(path).read()
    except OSError: continue
    if BAIT["folder"] in text: escaped(path)
print("tried")`,
  },
  {
    name: '/proc/self/cgroup: what the container and its control groups are called',
    tiers: NAMESPACES,
    code: `try: lines = open("/proc/self/cgroup").read().splitlines()
except OSError: lines = []  # there is no /proc
for line in lines:
    if any(name not in ("", "..") for name in line.split(":", 2)[2].split("/")): escaped(line)
attempt(lambda: os.close(-1) if os.readlink("/proc/self/ns/cgroup") != BAIT["cgroup_ns"] else None, "the namespace of the worker")
print("tried")`,
  },
  calls(
    'io_uring: work that no filter sees',
    '("io_uring_setup", (4, ctypes.create_string_buffer(120))), ("io_uring_enter", (0, 0, 0, 0, 0, 0)), ("io_uring_register", (0, 0, 0, 0))',
  ),
  calls(
    'asynchronous input and output of old',
    '("io_setup", (1, ctypes.create_string_buffer(8))), ("io_submit", (0, 0, 0)), ("io_destroy", (0,)), ("io_getevents", (0, 0, 0, 0, 0))',
  ),
  calls(
    'bpf: programs and maps in the kernel',
    '*[("bpf", (n, ctypes.create_string_buffer(bytes([2, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0]), 128), 128)) for n in range(0, 20)]',
  ),
  {
    name: 'perf_event_open: counters of the processor',
    code: `attributes = ctypes.create_string_buffer(128)
attributes[0], attributes[4], attributes[8], attributes[40] = 1, 64, 9, 0x60
for pid in (0, -1, 1): refused("perf_event_open", attributes, pid, -1, -1, 0)
print("tried")`,
  },
  calls('userfaultfd: page faults handled by the code', '("userfaultfd", (0x80001,)), ("userfaultfd", (0,))'),
  calls(
    'remap_file_pages, mbind, set_mempolicy, pkeys, shadow stacks, mseal',
    '("remap_file_pages", (0, 0, 0, 0, 0)), ("mbind", (0, 0, 0, 0, 0, 0)), ("set_mempolicy", (0, 0, 0)), ("pkey_alloc", (0, 0)), ("map_shadow_stack", (0, 4096, 0)), ("mseal", (0, 0, 0))',
  ),
  calls(
    'keyctl, add_key, request_key: a store that outlives the sandbox',
    '("keyctl", (0, -3, 0)), ("keyctl", (1, 0)), ("add_key", (b"user", b"x", b"y", 1, -3)), ("request_key", (b"user", b"x", 0, -3))',
  ),
  calls(
    'System V shared memory',
    '("shmget", (0, 4096, 0o1600)), ("shmget", (BAIT["shm_key"], 0, 0)), ("shmat", (0, 0, 0)), ("shmctl", (0, 14, ctypes.create_string_buffer(200)))',
  ),
  calls(
    'System V semaphores and messages',
    '("semget", (0, 1, 0o1600)), ("semctl", (0, 0, 19, ctypes.create_string_buffer(200))), ("msgget", (0, 0o1600)), ("msgctl", (0, 12, ctypes.create_string_buffer(200))), ("semtimedop", (0, 0, 0, 0))',
  ),
  calls('POSIX message queues', '("mq_open", (b"x", 0o102, 0o600, 0)), ("mq_unlink", (b"x",)), ("mq_notify", (0, 0))'),
  {
    name: 'x32: the same calls by a second set of numbers',
    code: `for number in (39, 57, 59, 272, 101, 41, 321, 319, 512, 520, 521, 545, 547):
    answer = raw(0x40000000 | number, 0, 0, 0)
    if answer not in ("EPERM", "ENOSYS"): escaped(number, answer)
print("tried")`,
  },
  {
    name: 'system call numbers beyond the table, negative and with high halves',
    code: `for number in (-1, -2, 1 << 31, 337, 423, 471, 500, 511, 512, 547, 548, 1023, 1 << 20, 0x3FFFFFFF):
    answer = raw(number, 0, 0, 0)
    if answer != "ENOSYS": escaped(number, answer)
print("tried")`,
  },
  {
    name: 'uretprobe and uprobe: calls that newer kernels ask no filter about, and answer with SIGILL',
    code: `import platform
if platform.machine() == "x86_64":
    for number in (336, 335):
        if raw(number, 0, 0, 0) == "allowed": escaped(number)
print("tried")`,
    ends: { status: ['crashed', 'completed'], stdout: /^(tried\n)?$/ },
  },
  {
    name: 'int 0x80: the same calls by the numbers of 32 bits',
    code: `import mmap, platform
if platform.machine() == "x86_64":
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # mov eax, 20 (getpid); int 0x80; ret
    code.write(bytes.fromhex("b814000000cd80c3"))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    if result == os.getpid() or result not in (-1, -38): escaped(result)
print("tried")`,
  },
  calls(
    'personality: no address randomisation, another ABI',
    '("personality", (0x0040000,)), ("personality", (8,)), ("personality", (0x0400000,)), ("personality", (1 << 32 | 0x0040000,))',
  ),
  calls(
    'modify_ldt, iopl, ioperm, uselib, vm86: old doors',
    '("modify_ldt", (0, ctypes.create_string_buffer(64), 64)), ("modify_ldt", (1, ctypes.create_string_buffer(16), 16)), ("iopl", (3,)), ("ioperm", (0, 8, 1)), ("uselib", (b"/lib/x",)), ("lookup_dcookie", (0, 0, 0)), ("nfsservctl", (0, 0, 0))',
  ),
  calls(
    'arch_prctl: what is not thread start',
    '("arch_prctl", (0x1012, 0)), ("arch_prctl", (0x1011, 0)), ("arch_prctl", (0x5001, 1)), ("arch_prctl", (0x4001, 0))',
  ),
  calls(
    'kexec_load, kexec_file_load, reboot: another kernel',
    '("kexec_load", (0, 0, 0, 0xFF)), ("kexec_file_load", (-1, -1, 0, 0, 0)), ("reboot", (0, 0, 0, 0))',
  ),
  calls(
    'init_module, finit_module, delete_module: modules',
    '("init_module", (0, 0, b"")), ("finit_module", (-1, b"", 0)), ("delete_module", (b"none-5521", 0x800))',
  ),
  calls(
    'swapon, swapoff, acct, quotactl: the disks of the host',
    '("swapon", (b"/none-5521", 0)), ("swapoff", (b"/none-5521",)), ("acct", (b"/none-5521",)), ("quotactl", (-1, 0, 0, 0)), ("quotactl_fd", (-1, 0, 0, 0))',
  ),
  calls('sync and syncfs: the disks of the host', '("sync", ()), ("syncfs", (1,))'),
  calls(
    'syslog and vhangup: the log and the terminals of the host',
    '("syslog", (3, ctypes.create_string_buffer(64), 64)), ("syslog", (10, 0, 0)), ("vhangup", ())',
  ),
  {
    name: 'the clock of the host: settimeofday, clock_settime, adjtimex',
    code: `now = struct.pack("qq", int(time.time()), 0)
refused("clock_settime", 0, now)
refused("settimeofday", now, 0)
refused("adjtimex", ctypes.create_string_buffer(256))
refused("clock_adjtime", 0, ctypes.create_string_buffer(256))
print("tried")`,
  },
  calls('sethostname and setdomainname', '("sethostname", (b"sandbox", 7)), ("setdomainname", (b"x", 1))'),
  {
    name: 'the name of the host',
    tiers: NAMESPACES,
    code: 'if os.uname().nodename == BAIT["host"]: escaped()\nprint("tried")',
  },
  {
    name: 'who owns the files of the host',
    tiers: NAMESPACES,
    code: 'if os.stat("/usr").st_uid != 65534: escaped(os.stat("/usr").st_uid)\nprint("tried")',
  },
  {
    name: 'the files of the host are one’s own',
    code: 'if os.stat("/usr").st_uid == os.getuid(): escaped(os.getuid())\nprint("tried")',
  },
  calls(
    'seccomp: a filter of one’s own, and notifications',
    '("seccomp", (1, 0, 0)), ("seccomp", (0, 0, 0)), ("seccomp", (1, 8, 0)), ("seccomp", (3, 0, 0))',
  ),
  calls(
    'landlock: rules of one’s own',
    '("landlock_create_ruleset", (0, 0, 1)), ("landlock_add_rule", (-1, 1, 0, 0)), ("landlock_restrict_self", (-1, 0))',
  ),
  {
    name: 'huge pages of the host’s pool',
    code: `for flags in (0x40022, 0x40021, 0x40022 | 21 << 26):
    answer = raw(NR["mmap"], 0, 2 << 20, 3, flags, -1, 0)
    if answer not in ("EPERM", "ENOSYS"): escaped(hex(flags), answer)
print("tried")`,
  },
  {
    name: 'madvise: hide memory, break it, merge it with others',
    code: `import mmap
area = mmap.mmap(-1, 1 << 16)
address = ctypes.addressof(ctypes.c_char.from_buffer(area))
for advice in (12, 20, 21, 100, 101, 1 << 32 | 12, 1 << 32 | 21):
    refused("madvise", address, 4096, advice)
print("tried")`,
  },
  {
    name: 'the zero page and the vsyscall page',
    code: `import mmap
if raw(NR["mmap"], 0, 4096, 3, 0x32, -1, 0) == "allowed": escaped("zero page")
answer = raw(NR["mlock"], ctypes.create_string_buffer(1 << 20), 1 << 20)
if answer == "allowed": escaped("a mebibyte locked")
print("tried")`,
  },
  {
    name: 'rlimits: raise them, or get them back through a child',
    code: `import resource
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK):
    soft, hard = resource.getrlimit(kind)
    try: resource.setrlimit(kind, (hard + 1, hard + 1)); escaped(kind)
    except (OSError, ValueError): pass
    if hard == resource.RLIM_INFINITY: escaped("no limit", kind)
if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0): escaped("core")
print("tried")`,
  },
  calls(
    'vmsplice, splice, tee, cachestat, openat2: newer ways round',
    '("vmsplice", (1, 0, 0, 0)), ("splice", (0, 0, 1, 0, 1, 0)), ("tee", (0, 1, 1, 0)), ("cachestat", (0, 0, 0, 0)), ("openat2", (-100, b"/", 0, 24))',
  ),
  calls(
    'lsm_*, file_setattr, setxattrat, removexattrat: newer than the table',
    '("lsm_set_self_attr", (0, 0, 0, 0)), ("lsm_get_self_attr", (0, 0, 0, 0)), ("file_setattr", (-100, b".", 0, 0, 0)), ("setxattrat", (-100, b".", 0, b"user.x", 0, 0)), ("removexattrat", (-100, b".", 0, b"user.x"))',
  ),
]
