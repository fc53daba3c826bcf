"""Which system calls sandboxed processes may make, and why. generate.py turns this table into filters.json.

Variants:
  namespaces            a guest in namespaces of its own
  landlock              a guest in the pid space and network of the container, with a uid of its own
  landlock-shared-uid   the same, with the worker's uid
  landlock-shared-files the same, where the guest can also read files that this uid owns (an interpreter in the worker's
                        home): fchmod() and futimens() work on a descriptor that is open for reading, and Landlock does
                        not know them
  warden                the supervisor of a sandbox, once it has set everything up

What is not listed is absent: it answers ENOSYS, which programs understand as an older kernel.
"""

from typing import NamedTuple

import rules
from rules import ABSENT, ALLOW, REFUSE

ARCHES = ("x86_64", "aarch64")
VARIANTS = ("namespaces", "landlock", "landlock-shared-uid", "landlock-shared-files", "warden")


class Row(NamedTuple):
    names: tuple
    reason: str
    decisions: dict


def row(names, reason, guests=None, namespaces=ABSENT, landlock=ABSENT, shared=None, files=None, warden=ABSENT):
    """One line. `guests` is for all guests; `shared` is `landlock`, and `files` is `shared`, unless given."""
    if guests is not None:
        namespaces = landlock = guests
    shared = landlock if shared is None else shared
    files = shared if files is None else files
    return Row(tuple(names.split()), reason, dict(zip(VARIANTS, (namespaces, landlock, shared, files, warden))))


def both(names, reason, decision=ALLOW):
    return row(names, reason, guests=decision, warden=decision)


