import { type Attack, LANDLOCK, NAMESPACES } from '../support/attack.js'

/** `body` for each process that is not the code's own: worker, template, zygote, wardens, a neighbour, parent, PID 1. */
const each = (body: string) => `for pid in {*PIDS, os.getppid(), 1} - {0, os.getpid()}:
${body.replaceAll(/^/gm, '    ')}
print("tried")`

/** The same without PID 1 of the sandbox: the warden is a process of the same uid, and some things about it may be asked. */
const eachOutside = (body: string) => `for pid in PIDS:
${body.replaceAll(/^/gm, '    ')}
print("tried")`

const READ_PROC = (file: string) => each(`attempt(lambda: open(f"/proc/{pid}/${file}", "rb").read(64), pid)`)

export const processes: readonly Attack[] = [
  { name: 'kill: ask whether a process outside is there', code: eachOutside('attempt(lambda: os.kill(pid, 0), pid)') },
  {
    name: 'kill: every signal to PID 1 of the sandbox',
    tiers: NAMESPACES,
    code: `for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
print("tried")`,
  },
  {
    name: 'kill: the whole process group, and everybody',
    tiers: LANDLOCK,
    code: 'attempt(lambda: os.kill(0, 0))\nattempt(lambda: os.kill(-1, 0))\nattempt(lambda: os.killpg(os.getpgrp(), 0))\nprint("tried")',
  },
  {
    name: 'kill: everybody, in a sandbox where that is only oneself',
    tiers: NAMESPACES,
    code: 'attempt(lambda: os.kill(-1, signal.SIGKILL))\nprint("tried")',
    // A process does not count itself among all.
    ends: { status: 'completed', stdout: /^(ESCAPED None\n)?tried\n$/ },
  },
  {
    name: 'tgkill and tkill: threads of others',
    code: eachOutside('succeeds("tgkill", pid, pid, 0)\nsucceeds("tkill", pid, 0)'),
  },
  {
    name: 'rt_sigqueueinfo: a forged sender',
    code: eachOutside(
      'info = ctypes.create_string_buffer(struct.pack("iii", 10, 0, -1), 128)\nsucceeds("rt_sigqueueinfo", pid, 0, info)\nsucceeds("rt_tgsigqueueinfo", pid, pid, 0, info)',
    ),
  },
  {
    name: 'pidfd_open and pidfd_send_signal',
    code: eachOutside('attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0), pid)'),
  },
  {
    name: 'pidfd_open: watch a process outside end',
    code: eachOutside('attempt(lambda: os.close(os.pidfd_open(pid)), pid)'),
  },
  {
    name: 'pidfd_getfd: take a descriptor of another',
    code: `refused("pidfd_getfd", 0, 0, 0)
${each('try: fd = os.pidfd_open(pid)\nexcept OSError: continue\nfor number in range(12): succeeds("pidfd_getfd", fd, number, 0)')}`,
  },
  {
    name: 'prlimit: read the limits of others',
    code: each('succeeds("prlimit64", pid, 7, 0, ctypes.create_string_buffer(16))'),
  },
  {
    name: 'prlimit: a CPU limit for others',
    code: each('succeeds("prlimit64", pid, 0, struct.pack("QQ", 1 << 40, 1 << 40), 0)'),
  },
  {
    name: 'prlimit: no files for others, the pid with a high half',
    code: each('succeeds("prlimit64", pid | 1 << 32, 7, struct.pack("QQ", 1 << 20, 1 << 20), 0)'),
  },
  {
    name: 'setpriority: slow down others',
    code: each('attempt(lambda: os.setpriority(os.PRIO_PROCESS, pid, 19), pid)'),
  },
  {
    name: 'setpriority: slow down a whole group or user',
    code: `for which in (os.PRIO_PGRP, os.PRIO_USER):
    attempt(lambda: os.setpriority(which, 0, 19), which)
    attempt(lambda: os.setpriority(which, os.getuid(), 19), which)
print("tried")`,
  },
  {
    name: 'getpriority: ask about others',
    code: eachOutside('attempt(lambda: os.getpriority(os.PRIO_PROCESS, pid), pid)'),
  },
  {
    name: 'ioprio_set: idle input and output for others',
    code: each('refused("ioprio_set", 1, pid, 3 << 13)\nrefused("ioprio_get", 1, pid)'),
  },
  {
    name: 'sched_setaffinity: pin others to one CPU',
    code: each('attempt(lambda: os.sched_setaffinity(pid, {0}), pid)'),
  },
  {
    name: 'sched_setscheduler: idle scheduling for others',
    code: each(
      'attempt(lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)), pid)\nattempt(lambda: os.sched_setparam(pid, os.sched_param(0)), pid)',
    ),
  },
  {
    name: 'sched_setattr: a deadline policy for others',
    code: each('succeeds("sched_setattr", pid, struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0)'),
  },
  {
    name: 'sched_setscheduler: real time for oneself',
    code: 'attempt(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))\nprint("tried")',
  },
  {
    name: 'sched_getscheduler: ask about processes outside',
    code: eachOutside(
      'attempt(lambda: os.sched_getscheduler(pid), pid)\nattempt(lambda: os.sched_getaffinity(pid), pid)',
    ),
  },
  {
    name: 'getpgid and getsid: find processes outside',
    code: eachOutside('attempt(lambda: os.getpgid(pid), pid)\nattempt(lambda: os.getsid(pid), pid)'),
  },
  {
    name: 'clock of another: how much CPU it used',
    code: eachOutside(
      'attempt(lambda: time.clock_gettime((~pid << 3) | 2), pid)\nattempt(lambda: time.clock_getres((~pid << 3) | 2), pid)',
    ),
  },
  {
    name: 'ptrace: attach, seize, and be traced',
    code: `refused("ptrace", 0, 0, 0, 0)
${each('refused("ptrace", 16, pid, 0, 0)\nrefused("ptrace", 0x4206, pid, 0, 0)')}`,
  },
  {
    name: 'process_vm_readv: read the memory of others',
    code: `buffer = ctypes.create_string_buffer(32)
mine = struct.pack("QQ", ctypes.addressof(buffer), 32)
theirs = struct.pack("QQ", BAIT["address"], 21)
${each('refused("process_vm_readv", pid, mine, 1, theirs, 1, 0)')}`,
  },
  {
    name: 'process_vm_writev: write into the memory of others',
    code: `mine = struct.pack("QQ", BAIT["address"], 0)
${each('refused("process_vm_writev", pid, mine, 1, mine, 1, 0)')}`,
  },
  {
    name: 'process_madvise and process_mrelease: take the memory of others away',
    code: 'refused("process_madvise", -1, 0, 0, 21, 0)\nrefused("process_mrelease", -1, 0)\nprint("tried")',
  },
  {
    name: 'move_pages and migrate_pages: move the memory of others',
    code: each('refused("move_pages", pid, 0, 0, 0, 0, 0)\nrefused("migrate_pages", pid, 0, 0, 0)'),
  },
  { name: 'kcmp: compare with others', code: each('refused("kcmp", os.getpid(), pid, 0, 0, 0)') },
  {
    name: 'get_robust_list: an address in another process',
    code: each('refused("get_robust_list", pid, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8))'),
  },
  { name: '/proc/PID/environ of others', code: READ_PROC('environ') },
  { name: '/proc/PID/cmdline of others', code: READ_PROC('cmdline') },
  { name: '/proc/PID/maps of others', code: READ_PROC('maps') },
  {
    name: '/proc/PID/mem of others',
    code: each('attempt(lambda: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)), pid)'),
  },
  { name: '/proc/PID/status of others', code: READ_PROC('status') },
  { name: '/proc/PID/fd of others', code: each('attempt(lambda: os.listdir(f"/proc/{pid}/fd"), pid)') },
  {
    name: '/proc/PID/fd/N of others: open what they hold',
    code: each(
      'for n in (*range(16), BAIT["fifo_fd"]): attempt(lambda: os.close(os.open(f"/proc/{pid}/fd/{n}", os.O_RDWR | os.O_NONBLOCK)), pid, n)',
    ),
  },
  {
    name: '/proc/PID/root and cwd of others',
    code: each('for way in ("root", "cwd"): attempt(lambda: os.listdir(f"/proc/{pid}/{way}/"), pid, way)'),
  },
  {
    name: '/proc/PID/ns of others: enter their namespaces',
    code: each(
      'for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"):\n    attempt(lambda: os.close(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)), pid, name)',
    ),
  },
  {
    name: 'setns: into one of its own, and through a pidfd',
    code: `refused("setns", -1, 0)
for name in ("user", "mnt", "net"):
    try: fd = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
    except OSError: continue
    refused("setns", fd, 0)
refused("setns", 0, 0x10000000)
print("tried")`,
  },
  {
    name: '/proc/PID/oom_score_adj: have another killed first',
    code: each('attempt(lambda: open(f"/proc/{pid}/oom_score_adj", "w").write("1000"), pid)'),
  },
  {
    name: '/proc/PID/task and comm: names of threads of others',
    code: each(
      'attempt(lambda: open(f"/proc/{pid}/comm", "w").write("x"), pid)\nattempt(lambda: os.listdir(f"/proc/{pid}/task"), pid)',
    ),
  },
  {
    name: 'a scan of all pids by /proc',
    code: `for pid in {*range(1, 400), *PIDS} - {os.getpid()}:
    attempt(lambda: os.stat(f"/proc/{pid}/stat"), pid)
print("tried")`,
    tiers: NAMESPACES,
  },
  {
    name: 'a list of /proc: more than oneself',
    code: 'try: print("tried" if {n for n in os.listdir("/proc") if n.isdigit()} <= {str(os.getpid())} else "ESCAPED")\nexcept OSError: print("tried")',
  },
  {
    name: 'F_SETOWN and F_SETSIG: have the kernel send the signal',
    code: `import fcntl
ours, theirs = socket.socketpair()
for pid in {*PIDS, 1}:
    attempt(lambda: fcntl.fcntl(ours, 8, pid), "F_SETOWN", pid)
    attempt(lambda: fcntl.fcntl(ours, 15, struct.pack("ii", 1, pid)), "F_SETOWN_EX", pid)
attempt(lambda: fcntl.fcntl(ours, 10, 9), "F_SETSIG")
print("tried")`,
  },
  {
    name: 'FIOSETOWN and SIOCSPGRP: the same by ioctl',
    code: `import fcntl
ours, theirs = socket.socketpair()
for pid in {*PIDS, 1}:
    for request in (0x8901, 0x8902):
        attempt(lambda: fcntl.ioctl(ours, request, struct.pack("i", pid)), hex(request), pid)
print("tried")`,
  },
  {
    name: 'timer_create: signals to a thread of another',
    code: eachOutside(
      'event = ctypes.create_string_buffer(struct.pack("QiiI", 0, 9, 4, pid), 64)\nsucceeds("timer_create", 1, event, ctypes.create_string_buffer(8))',
    ),
  },
  {
    name: 'prctl: dumpable, tracer, subreaper, memory map, filters',
    code: `for option, value in ((4, 0), (4, 1), (0x59616D61, -1), (36, 1), (35, 1), (22, 1), (62, 1), (24, 0), (47, 2), (28, 0), (8, 1), (33, 1), (26, 2)):
    refused("prctl", option, value, 0, 0, 0)
    refused("prctl", option | 1 << 32, value, 0, 0, 0)
print("tried")`,
  },
  {
    name: 'prctl: a name for memory, under which the watch would not know it',
    code: 'refused("prctl", 0x53564D41, 0, 0, 0, 0)\nprint("tried")',
  },
  {
    name: 'prctl: outlive the warden by taking the death signal away',
    tiers: LANDLOCK,
    code: 'refused("prctl", 1, 0, 0, 0, 0)\nprint("tried")',
  },
  {
    name: 'setuid, setgid, setgroups, capset: be somebody else',
    code: `for name in ("setuid", "setgid", "setfsuid", "setfsgid"): refused(name, 0)
for name in ("setreuid", "setregid"): refused(name, 0, 0)
for name in ("setresuid", "setresgid"): refused(name, 0, 0, 0)
refused("setgroups", 0, 0)
refused("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", 1, 1, 0, 0, 0, 0))
print("tried")`,
  },
  {
    name: 'capabilities: any, in any set',
    code: `header = struct.pack("Ii", 0x20080522, 0)
data = ctypes.create_string_buffer(24)
raw(NR["capget"], header, data)
if any(data.raw): escaped(data.raw)
for number in range(41):
    if libc.prctl(47, 1, number, 0, 0) == 1: escaped("ambient", number)
if libc.prctl(39, 0, 0, 0, 0) != 1: escaped("new privileges are possible")
print("tried")`,
  },
]
