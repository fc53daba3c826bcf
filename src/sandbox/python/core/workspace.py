"""The files that a run left: listed when nothing runs any more, without following a link or opening anything but folders."""

import os
import stat

LISTED = 200
MAX_DEPTH = 16
UNREADABLE = 1 << 60  # bytes
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_all(folder, name):
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()


def listing(path, most_entries):
    """([{path, bytes}] of at most LISTED regular files, in order of path; how many more there are).

    Names that are not UTF-8 come with escapes. Folders deeper than MAX_DEPTH, and entries beyond `most_entries`, are not
    looked into: the count then says at least.
    """
    found = []
    seen = 0
    pending = [((), "")]
    while pending:
        names, shown = pending.pop()
        try:
            fd = _descend(path, names)
        except OSError:
            continue
        try:
            for entry in os.listdir(fd):
                seen += 1
                if seen > most_entries:
                    break
                status = os.stat(entry, dir_fd=fd, follow_symlinks=False)
                label = shown + os.fsencode(entry).decode("utf-8", "backslashreplace")
                if stat.S_ISDIR(status.st_mode):
                    if len(names) < MAX_DEPTH:
                        pending.append(((*names, entry), label + "/"))
                elif stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    # A second link may lead to a file of the machine's own (a tree on the same file system).
                    found.append({"path": label, "bytes": status.st_size})
        except OSError:
            continue
        finally:
            os.close(fd)
    found.sort(key=lambda file: file["path"])
    return found[:LISTED], max(0, len(found) - LISTED)


def _descend(path, names):
    fd = os.open(path, _FOLDER)
    for name in names:
        inner = os.open(name, _FOLDER, dir_fd=fd)
        os.close(fd)
        fd = inner
    return fd


def usage(path, most_entries):
    """(bytes on disk, entries) below a folder, by descriptor, so that no depth is out of reach; stops counting at
    `most_entries`. A folder that can't be read counts as more than any limit: what is in it can't be told."""
    total = count = 0
    try:
        pending = [os.open(path, _FOLDER)]
    except OSError:
        return 0, 0
    try:
        while pending and count <= most_entries:
            fd = pending.pop()
            try:
                for name in os.listdir(fd):
                    count += 1
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    total += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(os.open(name, _FOLDER, dir_fd=fd))
            except FileNotFoundError:
                continue  # it went while we looked
            except OSError:
                total += UNREADABLE
            finally:
                os.close(fd)
    finally:
        for fd in pending:
            os.close(fd)
    return total, count


def unlinked(proc, pid, box):
    """Bytes of files below `box` that have no name any more but are held open or mapped; `proc` is a descriptor of /proc.

    A walk over names does not see them, and they fill the disk all the same.
    """
    total = 0
    seen = set()
    try:
        fds = os.open(f"{pid}/fd", _FOLDER, dir_fd=proc)
    except OSError:
        return 0
    try:
        for name in os.listdir(fds):
            try:
                status = os.stat(name, dir_fd=fds)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                total += status.st_blocks * 512
    finally:
        os.close(fds)
    mapped = {}
    try:
        with open(os.open(f"{pid}/maps", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)) as maps:
            for line in maps:
                fields = line.split(None, 5)
                if len(fields) == 6 and fields[5].startswith(box) and fields[5].endswith("(deleted)\n"):
                    start, _, end = fields[0].partition("-")
                    if int(fields[4]) not in {inode for _, inode in seen}:
                        mapped[fields[4], fields[2]] = int(end, 16) - int(start, 16)
    except OSError:
        pass
    return total + sum(mapped.values())


def remove(parent, name):
    """Removes a folder and all below it, whatever its depth, names and modes. Errors leave the rest behind, silently.

    Folders are lifted to the top one by one, so that neither a path nor a stack of descriptors grows with the depth.
    """
    try:
        top = os.open(name, _FOLDER, dir_fd=parent)
    except OSError:
        return
    serial = 0
    try:
        progress = True
        while progress:
            progress = False
            for entry in os.listdir(top):
                status = os.stat(entry, dir_fd=top, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    os.unlink(entry, dir_fd=top)
                    continue
                os.chmod(entry, 0o700, dir_fd=top)
                inner = os.open(entry, _FOLDER, dir_fd=top)
                try:
                    for below in os.listdir(inner):
                        serial += 1
                        below_status = os.stat(below, dir_fd=inner, follow_symlinks=False)
                        if stat.S_ISDIR(below_status.st_mode):
                            os.chmod(below, 0o700, dir_fd=inner)  # a folder that moves must be writable itself
                            os.rename(below, f".{serial}.{entry[:8]}", src_dir_fd=inner, dst_dir_fd=top)
                            progress = True
                        else:
                            os.unlink(below, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(entry, dir_fd=top)
    except OSError:
        pass
    finally:
        os.close(top)
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        pass