TABLE = (
    # --- Descriptors and files
    both("read readv pread64 preadv preadv2 write writev lseek", "reading and writing what is open"),
    row("pwrite64 pwritev pwritev2", "writing at a place", guests=ALLOW),
    both("close close_range dup dup2 dup3", "descriptors"),
    both("fcntl", "by command: no signals to others, no leases, no larger pipes", rules.FCNTL),
    row("ioctl", "by request number: what the standard library asks of files, pipes and sockets",
        namespaces=rules.IOCTL_NAMESPACES, landlock=rules.IOCTL_LANDLOCK, warden=rules.IOCTL_WARDEN),
    row("open", "opening files; the warden only looks", guests=ALLOW, warden=rules.OPEN_FOR_READING),
    row("openat", "opening files; the warden only looks", guests=ALLOW, warden=rules.OPEN_AT_FOR_READING),
    row("creat", "opening files", guests=ALLOW),
    both("stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getcwd",
         "looking at files"),
    both("getdents getdents64", "listing folders"),
    both("unlink unlinkat rmdir", "deleting"),
    row("mkdir mkdirat rename renameat renameat2 link linkat symlink symlinkat", "making and moving", guests=ALLOW),
    row("mknod", "no devices", guests=rules.NODE),
    row("mknodat", "no devices", guests=rules.NODE_AT),
    row("truncate ftruncate fallocate fsync fdatasync sync_file_range flock fadvise64 readahead", "contents of files",
        guests=ALLOW),
    row("chdir fchdir umask", "where one is", guests=ALLOW),
    row("copy_file_range sendfile", "how shutil copies", guests=ALLOW),
    row("fchmod", "rights of an open file", guests=ALLOW, files=REFUSE),
    row("chmod fchmodat", "rights by path: Landlock does not know them, and with a shared uid they are the worker's",
        guests=ALLOW, shared=REFUSE),
    row("chown lchown fchown fchownat", "owner: the same, and nobody needs it", guests=ALLOW, shared=REFUSE),
    row("utime utimes futimesat", "times by path: Landlock does not know them, and files that everybody may write to are many",
        namespaces=ALLOW, landlock=REFUSE),
    row("utimensat", "times by path: the same; without a path it is about an open file",
        namespaces=ALLOW, landlock=rules.TIMES_OF_A_DESCRIPTOR, files=REFUSE),
    row("getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr", "reading attributes, as shutil.copy2 does",
        guests=ALLOW),
    row("setxattr lsetxattr removexattr lremovexattr", "attributes by path: the same as times",
        namespaces=ALLOW, landlock=REFUSE),
    row("fsetxattr fremovexattr", "attributes of an open file: the same as rights", guests=ALLOW, shared=REFUSE),
    row("inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
        "watching folders shows what others do in them: names of their files, and in the read-only trees, which all"
        " sandboxes share with the host, which libraries and programs they use", guests=REFUSE),
    row("sync syncfs", "writes out the disks of the whole host", guests=REFUSE),
    row("name_to_handle_at open_by_handle_at", "files by handle go round every path rule", guests=REFUSE),
    row("fanotify_init fanotify_mark", "watches whole file systems", guests=REFUSE),
    row("quotactl quotactl_fd", "quotas belong to the host", guests=REFUSE),
    row("openat2 fchmodat2 cachestat splice tee vmsplice", "libraries have a way round; the less kernel the better"),
    row("setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr",
        "newer than this table: the older calls do"),

    # --- Waiting
    both("poll ppoll select pselect6", "waiting"),
    both("epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2", "waiting"),
    both("pipe pipe2 eventfd eventfd2 timerfd_create timerfd_settime timerfd_gettime signalfd signalfd4",
         "descriptors to wait for"),
    row("io_uring_setup io_uring_enter io_uring_register", "does work that no filter sees", guests=REFUSE),
    row("io_setup io_submit io_cancel io_destroy io_getevents io_pgetevents", "asynchronous files: nobody needs it"),

    # --- Memory
    both("mmap", "memory, but no huge pages", rules.NO_HUGETLB),
    both("mprotect munmap mremap brk", "memory; for the warden too, since Python loads modules late (os.wait4 does)"),
    both("madvise", "by advice: nothing that hides memory or breaks it", rules.MADVISE),
    row("msync mincore mlock mlock2 mlockall munlock munlockall", "memory, within RLIMIT_MEMLOCK", guests=ALLOW),
    both("membarrier futex futex_waitv set_robust_list rseq", "locks between threads"),
    row("memfd_create memfd_secret", "files beyond every disk limit and path rule", guests=REFUSE),
    row("shmget shmat shmdt shmctl", "memory that counts for nobody while it is not mapped", guests=REFUSE),
    row("semget semop semctl semtimedop msgget msgsnd msgrcv msgctl", "System V: kernel memory that outlives processes",
        guests=REFUSE),
    row("mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr", "the same", guests=REFUSE),
    row("remap_file_pages userfaultfd", "makes kernel races winnable", guests=REFUSE),
    row("process_vm_readv process_vm_writev process_madvise process_mrelease", "the memory of others", guests=REFUSE),
    row("move_pages migrate_pages", "the memory of others", guests=REFUSE),
    row("get_mempolicy set_mempolicy mbind set_mempolicy_home_node", "libnuma takes ENOSYS as a machine without NUMA"),
    row("pkey_alloc pkey_free pkey_mprotect mseal map_shadow_stack", "optional hardening of newer C libraries"),
    row("futex_wake futex_wait futex_requeue", "newer than this table: futex does"),

    # --- Time
    row("clock_gettime clock_getres clock_nanosleep timer_create",
        "clocks; the CPU clocks of other processes only where all of them are one's own",
        namespaces=ALLOW, landlock=rules.CLOCK_OF_ONESELF, warden=ALLOW),
    both("nanosleep gettimeofday time times", "time"),
    row("timer_settime timer_gettime timer_getoverrun timer_delete setitimer getitimer alarm", "timers", guests=ALLOW),
    row("clock_settime clock_adjtime settimeofday adjtimex", "the clock belongs to the host", guests=REFUSE),

    # --- Processes and threads
    row("clone", "processes, but no namespaces; in the landlock tier threads only; for the warden the thread that waits"
        " for figures which a guest can hold back",
        namespaces=rules.CLONE_PROCESS, landlock=rules.CLONE_THREAD, warden=rules.CLONE_THREAD),
    row("fork vfork", "processes; in the landlock tier nothing would sweep them", namespaces=ALLOW, landlock=REFUSE),
    row("clone3", "its flags are in memory, where a filter can't look; ENOSYS makes libc use clone"),
    row("execve", "programs", namespaces=ALLOW, landlock=REFUSE),
    row("execveat", "ENOSYS makes fexecve() go by a path, which mounts and Landlock judge"),
    both("exit exit_group wait4 waitid restart_syscall", "ends"),
    both("getpid getppid gettid getpgrp getuid geteuid getgid getegid getresuid getresgid getgroups capget",
         "who one is"),
    row("getpgid getsid", "others' only where all are one's own", namespaces=ALLOW, landlock=rules.ONESELF),
    row("setsid setpgid", "groups and sessions; without children there is no use", namespaces=ALLOW, landlock=REFUSE),
    row("setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset",
        "who one is stays as it is", guests=REFUSE),
    row("set_tid_address", "thread start", guests=ALLOW),
    row("prctl", "by option", namespaces=rules.PRCTL_NAMESPACES, landlock=rules.PRCTL, warden=rules.PRCTL),
    row("arch_prctl", "by option: thread start and questions about the processor", guests=rules.ARCH_PRCTL),
    row("personality", "no switching off of address randomisation", guests=rules.PERSONALITY),
    row("ptrace kcmp get_robust_list", "looks into others", guests=REFUSE),
    row("seccomp", "no filters that hide failures from the sandbox's own processes", guests=REFUSE),
    row("landlock_create_ruleset landlock_add_rule landlock_restrict_self", "is in force already", guests=REFUSE),

    # --- Signals
    both("rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigreturn sigaltstack pause",
         "receiving signals"),
    row("kill", "in the landlock tier only oneself; 0 and negative ones are groups",
        namespaces=ALLOW, landlock=rules.OWN_PID, warden=ALLOW),
    row("tgkill rt_sigqueueinfo rt_tgsigqueueinfo", "threads of oneself (raise, pthread_kill)",
        namespaces=ALLOW, landlock=rules.OWN_PID, warden=ALLOW),
    row("tkill", "names a thread without its process; libc uses tgkill", namespaces=ALLOW, landlock=REFUSE),
    row("pidfd_open pidfd_send_signal", "processes by descriptor", namespaces=ALLOW, landlock=REFUSE, warden=ALLOW),
    row("pidfd_getfd", "descriptors of others", guests=REFUSE),

    # --- Limits and scheduling: the warden has the guest's uid, so none of this may reach it
    row("prlimit64", "of oneself: a limit on CPU time would kill the warden; the warden reads",
        guests=rules.ONESELF, warden=rules.READ_LIMITS_OF_ANY),
    both("getrlimit getrusage sysinfo uname getcpu getrandom", "figures"),
    row("setrlimit", "limits can only be lowered", guests=ALLOW),
    row("sched_setaffinity sched_setscheduler sched_setparam sched_setattr",
        "of oneself: a warden that gets no CPU watches nothing", guests=rules.ONESELF),
    row("sched_getscheduler sched_getparam sched_getattr sched_rr_get_interval", "reading",
        namespaces=ALLOW, landlock=rules.ONESELF),
    row("sched_getaffinity", "reading; pthread_getattr_np() of another thread lives with ENOSYS, not with EPERM",
        namespaces=ALLOW, landlock=rules.ONESELF_OR_ABSENT, warden=ALLOW),
    both("sched_yield sched_get_priority_max sched_get_priority_min", "scheduling"),
    row("setpriority", "nicer is possible, for oneself", namespaces=rules.PRIORITY_OF_ONESELF, landlock=REFUSE),
    row("getpriority", "reading", namespaces=ALLOW, landlock=rules.PRIORITY_READ),
    row("ioprio_set ioprio_get", "would slow down the warden or the worker", guests=REFUSE),

    # --- Sockets: a network of one's own, or none
    row("socket", "AF_UNIX, TCP and UDP; none in the landlock tier, which has the container's network",
        namespaces=rules.SOCKET, landlock=REFUSE),
    row("socketpair", "within the process; datagrams could be addressed to others",
        namespaces=rules.SOCKETPAIR, landlock=rules.SOCKETPAIR_STREAM),
    row("bind connect listen accept accept4", "connections; without them a pair stays a pair",
        namespaces=ALLOW, landlock=REFUSE),
    row("sendto", "send() is sendto() without an address", namespaces=ALLOW, landlock=rules.SEND_WITHOUT_ADDRESS,
        warden=rules.SEND_WITHOUT_ADDRESS),
    both("recvfrom recvmsg shutdown getsockname getpeername getsockopt", "talking over what is connected"),
    row("sendmsg", "the same, and descriptors in flight: files that fill the disk where neither a walk nor a look at open"
        " files finds them", namespaces=ALLOW, landlock=REFUSE, warden=ALLOW),
    row("sendmmsg recvmmsg", "many datagrams at once", namespaces=ALLOW),
    row("setsockopt", "by level and option", namespaces=rules.SET_SOCKET_OPTION, landlock=rules.SET_SOCKET_OPTION_UNIX,
        warden=rules.SET_SOCKET_OPTION_UNIX),

    # --- What belongs to the host
    row("unshare setns", "a namespace of one's own gives all capabilities inside it", guests=REFUSE),
    row("mount umount2 pivot_root chroot mount_setattr move_mount open_tree fsopen fsconfig fsmount fspick",
        "the file tree stays as it was made", guests=REFUSE),
    row("statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules listns", "newer than this table"),
    row("bpf perf_event_open", "programs and counters in the kernel", guests=REFUSE),
    row("add_key request_key keyctl", "keyrings are in no namespace", guests=REFUSE),
    row("init_module finit_module delete_module kexec_load kexec_file_load reboot", "the kernel itself", guests=REFUSE),
    row("swapon swapoff acct syslog vhangup sethostname setdomainname", "host administration", guests=REFUSE),
    row("iopl ioperm modify_ldt uselib lookup_dcookie nfsservctl", "old doors", guests=REFUSE),
)

