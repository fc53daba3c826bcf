import { type Attack, NAMESPACES } from '../support/attack.js'

/** Something done to a file of the host that everybody may write to, by its path. */
const toBait = (name: string, body: string, more: Partial<Attack> = {}): Attack => ({
  name,
  code: `path = BAIT["folder"] + "/writable"\n${body}\nprint("tried")`,
  ...more,
})

export const files: readonly Attack[] = [
  {
    name: 'times and rights of the host’s devices',
    // Landlock does not know them: there the times of an open device are anybody's who may write to it.
    tiers: NAMESPACES,
    code: `for name in ("null", "zero", "full", "random", "urandom"):
    path = "/dev/" + name
    attempt(lambda: os.utime(path), path)
    attempt(lambda: os.utime(os.open(path, os.O_WRONLY)), path, "open")
    attempt(lambda: os.chmod(path, 0o600), path)
    attempt(lambda: os.chown(path, os.getuid(), -1), path)
with open("/dev/null", "w") as null: null.write("x")
os.close(os.open("/dev/null", os.O_CREAT | os.O_TRUNC | os.O_RDWR))
if open("/dev/zero", "rb", buffering=0).read(4) != bytes(4): escaped("no zeros")
print("tried")`,
  },
  toBait(
    'a file of the host: read by every way round',
    `for way in (path, "../" * 40 + path[1:], "/proc/1/root" + path, "/proc/self/root/../.." + path, f"/proc/{BAIT['pids'][0]}/root" + path, "/proc/self/cwd/../../../../.." + path, "/dev/fd/../../.." + path, "/./" + path, "//" + path):
    attempt(lambda: open(way).read(), way)`,
  ),
  toBait(
    'a file of the host: write, append, truncate',
    `for mode in ("w", "a", "r+", "x"): attempt(lambda: open(path, mode), mode)
attempt(lambda: os.truncate(path, 0), "truncate")
attempt(lambda: os.open(path, os.O_RDONLY | os.O_TRUNC), "O_TRUNC")`,
  ),
  toBait(
    'a file of the host: O_PATH and then /proc/self/fd',
    `try: fd = os.open(path, os.O_PATH)
except OSError: fd = -1
if fd >= 0:
    attempt(lambda: open(f"/proc/self/fd/{fd}").read(), "read")
    attempt(lambda: open(f"/dev/fd/{fd}", "w"), "write")
    attempt(lambda: os.chmod(f"/proc/self/fd/{fd}", 0o777), "chmod")
    attempt(lambda: os.utime(f"/proc/self/fd/{fd}"), "utime")`,
  ),
  toBait(
    'a file of the host: delete and rename',
    `attempt(lambda: os.unlink(path), "unlink")
attempt(lambda: os.rename(path, path + "2"), "rename")
attempt(lambda: os.rename(path, "mine"), "rename in")
attempt(lambda: os.replace(path, "mine"), "replace in")`,
  ),
  toBait(
    'chmod of a file of the worker',
    `attempt(lambda: os.chmod(path, 0o600))
for name, arguments in (("chmod", (path.encode(), 0o600)), ("fchmodat", (-100, path.encode(), 0o600)), ("fchmodat2", (-100, path.encode(), 0o600, 0))):
    succeeds(name, *arguments)`,
  ),
  toBait(
    'chown of a file of the worker',
    `for name in ("chown", "lchown"): succeeds(name, path.encode(), os.getuid(), os.getgid())
succeeds("fchownat", -100, path.encode(), os.getuid(), os.getgid(), 0)`,
  ),
  toBait(
    'utime of a file of the worker',
    `attempt(lambda: os.utime(path, (0, 0)))
for name in ("utime", "utimes"): succeeds(name, path.encode(), ctypes.create_string_buffer(32))
for name in ("utimensat", "futimesat"): succeeds(name, -100, path.encode(), ctypes.create_string_buffer(32), 0)`,
  ),
  toBait(
    'extended attributes of a file of the worker',
    `attempt(lambda: os.setxattr(path, "user.mark", b"x"))
attempt(lambda: os.removexattr(path, "user.bait"))
succeeds("lsetxattr", path.encode(), b"user.mark", b"x", 1, 0)`,
  ),
  toBait(
    'a descriptor that is open for reading: fchmod and futimens of what one may read',
    `import sysconfig
for path in (os.__file__, sys.executable, sysconfig.get_path("stdlib")):
    fd = os.open(path, os.O_RDONLY)
    mode = os.fstat(fd).st_mode & 0o7777
    succeeds("fchmod", fd, mode)
    succeeds("fsetxattr", fd, b"user.mark", b"x", 1, 0)
    succeeds("fchown", fd, os.getuid() + 1, -1)
    os.close(fd)`,
  ),
  toBait(
    'a hard link to a file of the host',
    `attempt(lambda: os.link(path, "link"), "host")
for source in ("/etc/hostname", "/usr/bin/env", os.__file__, "/dev/null"):
    attempt(lambda: os.link(source, "link" + str(len(source))), source)
    attempt(lambda: os.link(source, "/code/link" + str(len(source))), source)`,
  ),
  toBait(
    'a symbolic link out of the workspace, followed by ourselves',
    `for name, target in (("a", path), ("b", "/"), ("c", "/proc/1/root"), ("d", "../../../../.." + path)):
    os.symlink(target, name)
attempt(lambda: open("a").read(), "a")
attempt(lambda: os.listdir("b" + os.path.dirname(path)), "b")
attempt(lambda: os.listdir("c/"), "c")
attempt(lambda: open("d", "w"), "d")`,
  ),
  toBait(
    'a symbolic link to a secret, left for whoever collects the files',
    `for name, target in (("people.txt", "/etc/shadow"), ("host.txt", path), ("env.txt", "/proc/self/environ"), ("all", "/")):
    os.symlink(target, name)`,
  ),
  toBait(
    'a rename out of the workspace',
    `open("mine", "w").close()
for folder in (BAIT["folder"], "/", "/usr/lib", "/run", "/etc", "/dev", "/proc/self/cwd/../.."):
    attempt(lambda: os.rename("mine", folder + "/" + BAIT["mark"]), folder)
    attempt(lambda: os.symlink("x", folder + "/" + BAIT["mark"]), folder)
    attempt(lambda: os.link("mine", folder + "/" + BAIT["mark"]), folder)`,
  ),
  toBait(
    'a folder swapped for a link while it is looked at',
    `import threading
os.mkdir("real")
def swap():
    for _ in range(300):
        try:
            os.rename("real", "other"); os.symlink("/", "real"); os.unlink("real"); os.rename("other", "real")
        except OSError: pass
thread = threading.Thread(target=swap)
thread.start()
while thread.is_alive():
    attempt(lambda: open("real" + path).read())
thread.join()`,
  ),
  toBait(
    'new files in every folder of the root',
    `for folder in ("/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/lib", "/bin", "/run", "/var", "/var/lib", "/dev", "/proc", "/home", "/root", "/opt", "/srv", "/mnt", "/boot", "/sys", BAIT["folder"]):
    attempt(lambda: os.close(os.open(f"{folder}/{BAIT['mark']}", os.O_CREAT | os.O_WRONLY)), folder)
    attempt(lambda: os.mkdir(f"{folder}/{BAIT['mark']}"), folder)
    attempt(lambda: os.mkfifo(f"{folder}/{BAIT['mark']}"), folder)`,
  ),
  toBait(
    'O_TMPFILE in folders of the host',
    `for folder in ("/", "/usr", BAIT["folder"], "/run", "/var/tmp/..", "/dev"):
    attempt(lambda: os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), folder)`,
  ),
  {
    name: 'libraries: a module, a .pth, a .so or a cache for all later runs',
    code: `import site, sysconfig
places = {os.path.dirname(os.__file__), os.path.dirname(os.path.realpath(sys.executable)), *map(sysconfig.get_path, ("purelib", "platlib", "stdlib")), *site.getsitepackages()}
for place in sorted(places):
    if not os.path.isdir(place):  # Debian has some on its path that only pip makes
        attempt(lambda: os.makedirs(place), "makedirs", place)
        continue
    for name in ("sitecustomize.py", "evil.pth", "__pycache__/os.pyc"):
        attempt(lambda: os.close(os.open(os.path.join(place, name), os.O_CREAT | os.O_WRONLY)), place, name)
    attempt(lambda: os.utime(place, (0, 0)), "utime", place) if os.stat(place).st_uid != os.getuid() else None
for path in (os.__file__, os.path.realpath(sys.executable)):
    attempt(lambda: os.open(path, os.O_WRONLY), path)
print("tried")`,
  },
  {
    name: 'a library mapped writable and shared, so that the page cache is everybody’s',
    code: `import mmap
for path in (os.__file__, sys.executable):
    fd = os.open(path, os.O_RDONLY)
    attempt(lambda: mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE), path)
    os.close(fd)
print("tried")`,
  },
  {
    name: 'password hashes, keys, tokens, logs and histories of the host',
    code: `for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssl/private", "/root/.ssh", "/root/.bash_history", "/root/", "/home/", "/var/log/", "/var/run/secrets/kubernetes.io/serviceaccount/token", "/run/secrets", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/.dockerenv", "/etc/machine-id", "/etc/hostname", "/var/lib/", "/var/spool/cron"):
    attempt(lambda: os.close(os.open(path, os.O_RDONLY)) if os.path.exists(path) and not (path == "/home/" and os.listdir(path) == ["sandbox"]) else os.close(-1), path)
print("tried")`,
  },
  {
    name: "/etc: only what libraries need, and people's names are not among it",
    code: `attempt(lambda: os.close(-1) if "/root:" not in open("/etc/passwd").read() else None, "passwd")
attempt(lambda: open("/etc/fstab").read(), "fstab")
attempt(lambda: open("/etc/crontab").read(), "crontab")
print("tried")`,
  },
  {
    name: 'devices: disks, memory, terminals, KVM, fuse, loop, ports',
    code: `for name in ("sda", "vda", "nvme0n1", "mem", "kmem", "port", "kmsg", "tty", "tty0", "console", "ptmx", "pts/ptmx", "pts/0", "kvm", "fuse", "loop-control", "loop0", "mapper/control", "uinput", "input/event0", "dri/card0", "nvidia0", "vhost-net", "vsock", "hpet", "rtc0", "cpu/0/msr", "btrfs-control", "userfaultfd", "vfio/vfio", "snapshot", "autofs"):
    attempt(lambda: os.close(os.open("/dev/" + name, os.O_RDONLY | os.O_NONBLOCK)), name)
print("tried")`,
  },
  {
    name: 'mknod: devices of one’s own',
    code: `for kind in (0o060000, 0o020000):
    for major, minor in ((8, 0), (254, 0), (1, 1), (1, 3), (5, 0)):
        attempt(lambda: os.mknod(f"n{kind}{major}{minor}", kind | 0o666, os.makedev(major, minor)))
        attempt(lambda: os.mknod(f"/tmp/n{kind}{major}{minor}", kind | 0o666, os.makedev(major, minor)))
print("tried")`,
  },
  {
    name: '/proc/sys: settings of the kernel',
    code: `for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/yama/ptrace_scope", "kernel/unprivileged_bpf_disabled", "kernel/randomize_va_space", "kernel/panic_on_oops", "kernel/sysrq", "net/ipv4/ip_forward", "vm/overcommit_memory", "vm/drop_caches", "fs/suid_dumpable", "fs/binfmt_misc/register", "user/max_user_namespaces"):
    attempt(lambda: os.close(os.open("/proc/sys/" + name, os.O_WRONLY)), name)
print("tried")`,
  },
  {
    name: '/proc: kcore, kallsyms, sysrq, keys, kmsg, bus, irq',
    code: `for name in ("kcore", "kallsyms", "sysrq-trigger", "keys", "kmsg", "bus/pci/00", "irq", "acpi", "scsi/scsi", "timer_list", "sched_debug", "config.gz", "1/environ", "modules", "iomem", "vmallocinfo", "slabinfo", "pagetypeinfo"):
    attempt(lambda: os.close(os.open("/proc/" + name, os.O_RDONLY)), name)
print("tried")`,
  },
  {
    name: '/sys: cgroups, firmware, debug, power, devices',
    code: `for path in ("/sys", "/sys/fs/cgroup", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/firmware", "/sys/class/thermal", "/sys/fs/bpf", "/sys/kernel/tracing"):
    attempt(lambda: os.close(os.open(path, os.O_RDONLY)), path)
print("tried")`,
  },
  {
    name: '/proc/self: settings of one’s own process that the watch relies on',
    code: `for name, text in (("oom_score_adj", "-1000"), ("oom_score_adj", "0"), ("oom_adj", "-17"), ("coredump_filter", "0xff"), ("clear_refs", "5"), ("timerslack_ns", "1"), ("attr/current", "x"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1"), ("setgroups", "allow"), ("projid_map", "0 0 1"), ("autogroup", "19"), ("make-it-fail", "1"), ("loginuid", "0"), ("mem", "")):
    attempt(lambda: os.close(os.open("/proc/self/" + name, os.O_WRONLY)), name, text)
print("tried")`,
  },
  {
    name: 'open_by_handle_at: a file by its number',
    code: `handle = ctypes.create_string_buffer(struct.pack("II", 128, 0), 136)
refused("name_to_handle_at", -100, b"/usr", handle, ctypes.create_string_buffer(4), 0)
fd = os.open("/usr", os.O_RDONLY)
refused("open_by_handle_at", fd, ctypes.create_string_buffer(struct.pack("IIQ", 8, 1, 2), 136), 0)
print("tried")`,
  },
  {
    name: 'fanotify: watch a whole file system',
    code: 'refused("fanotify_init", 0, 0)\nrefused("fanotify_mark", 0, 1, 1, -100, 0)\nprint("tried")',
  },
  {
    name: 'inotify: names in folders of the host',
    code: 'for name in ("inotify_init", "inotify_init1"): refused(name, 0)\nrefused("inotify_add_watch", 0, b"/tmp", 0x100)\nprint("tried")',
  },
  {
    name: 'F_SETLEASE and F_NOTIFY: hold up whoever opens a file',
    code: `import fcntl
fd = os.open(os.__file__, os.O_RDONLY)
attempt(lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK))
attempt(lambda: fcntl.fcntl(fd, 1026, 1))
attempt(lambda: fcntl.fcntl(fd, 1033, 1), "F_ADD_SEALS")
print("tried")`,
  },
  {
    name: 'a lock on a library that others would wait for',
    tiers: NAMESPACES,
    code: `import fcntl
fd = os.open(os.__file__, os.O_RDONLY)
attempt(lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
print("tried")`,
  },
  {
    name: 'ioctl on files: immutable flags, quotas, clones, freezes, encryption',
    code: `import fcntl
fd = os.open("/usr", os.O_RDONLY)
for request in (0x40086602, 0x80086601, 0x401C5820, 0xC0045877, 0xC0045878, 0x40049409 | 1 << 8, 0xC0185879, 0x40086610, 0x4020940D, 0x5000940E, 0x00005331):
    attempt(lambda: fcntl.ioctl(fd, request, bytearray(256)), hex(request))
print("tried")`,
  },
  {
    name: 'TIOCSTI, TIOCLINUX, TIOCCONS and TIOCSCTTY: type into a terminal',
    code: `import fcntl
for fd in (0, 1, 2):
    for request in (0x5412, 0x541C, 0x541D, 0x540E, 0x5437, 1 << 32 | 0x5412):
        succeeds("ioctl", fd, request, b"\\x01")
attempt(lambda: os.open("/dev/tty", os.O_RDWR), "terminal")
attempt(lambda: os.openpty(), "pty")
print("tried")`,
  },
  {
    name: 'setuid programs: su, mount, ping, passwd, newuidmap',
    tiers: NAMESPACES,
    code: `import subprocess
for program in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/sudo", "/usr/bin/newuidmap", "/usr/bin/pkexec", "/usr/bin/chsh"):
    if not os.path.exists(program): continue
    done = subprocess.run([program, "-c", "id -u"] if program.endswith("su") else [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
    if done.stdout.strip() == b"0": escaped(program)
done = subprocess.run(["/usr/bin/mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, timeout=5) if os.path.exists("/usr/bin/mount") else None
if done and done.returncode == 0: escaped("mount")
print("tried")`,
  },
  {
    name: 'a setuid program of one’s own',
    tiers: NAMESPACES,
    code: `import shutil, subprocess
shutil.copy("/usr/bin/id", "id")
try: os.chmod("id", 0o6755)
except OSError: pass
try: os.chown("id", 0, 0); escaped("chown")
except OSError: pass
done = subprocess.run(["./id", "-u"], capture_output=True, timeout=5)
if done.stdout.strip() == b"0": escaped("root")
try: os.setxattr("id", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000")); escaped("file capabilities")
except OSError: pass
print("tried")`,
  },
  {
    name: 'ld.so: preload, audit and library path into a privileged program',
    tiers: NAMESPACES,
    code: `import subprocess
env = {"LD_PRELOAD": os.getcwd() + "/evil.so", "LD_AUDIT": os.getcwd() + "/evil.so", "LD_LIBRARY_PATH": os.getcwd(), "GCONV_PATH": os.getcwd(), "LD_DEBUG": "all", "LD_DEBUG_OUTPUT": "/etc/" + BAIT["mark"]}
open("evil.so", "w").write("x")
if os.path.exists("/usr/bin/su"):
    subprocess.run(["/usr/bin/su", "--version"], env=env, capture_output=True, timeout=5)
attempt(lambda: open("/etc/ld.so.preload", "w"))
attempt(lambda: os.open("/etc/ld.so.cache", os.O_WRONLY))
if os.path.exists("/etc/" + BAIT["mark"]): escaped("debug output")
print("tried")`,
  },
]
