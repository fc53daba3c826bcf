"""The file tree that sandboxes of the namespaces tier see: made once, below the template, from read-only binds.

Each warden then copies this small mount table instead of the host's and lays its own tmpfs over the folders that can be
written, so that nothing has to be unmounted on the way to a parked sandbox (an umount waits for an RCU period).
"""

import os

from . import linux

WRITABLE = ("/work", "/tmp", "/dev/shm", "/home/sandbox", "/code")
STASH = "/.trees"  # second home of trees that lie where a tmpfs will cover them

_SYSTEM_TREES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (  # of the host's /etc, what libraries read and nobody minds
    "alternatives fonts ld.so.cache ld.so.conf ld.so.conf.d localtime matplotlibrc mime.types python3 python3.10 "
    "python3.11 python3.12 python3.13 python3.14 services protocols timezone"
).split()
_SSL = ("ssl/certs", "ssl/openssl.cnf", "ca-certificates.conf", "pki/tls/certs")  # certificates, never ssl/private
_DEVICES = ("null", "zero", "full", "random", "urandom")
_FILES = {
    "passwd": "root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "host.conf": "multi on\n",
    "resolv.conf": "",
}


def _make_folder(path):
    os.makedirs(path, mode=0o755, exist_ok=True)


def _make_file(path):
    _make_folder(os.path.dirname(path))
    with open(path, "a"):
        pass


def _bind(source, target, attributes):
    if os.path.isdir(source):
        _make_folder(target)
    else:
        _make_file(target)
    linux.mount(source, target, None, linux.MS_BIND | linux.MS_REC)
    linux.set_mount_attributes(target, attributes)


def covered(path):
    """Whether a tmpfs of the sandbox will lie over this path."""
    return any(path == place or path.startswith(place + "/") for place in WRITABLE)


def build(root, trees):
    """Builds the tree at the folder `root` (a mount of its own afterwards). Returns (has_proc, errno or 0)."""
    read_only = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
    linux.mount("sandbox", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755,size=16m,nr_inodes=4096")
    for path in _SYSTEM_TREES:
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.isdir(path):
            _bind(path, root + path, read_only)
    for place in (*WRITABLE, "/etc", "/dev", "/proc", "/run", "/var", STASH):
        _make_folder(root + place)
    for index, path in enumerate(trees):
        if covered(path):
            _bind(path, f"{root}{STASH}/{index}", read_only)
        # Before its tree is laid over it, the zygote imports from here.
        _bind(path, root + path, read_only)
    if not os.path.lexists(root + "/var/tmp"):
        os.symlink("/tmp", root + "/var/tmp")
    for name in (*_ETC, *_SSL):
        if os.path.exists(f"/etc/{name}"):
            _bind(os.path.realpath(f"/etc/{name}"), f"{root}/etc/{name}", read_only | linux.MOUNT_ATTR_NOEXEC)
    for name, text in _FILES.items():
        with open(f"{root}/etc/{name}", "w") as file:
            file.write(text)
    for name in _DEVICES:
        # Read-only keeps the node's times and rights as they are; what is behind it can be written all the same.
        read_only_device = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NOEXEC
        _bind(f"/dev/{name}", f"{root}/dev/{name}", read_only_device)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{root}/dev/{name}")
    problem = 0
    try:
        linux.mount("proc", root + "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    except OSError as error:
        problem = error.errno  # the container's /proc is masked: the kernel refuses a fuller one
    return problem == 0, problem


def enter(root):
    """Makes `root` the root of this mount namespace; the old one goes."""
    os.chdir(root)
    try:
        linux.pivot_root(".", ".")
        linux.unmount(".", linux.MNT_DETACH)
    except PermissionError:
        # Docker's default filter refuses pivot_root even where mounting is allowed.
        linux.mount(root, "/", None, linux.MS_MOVE)
        os.chroot(".")
    os.chdir("/")


def seal():
    """No more changes to the base: it is what every sandbox sees below its own folders."""
    flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    linux.mount(None, "/", None, flags)


def furnish(limits, trees):
    """In the warden's own mount namespace: one tmpfs, with the workspace's limits, behind all that can be written.

    Returns a descriptor of the tmpfs, for its fill level. The tmpfs is mounted on /tmp and its folders are bound to their
    places, /tmp last, so that its own root is nowhere to be seen and nothing needs an unmount.
    """
    options = f"mode=755,size={limits['workspace_bytes']},nr_inodes={limits['workspace_files'] + 8}"
    linux.mount("box", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
    box = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, place in enumerate(sorted(WRITABLE, key=lambda path: path == "/tmp")):
        os.mkdir(f"/tmp/{number}", 0o700)
        linux.mount(f"/tmp/{number}", place, None, linux.MS_BIND)
    for index, path in enumerate(trees):
        if covered(path):
            _make_folder(path)
            linux.mount(f"{STASH}/{index}", path, None, linux.MS_BIND | linux.MS_REC)
    return box


def mount_proc():
    """A /proc of this pid namespace. Returns a descriptor of one that shows all, for the warden alone, or None.

    The second mount hides everything but the viewer's own processes, and covers the first.
    """
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    try:
        linux.mount("proc", "/proc", "proc", flags)
        full = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        linux.mount("proc", "/proc", "proc", flags | linux.MS_RDONLY, "subset=pid,hidepid=invisible")
    except OSError:
        return None
    return full