# Calls that one architecture does not have. Everything else must exist on both, so that no misspelling goes unseen.
ONLY_ON = {
    "x86_64": frozenset(
        "access alarm arch_prctl chmod chown creat dup2 epoll_create epoll_wait eventfd fork futimesat getdents"
        " getpgrp inotify_init ioperm iopl lchown link lstat mkdir mknod modify_ldt open pause pipe poll readlink"
        " rename rmdir select signalfd stat symlink time unlink uselib utime utimes vfork".split()
    ),
}

# Numbers of calls that libseccomp 2.5.4 can't name. They are the same on every architecture, as all new calls are.
NUMBERS = {
    "futex_wake": 454,
    "futex_wait": 455,
    "futex_requeue": 456,
    "statmount": 457,
    "listmount": 458,
    "lsm_get_self_attr": 459,
    "lsm_set_self_attr": 460,
    "lsm_list_modules": 461,
    "mseal": 462,
    "setxattrat": 463,
    "getxattrat": 464,
    "listxattrat": 465,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_getattr": 468,
    "file_setattr": 469,
    "listns": 470,
}


def exists(name, arch):
    return all(name not in names or arch == only_arch for only_arch, names in ONLY_ON.items())


def decisions(variant, arch):
    """name -> decision, of every call of the table that the architecture has."""
    table = {}
    for line in TABLE:
        for name in line.names:
            if name in table:
                raise ValueError(f"{name} is listed twice")
            if exists(name, arch):
                table[name] = line.decisions[variant]
    return table
